"""A project of three scripts without any framework, and configs of TIPC for it, to test the tester with.

Each script does what it is told by ``faults.json`` in its folder: {script: what}, where what is ``fail``, ``hang``,
``nothing`` (ends well and writes nothing), ``unsupported``, ``daemon`` (leaves a process behind).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

SCRIPT = """
import json, os, subprocess, sys, time
NAME = os.path.basename(__file__).removesuffix(".py")
arguments = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
with open("calls.txt", "a") as file:
    file.write(" ".join([NAME, *sys.argv[1:]]) + "\\n")
faults = json.load(open("faults.json")) if os.path.exists("faults.json") else {}
fault = faults.get(NAME + (" --test-only" if "--test-only" in sys.argv else ""), "")
print("this is", NAME, "at", os.environ.get("TRUELINE_STAGE"))
if fault == "fail":
    sys.exit("something is wrong in " + NAME)
if fault == "unsupported":
    print("no kernel for this")
    sys.exit(77)
if fault == "hang":
    subprocess.Popen(["sleep", "300"])
    subprocess.Popen(["setsid", "sleep", "300"])
    time.sleep(300)
if fault == "daemon":
    subprocess.Popen(["setsid", "sleep", "300"])
if fault == "grow":
    held = bytearray(600 << 20)
    time.sleep(300)
if fault.startswith("sleep"):
    time.sleep(float(fault.split()[1]))
if fault != "nothing":
    for key, name in (("--output-dir", "latest.pt"), ("--save-inference-dir", "inference.json")):
        if key in arguments:
            os.makedirs(arguments[key], exist_ok=True)
            with open(os.path.join(arguments[key], name), "w") as file:
                file.write(repr(time.time_ns()))
"""

SHORT = """===========================train_params===========================
model_name:tiny
python:{python}
gpu_list:-1
use-gpu:False
--epochs:lite_train_lite_infer=5|whole_train_whole_infer=90
--output-dir:./output/
--batch-size:lite_train_lite_infer=4|whole_train_whole_infer=128
--pretrained:null
train_model_name:latest.pt
--data-path:./lite_data
##
trainer:norm_train
norm_train:train.py
##
===========================eval_params===========================
eval:train.py --test-only
##
===========================infer_params===========================
--save-inference-dir:./output/tiny_infer/
--pretrained:
norm_export:export.py --model=tiny
##
train_model:./pretrained/tiny.pt
infer_export:export.py --model=tiny
##
inference:infer.py
--use-gpu:False
--batch-size:1|3
--model-dir:./output/tiny_infer/
--img-path:./images/demo.jpg
--benchmark:True
"""

LONG = """===========================train_params===========================
model_name:tiny
python:python3.7
gpu_list:0|0,1
Global.use_gpu:True|True
Global.auto_cast:null|amp
Global.epoch_num:lite_train_lite_infer=2|whole_train_whole_infer=50
Global.save_model_dir:./output/
Train.loader.batch_size_per_card:lite_train_lite_infer=8|whole_train_whole_infer=16
Global.pretrained_model:null
train_model_name:latest
train_infer_img_dir:./images/
null:null
##
trainer:norm_train|pact_train
norm_train:tools/train.py -c tiny.yml -o
pact_train:deploy/quant.py -c tiny.yml -o
fpgm_train:null
distill_train:null
null:null
null:null
##
===========================eval_params===========================
eval:null
null:null
##
===========================infer_params===========================
Global.save_inference_dir:./output/
Global.checkpoints:
norm_export:tools/export_model.py -c tiny.yml -o
quant_export:deploy/export.py -c tiny.yml -o
fpgm_export:null
distill_export:null
export1:null
export2:null
inference_dir:null
train_model:./inference/a|./inference/b
infer_export:tools/export_model.py -c tiny.yml -o|null
infer_quant:False|True
inference:tools/predict.py
--use_gpu:True|False
--enable_mkldnn:True|False
--cpu_threads:1|6
--rec_batch_num:1
--use_tensorrt:True|False
--precision:fp32|fp16|int8
--model_dir:
--image_dir:./inference/images/
--save_log_path:null
--benchmark:True
null:null
===========================infer_benchmark_params==========================
random_infer_input:[{float32,[3,640,640]}];[{float32,[3,960,960]}]
===========================train_benchmark_params==========================
batch_size:8
fp_items:fp32|fp16
epoch:2
--profiler_options:batch_range=[10,20];state=GPU;tracer_option=Default;profile_path=model.profile
flags:FLAGS_eager_delete_tensor_gb=0.0;FLAGS_conv_workspace_size_limit=4096
"""


def short_config(**changes: str) -> str:
    """The short form for the project, with lines changed: ``trainer="amp_train"`` by key."""
    lines = SHORT.format(python=sys.executable).split("\n")
    for key, value in changes.items():
        name = key if any(line.startswith(f"{key}:") for line in lines) else "--" + key.replace("_", "-")
        matching = [number for number, line in enumerate(lines) if line.startswith(f"{name}:")]
        lines[matching[-1]] = f"{name}:{value}"
    return "\n".join(lines)


def make_project(folder: Path, config: str | None = None, **faults: str) -> Path:
    """Writes the project; gives the path of its config."""
    for name in ("train", "export", "infer"):
        (folder / f"{name}.py").write_text(SCRIPT, encoding="utf-8")
    set_faults(folder, **faults)
    path = folder / "train_infer_python.txt"
    path.write_text(short_config() if config is None else config, encoding="utf-8")
    return path


def set_faults(folder: Path, **faults: str) -> None:
    (folder / "faults.json").write_text(json.dumps({name.replace("__", " --"): what for name, what in faults.items()}))


def calls(folder: Path) -> list[str]:
    """The scripts that were run, in order."""
    path = folder / "calls.txt"
    return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []
