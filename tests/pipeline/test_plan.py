"""The plan is, command for command, what TIPC's scripts would run.

The expected lists are written out by hand from the documents (the order of the loops, of the arguments, and what is
left out), not made by a program.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.formats.test_tipc import REPAIRED
from tests.pipeline.tipc_project import LONG, SHORT, short_config
from trueline.errors import UsageError
from trueline.formats.tipc import parse_tipc
from trueline.pipeline import pipeline
from trueline.pipeline.config import read_config, tipc_recipe
from trueline.pipeline.plan import plan_pipeline
from trueline.pipelines import CheckKind, Plan, StageKind

MODE = "lite_train_lite_infer"
AMP = "Global.use_amp=True Global.scale_loss=1024.0 Global.use_dynamic_loss_scaling=True"


def planned(text: str, mode: str = MODE, **options: str) -> Plan:
    return plan_pipeline([tipc_recipe(parse_tipc(text))], mode, **options)


def lines(plan: Plan) -> list[str]:
    return [" ".join(command.text.split()) for command in plan.commands]


def test_the_short_form() -> None:
    log = "./test_tipc/output/tiny/lite_train_lite_infer"
    prefix = f"{log}/norm_train_gpus_-1_autocast_False_nodes_1"
    folder = f"{prefix}.log"
    assert lines(planned(SHORT.format(python="python3.7"))) == [
        f"python3.7 train.py --output-dir={folder} --epochs=5 --batch-size=4",
        f"python3.7 train.py --test-only --pretrained={folder}/latest.pt > {prefix}_eval.log 2>&1",
        f"python3.7 export.py --model=tiny --pretrained={folder}/latest.pt --save-inference-dir={folder} "
        f"> {prefix}_export.log 2>&1",
        f"python3.7 infer.py --use-gpu=False --model-dir={folder} --batch-size=1 --benchmark=True "
        f"> {log}/python_infer_cpu_batchsize_1.log 2>&1",
        f"python3.7 infer.py --use-gpu=False --model-dir={folder} --batch-size=3 --benchmark=True "
        f"> {log}/python_infer_cpu_batchsize_3.log 2>&1",
    ]


def test_the_amp_config_of_the_document() -> None:
    """Only lines 13 and 14 differ from the norm config; two items of ``gpu_list`` are a card and two cards."""
    text = (
        short_config(gpu_list="0|0,1")
        .replace("norm_train", "amp_train")
        .replace("amp_train:train.py", "amp_train:train.py --amp_level=O2")
    )
    plan = planned(text, "whole_train_whole_infer")
    first, launched = (line for line in lines(plan) if "--amp_level" in line)
    log = "./test_tipc/output/tiny/whole_train_whole_infer"
    assert first.split()[1:] == [
        "train.py", "--amp_level=O2", f"--output-dir={log}/amp_train_gpus_0_autocast_True_nodes_1.log", "--epochs=90",
        "--batch-size=128",
    ]  # fmt: skip
    assert launched.split()[1:] == [
        "-m", "paddle.distributed.launch", "--gpus=0,1", "train.py", "--amp_level=O2",
        f"--output-dir={log}/amp_train_gpus_0,1_autocast_True_nodes_1.log", "--epochs=90", "--batch-size=128",
    ]  # fmt: skip
    stage = plan.stages[0]
    assert (stage.precision, stage.trainer, stage.devices) == ("O2", "amp_train", "0")
    assert stage.command is not None and stage.command.environment == {"autocast": "True"}
    assert plan.stages[1].command is not None
    assert plan.stages[1].command.environment["CUDA_VISIBLE_DEVICES"] == "0"


def test_machines() -> None:
    plan = planned(short_config(gpu_list="192.168.0.1,192.168.0.2;0,1").replace("norm_train", "fleet_train"))
    folder = "./test_tipc/output/tiny/lite_train_lite_infer/fleet_train_gpus_0,1_autocast_False_nodes_2.log"
    assert lines(plan)[0].split()[1:] == [
        "-m", "paddle.distributed.launch", "--ips=192.168.0.1,192.168.0.2", "--gpus=0,1", "train.py",
        f"--output-dir={folder}", "--epochs=5", "--batch-size=4",
    ]  # fmt: skip


def test_nine_cards_are_no_machines() -> None:
    plan = planned(short_config(gpu_list="0,1,2,3,4,5,6,7,8"))
    assert "--gpus=0,1,2,3,4,5,6,7,8" in lines(plan)[0]
    assert any("9 cards" in warning.message for warning in plan.warnings)


def long_chain(log: str, trainer: str, gpu: str, autocast: str) -> list[str]:
    """One training of the long form and what follows it, by hand."""
    name = f"{trainer}_gpus_{gpu}_autocast_{autocast}"
    folder = f"{log}/{name}"
    launch = "" if len(gpu) == 1 else f" -m paddle.distributed.launch --gpus={gpu}"
    script = "tools/train.py" if trainer == "norm_train" else "deploy/quant.py"
    export = "tools/export_model.py" if trainer == "norm_train" else "deploy/export.py"
    amp = f" Global.auto_cast=amp Train.loader.batch_size_per_card=8 {AMP}" if autocast == "amp" else ""
    start = f"python3.7{launch} {script} -c tiny.yml -o Global.use_gpu=True"
    start += f" Global.save_model_dir={folder} Global.epoch_num=2"
    found = [start + (amp or " Train.loader.batch_size_per_card=8")]
    found.append(
        f"python3.7 {export} -c tiny.yml -o Global.checkpoints={folder}/latest Global.save_inference_dir={folder} "
        f"> {log}/{name}_nodes_1_export.log 2>&1"
    )
    on_gpu = [("True", "fp32"), ("True", "fp16"), ("False", "fp32")]
    if trainer == "pact_train":
        on_gpu = [("True", "fp32"), ("True", "fp16"), ("True", "int8"), ("False", "fp32")]
    for tensorrt, precision in on_gpu:
        found.append(
            f"python3.7 tools/predict.py --use_gpu=True --use_tensorrt={tensorrt} --precision={precision} "
            f"--model_dir={folder} --rec_batch_num=1 --image_dir=./images/ --benchmark=True "
            f"> {log}/python_infer_gpu_usetrt_{tensorrt}_precision_{precision}_batchsize_1.log 2>&1"
        )
    on_cpu = {"True": ("fp32", "fp16", "int8"), "False": ("fp32", "int8")}
    if trainer == "pact_train":
        on_cpu = {"True": ("int8",), "False": ("int8",)}
    for mkldnn, precisions in on_cpu.items():
        for threads in ("1", "6"):
            for precision in precisions:
                found.append(
                    f"python3.7 tools/predict.py --use_gpu=False --enable_mkldnn={mkldnn} --cpu_threads={threads} "
                    f"--model_dir={folder} --rec_batch_num=1 --image_dir=./images/ --benchmark=True "
                    f"--precision={precision} > {log}/python_infer_cpu_usemkldnn_{mkldnn}_threads_{threads}"
                    f"_precision_{precision}_batchsize_1.log 2>&1"
                )
    return found


def test_the_long_form() -> None:
    log = "./test_tipc/output/tiny/lite_train_lite_infer"
    expected: list[str] = []
    for gpu, autocast, trainer in (
        ("0", "null", "norm_train"),
        ("0", "null", "pact_train"),
        ("0", "amp", "norm_train"),
        ("0", "amp", "pact_train"),
        ("0,1", "null", "norm_train"),
        ("0,1", "null", "pact_train"),
        ("0,1", "amp", "norm_train"),
        ("0,1", "amp", "pact_train"),
    ):
        expected += long_chain(log, trainer, gpu, autocast)
    assert len(expected) == 100
    assert lines(planned(LONG)) == expected


def test_models_that_are_there() -> None:
    log = "./test_tipc/output/tiny/whole_infer"
    short = lines(planned(SHORT.format(python="python3"), "whole_infer"))
    assert short == [
        "python3 export.py --model=tiny --pretrained=./pretrained/tiny.pt --save-inference-dir=./output/tiny_infer/ "
        f"> {log}/export_0.log 2>&1",
        "python3 infer.py --use-gpu=False --model-dir=./output/tiny_infer/ --batch-size=1 --img-path=./images/demo.jpg "
        f"--benchmark=True > {log}/python_infer_cpu_batchsize_1.log 2>&1",
        "python3 infer.py --use-gpu=False --model-dir=./output/tiny_infer/ --batch-size=3 --img-path=./images/demo.jpg "
        f"--benchmark=True > {log}/python_infer_cpu_batchsize_3.log 2>&1",
    ]
    plan = planned(LONG, "whole_infer", gpu="2")
    long = lines(plan)
    assert long[0] == (
        "python3.7 tools/export_model.py -c tiny.yml -o Global.checkpoints=./inference/a "
        f"Global.save_inference_dir=./inference/a > {log}/_export_0.log 2>&1"
    )
    assert len([line for line in long if "--model_dir=./inference/a" in line]) == 13
    assert len([line for line in long if "--model_dir=./inference/b" in line]) == 8
    assert not any("export" in line.split(" >")[0] and "/b" in line for line in long)
    assert all(command.environment == {"CUDA_VISIBLE_DEVICES": "2"} for command in plan.commands)


def test_benchmarks() -> None:
    """One card: once with the profiler, once without; four cards where nothing is said."""
    plan = planned(LONG.replace("trainer:norm_train|pact_train", "trainer:norm_train"), "benchmark_train",
                   benchmark="dynamic_bs8_fp16_DP_N1C1")  # fmt: skip
    folder = "./test_tipc/output/tiny/benchmark_train/norm_train_gpus_0_autocast_amp"
    start = (
        f"python tools/train.py -c tiny.yml -o Global.use_gpu=True Global.save_model_dir={folder} Global.epoch_num=2"
    )
    end = "Global.auto_cast=amp Train.loader.batch_size_per_card=8"
    profiler = "--profiler_options=batch_range=[10,20];state=GPU;tracer_option=Default;profile_path=model.profile"
    assert lines(plan) == [f"{start} {end} {profiler} {AMP}", f"{start} {end} {AMP}"]
    first, second = (stage for stage in plan.stages if stage.kind is StageKind.TRAIN)
    assert second.waits == (first.name,), "both write into one folder"
    assert first.command is not None
    assert first.command.environment["FLAGS_conv_workspace_size_limit"] == "4096"
    whole = planned(LONG, "benchmark_train")
    assert len(whole.commands) == 4, "two precisions, two trainers"
    assert all("--gpus=0,1,2,3" in line for line in lines(whole))
    eight = planned(LONG, "benchmark_train", benchmark="dynamic_bs16_fp32_DP_N1C8")
    assert all("Global.epoch_num=16" in line and "=16 " in f"{line} " for line in lines(eight))
    with pytest.raises(UsageError, match="dynamic_bs8_fp32_DP_N1C1"):
        planned(LONG, "benchmark_train", benchmark="bs8")
    with pytest.raises(UsageError, match="train_benchmark_params"):
        planned(SHORT, "benchmark_train", benchmark="dynamic_bs8_fp32_DP_N1C1")


def test_a_mode_that_is_not_there_is_never_a_default_training() -> None:
    with pytest.raises(UsageError, match="no mode 'lite_train_lite_inferr'; write one of lite_train_lite_infer"):
        planned(SHORT, "lite_train_lite_inferr")
    plan = planned(SHORT, "lite_train_whole_infer")
    assert "--epochs=5" in lines(plan)[0], "the value of the other mode that trains as long"
    assert {warning.line for warning in plan.warnings} == {6, 8}
    only = short_config(epochs="lite_train_lite_infer=5")
    with pytest.raises(UsageError, match="line 6: --epochs has no value for the mode whole_train_whole_infer"):
        planned(only, "whole_train_whole_infer")


CONFIG = short_config()


@pytest.mark.parametrize("name", REPAIRED)
def test_repaired_configs_run_the_same_commands(name: str) -> None:
    plan = planned(REPAIRED[name][0])
    assert lines(plan) == lines(planned(SHORT))
    assert plan.warnings


BROKEN = {
    "no devices": (short_config(gpu_list="gpu0"), "line 4: 'gpu0' are no devices"),
    "empty gpu_list": (short_config(gpu_list=""), "line 4: gpu_list: is empty"),
    "no trainer": (short_config(trainer="null"), "line 13: trainer: is empty"),
    "a trainer without a line": (LONG.replace("trainer:norm", "trainer:nrom"), "line 15: no line nrom_train:"),
    "nothing to train": (CONFIG.replace("norm_train:train.py", "norm_train:null"), "line 13: .*nothing to train"),
    "nothing to infer on": (CONFIG.replace("--use-gpu:False", "--use-gpu:"), "line 28: --use-gpu: is an empty list"),
    "strange device": (CONFIG.replace("--use-gpu:False", "--use-gpu:npu"), "line 28: 'npu' is no device"),
    "no model name": (short_config(model_name=""), "line 2: model_name: has no value"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_configs_that_would_run_something_else_are_rejected(name: str) -> None:
    text, message = BROKEN[name]
    with pytest.raises(UsageError, match=message):
        planned(text)


def test_trainers_of_the_short_form() -> None:
    plan = planned(short_config(trainer="norm_train|amp_train"))
    assert [line.split()[1] for line in lines(plan) if "--epochs" in line] == ["train.py", "train.py"]
    assert any("amp_train has no line of its own" in warning.message for warning in plan.warnings)
    own = short_config(trainer="norm_train|amp_train").replace(
        "norm_train:train.py", "norm_train:train.py\namp_train:train.py --amp_level=O1"
    )
    assert [stage.precision for stage in planned(own).stages if stage.kind is StageKind.TRAIN] == ["fp32", "O1"]


def test_checks_between_the_commands() -> None:
    plan = planned(short_config())
    found = {
        (stage.check, stage.candidate.split("/")[1], stage.reference.split("/")[1])
        for stage in plan.stages
        if stage.check
    }
    assert found == {
        (CheckKind.NEIGHBOURS, "eval", "train"),
        (CheckKind.NEIGHBOURS, "export", "eval"),
        (CheckKind.NEIGHBOURS, "infer_cpu_batch_size_1", "export"),
        (CheckKind.NEIGHBOURS, "infer_cpu_batch_size_3", "export"),
    }


def test_models_that_are_used_as_they_are_are_compared_with_each_other() -> None:
    plan = planned(short_config(infer_export="null"), "whole_infer")
    (check,) = [stage for stage in plan.stages if stage.check]
    assert (check.candidate, check.reference) == ("model_0/infer_cpu_batch_size_3", "model_0/infer_cpu_batch_size_1")


def test_precision_and_pairs() -> None:
    both = plan_pipeline(
        [tipc_recipe(parse_tipc(text)) for text in (short_config(), short_config().replace("norm_train", "amp_train"))],
        MODE,
    )
    kinds = {stage.check: stage for stage in both.stages if stage.check in (CheckKind.PRECISION, CheckKind.PAIR)}
    assert kinds[CheckKind.PAIR].reference == "norm_train_gpus_-1_autocast_False/train"
    alone = planned(short_config().replace("norm_train", "amp_train"))
    check = next(stage for stage in alone.stages if stage.check is CheckKind.PRECISION)
    assert check.reference == kinds[CheckKind.PAIR].reference, "what the norm config leaves in the same folder"
    assert not any(stage.check is CheckKind.PAIR for stage in alone.stages)


def test_one_run_is_about_one_model() -> None:
    recipes = [tipc_recipe(parse_tipc(text)) for text in (short_config(), short_config(model_name="other"))]
    with pytest.raises(UsageError, match="one model"):
        plan_pipeline(recipes, MODE)
    with pytest.raises(UsageError, match="is there twice"):
        plan_pipeline([recipes[0], recipes[0]], MODE)


def test_the_shipped_examples_are_planned() -> None:
    """Their lists were compared with what the scripts of TIPC run, command for command; here their lengths are kept."""
    counts = {
        "train_infer_python.txt": 6,
        "train_amp_infer_python.txt": 6,
        "train_pairs_infer_python.txt": 12,
        "train_linux_cpu_normal_normal_infer_python_linux_cpu.txt": 27,
    }
    examples = Path(__file__).resolve().parents[2] / "examples"
    found = sorted(examples.glob("*/test_tipc/configs/*/*.txt"))
    assert len(found) == 8
    for path in found:
        report = pipeline(path, MODE, plan=True)
        assert len(report.plan.commands) == counts[path.name], path
        assert report.plan.warnings == ()
        assert not report.results


YAML_CONFIG = """
model: tiny
python: python3.7
output: ./test_tipc/output
devices: ["0", "0,1"]
timeout: {train: 600, infer: 60}
memory: 8 GB
train:
  command: tools/train.py -c tiny.yml -o
  save: Global.save_model_dir
  checkpoint: latest
  epochs: {argument: Global.epoch_num, lite_train: 2, whole_train: 50}
  batch_size: {argument: Train.batch, lite_train_lite_infer: 8}
  precisions: {fp32: "", O1: "--amp_level=O1"}
eval: {command: tools/eval.py, weights: Global.checkpoints}
export: {command: tools/export.py, weights: Global.checkpoints, save: Global.save_inference_dir}
infer:
  command: tools/predict.py
  model: --model_dir
  loops: {--backend: [eager, onnx], --cpu_threads: [1, 4], --batch-size: [1, 3]}
  skip: [{backend: onnx, threads: 4}]
  arguments: {--benchmark: true}
"""


def yaml_recipe(folder: Path, text: str = YAML_CONFIG) -> object:
    path = folder / "pipeline.yaml"
    path.write_text(text, encoding="utf-8")
    return read_config(path)


def test_the_yaml_form(tmp_path: Path) -> None:
    plan = plan_pipeline([yaml_recipe(tmp_path)], MODE)  # type: ignore[list-item]
    found = lines(plan)
    log = "./test_tipc/output/tiny/lite_train_lite_infer"
    folder = f"{log}/norm_train_gpus_0_autocast_fp32"
    assert found[:4] == [
        f"python3.7 tools/train.py -c tiny.yml -o Global.save_model_dir={folder} Global.epoch_num=2 Train.batch=8",
        f"python3.7 tools/eval.py Global.checkpoints={folder}/latest > {folder}_nodes_1_eval.log 2>&1",
        f"python3.7 tools/export.py Global.checkpoints={folder}/latest Global.save_inference_dir={folder} "
        f"> {folder}_nodes_1_export.log 2>&1",
        f"python3.7 tools/predict.py --cpu_threads=1 --model_dir={folder} --batch-size=1 --backend=eager "
        f"--benchmark=True > {folder}_python_infer_cpu_threads_1_batchsize_1_backend_eager.log 2>&1",
    ]
    assert len(found) == 4 * (3 + 6)
    trains = [stage for stage in plan.stages if stage.kind is StageKind.TRAIN]
    assert [stage.precision for stage in trains] == ["fp32", "O1", "fp32", "O1"]
    assert "--amp_level=O1" in lines(plan)[9]
    assert {stage.timeout for stage in trains} == {600.0} and {stage.memory for stage in plan.stages} == {8 * 10**9}


def test_every_command_of_the_yaml_form_has_its_own_log(tmp_path: Path) -> None:
    plan = plan_pipeline([yaml_recipe(tmp_path)], MODE)  # type: ignore[list-item]
    logs = [command.log for command in plan.commands if command.log]
    assert len(set(logs)) == len(logs) == 4 * (2 + 6)


@pytest.mark.parametrize(
    ("change", "devices"),
    [
        (("tools/predict.py", "tools/predict.py --use_gpu=True"), {"gpu"}),
        (("tools/predict.py", "tools/predict.py --device cuda:0"), {"gpu"}),
        (("tools/predict.py", "tools/predict.py --device cpu --use-gpu=False"), {"cpu"}),
        (("--benchmark: true", "--use-gpu: true"), {"gpu"}),
        (("loops: {", "loops: {--use-gpu: [true, false], "), {"gpu", "cpu"}),
        (("loops: {", "loops: {--device: [cuda, cpu], "), {"gpu", "cpu"}),
    ],
)
def test_inference_on_a_gpu_is_called_so(tmp_path: Path, change: tuple[str, str], devices: set[str]) -> None:
    plan = plan_pipeline([yaml_recipe(tmp_path, YAML_CONFIG.replace(*change))], MODE)  # type: ignore[list-item]
    stages = [stage for stage in plan.stages if stage.kind is StageKind.INFER]
    assert {stage.settings["device"] for stage in stages} == devices
    for stage in stages:
        assert stage.command is not None and f"python_infer_{stage.settings['device']}_" in stage.command.log
        assert f"/infer_{stage.settings['device']}_" in stage.name


def test_retries_are_those_of_the_command_line_or_of_the_kind(tmp_path: Path) -> None:
    recipe = yaml_recipe(tmp_path, YAML_CONFIG + "retries: {train: 0, infer: 2}\n")
    for given, trained, inferred in ((None, 0, 2), (1, 1, 1)):
        plan = plan_pipeline([recipe], MODE, retries=given)  # type: ignore[list-item]
        found = {stage.kind: stage.retries for stage in plan.stages}
        assert found[StageKind.TRAIN] == trained and found[StageKind.INFER] == inferred
        assert found[StageKind.CHECK] == 0


BAD_YAML = {
    "not YAML": ("model: [", "line 1: no valid YAML"),
    "unknown": (YAML_CONFIG.replace("checkpoint:", "chekpoint:"), "line 11: .*did you mean checkpoint"),
    "twice": (YAML_CONFIG + "model: again\n", "line 23: model: stands here twice"),
    "no model": (YAML_CONFIG.replace("model: tiny", "prepare: x"), "model: is missing"),
    "a list": (YAML_CONFIG.replace('{fp32: "", O1: "--amp_level=O1"}', "[fp32, O1]"), "line 14: .* is a list"),
    "memory": (YAML_CONFIG.replace("8 GB", "8 pounds"), "line 7: memory: is '8 pounds'"),
    "timeout": (YAML_CONFIG.replace("infer: 60", "infer: soon"), "line 6: timeout.infer: is 'soon'"),
    "retries": (YAML_CONFIG.replace("memory:", "retries: {infer: 0.5}\nmemory:"), "line 7: retries.infer: is 0.5"),
    "few retries": (YAML_CONFIG.replace("memory:", "retries: -1\nmemory:"), "line 7: retries: is -1"),
    "skip": (YAML_CONFIG.replace("{backend: onnx, threads: 4}", "{backends: onnx}"), "line 21: infer.skip.0.backends"),
    "mode": (YAML_CONFIG.replace("lite_train: 2, whole_train", "whole_train"), "line 12: .*no value"),
    "empty loop": (YAML_CONFIG.replace("[1, 3]", "[]"), "line 20: infer.loops.--batch-size: is an empty list"),
    "text": ("just text", "is text; names with values"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_YAML)
def test_mistakes_in_yaml_are_pointed_at(tmp_path: Path, name: str) -> None:
    text, message = BAD_YAML[name]
    with pytest.raises(UsageError, match=message):
        plan_pipeline([yaml_recipe(tmp_path, text)], MODE)  # type: ignore[list-item]


def test_numbers_beside_a_config_of_tipc(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text(short_config(), encoding="utf-8")
    (tmp_path / "train.numbers.yaml").write_text("readers: {infer: {outputs: {npy: out/*.npy}}}\n", encoding="utf-8")
    plan = plan_pipeline([read_config(path)], MODE)
    assert plan.options == {"readers": {"infer": {"outputs": {"npy": "out/*.npy"}}}}


def test_many_settings_are_planned_in_a_moment(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    sizes = ",".join(map(str, range(20_000)))
    path.write_text("model: m\ntrain: {command: train.py, checkpoint: last.pt}\nexport: {command: export.py}\n"
                    f"infer: {{command: infer.py, loops: {{--batch-size: [{sizes}]}}}}\n")  # fmt: skip
    began = time.process_time()
    plan = pipeline(path, MODE, plan=True).plan
    assert time.process_time() - began < 20.0, "what it takes grows with the number of commands, not with its square"
    assert len(plan.commands) == 20_002
    assert max(len(stage.waits) for stage in plan.stages) < 16
