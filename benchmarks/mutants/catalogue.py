"""Fifteen faults, each in both example projects: what is changed in which file, and which stage is to blame.

A change must apply exactly once, so that a fault cannot vanish when an example is edited. ``config`` names the file of
the example that is run: a plain training, or trainings in single and in mixed precision side by side; on a GPU one
config does both, in bfloat16 and in float16.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

PADDLE, TORCH = "paddle_mobilenet", "torch_transformer"
NORMAL, PAIRS = "train_infer_python.txt", "train_pairs_infer_python.txt"
CUDA = "cuda.yaml"


@dataclass(frozen=True, slots=True)
class Change:
    """Some text of a file of the project, and what takes its place."""

    file: str
    old: str
    new: str

    def apply(self, project: Path) -> None:
        path = project / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file}: {self.old!r} is there {text.count(self.old)} times, not once")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault of one project. ``stage`` is the kind of stage that is to be blamed, ``says`` a word that must be in
    the reason where another one would be no proof that this very fault was seen."""

    kind: str
    project: str
    stage: str
    changes: tuple[Change, ...]
    config: str = NORMAL
    says: str = ""


def _both(
    kind: str, stage: str, paddle: tuple[Change, ...], torch: tuple[Change, ...], config: str = NORMAL, says: str = ""
) -> tuple[Mutant, Mutant]:
    return (
        Mutant(kind, PADDLE, stage, paddle, config, says),
        Mutant(kind, TORCH, stage, torch, config, says),
    )


def _in(file: str, old: str, new: str) -> tuple[Change, ...]:
    return (Change(file, old, new),)


_LOAD_PADDLE = "    network.set_state_dict(paddle.load(options.pretrained))\n    answering"
_LOAD_TORCH = '    network.load_state_dict(torch.load(options.pretrained, map_location="cpu", weights_only=True))\n'
_STATE_PADDLE = "    state = paddle.load(options.pretrained)\n"
_STATE_TORCH = '    state = torch.load(options.pretrained, map_location="cpu", weights_only=True)\n'

_STALE = '    options = parsed()\n    options.pretrained = options.pretrained.replace("latest", "epoch_0")\n'
_BAKED = (
    "class Baked(Answering):\n"
    "    def forward(self, pictures: paddle.Tensor) -> paddle.Tensor:\n"
    "        pictures = pictures.reshape([16, 3, SIZE, SIZE])\n"
    "        return paddle.nn.functional.softmax(self.network(pictures), axis=-1)\n\n\n"
)
_OLD_LOG = (
    "    if options.batch_size == 3:\n"
    '        print("number 0: idle, prob: 0.981200")  # the log of an earlier run, shown again\n'
    "        return\n"
    "    predictor = Predictor(options)\n"
)

_RATE, _SMALL_RATE = "type=float, default=0.05)", "type=float, default=0.002)"

EXPORTED = (
    *_both(
        "untrained weights exported",
        "export",
        _in("export.py", _LOAD_PADDLE, "    answering"),
        _in("export.py", _LOAD_TORCH, ""),
    ),
    *_both(
        "dropped bias",
        "export",
        _in(
            "export.py",
            _LOAD_PADDLE,
            _STATE_PADDLE
            + '    state["head.bias"] = paddle.zeros_like(state["head.bias"])\n'
            + "    network.set_state_dict(state)\n    answering",
        ),
        _in(
            "export.py",
            _LOAD_TORCH,
            _STATE_TORCH
            + '    state["head.bias"] = torch.zeros_like(state["head.bias"])\n'
            + "    network.load_state_dict(state)\n",
        ),
    ),
    *_both(
        "wrong batch axis",
        "export",
        _in(
            "export.py",
            "answering = Answering(network)",
            "answering = paddle.nn.Sequential(network, paddle.nn.Softmax(axis=0))",
        ),
        _in(
            "export.py",
            "answering = Answering(network)",
            "answering = torch.nn.Sequential(network, torch.nn.Softmax(dim=0))",
        ),
    ),
    *_both(
        "stale checkpoint",
        "export",
        (
            Change(
                "train.py",
                '        print(f"epoch {epoch}: loss',
                "        options.output_dir.mkdir(parents=True, exist_ok=True)\n"
                "        if epoch == 0:\n"
                '            paddle.save(network.state_dict(), str(options.output_dir / "epoch_0.pdparams"))\n'
                '        print(f"epoch {epoch}: loss',
            ),
            Change("export.py", "    options = parsed()\n", _STALE),
        ),
        (
            Change(
                "train.py",
                '        print(f"epoch {epoch}: loss',
                "        options.output_dir.mkdir(parents=True, exist_ok=True)\n"
                "        if epoch == 0:\n"
                '            torch.save(network.state_dict(), options.output_dir / "epoch_0.pt")\n'
                '        print(f"epoch {epoch}: loss',
            ),
            Change("export.py", "    options = parsed()\n", _STALE),
        ),
    ),
    *_both(
        "baked-in shape",
        "export",
        (
            Change("export.py", "def parsed()", _BAKED + "def parsed()"),
            Change("export.py", "answering = Answering(network)", "answering = Baked(network)"),
        ),
        _in("export.py", "(example,), dynamic_shapes=({0: count},))", "(example,))"),
    ),
    *_both(
        "wrong dtype at export",
        "export",
        _in(
            "export.py",
            _LOAD_PADDLE,
            _STATE_PADDLE
            + '    state = {name: one.astype("float16").astype(one.dtype) for name, one in state.items()}\n'
            + "    network.set_state_dict(state)\n    answering",
        ),
        _in("export.py", _LOAD_TORCH, _LOAD_TORCH + "    network.half().float()\n"),
    ),
)

EVALUATED = (
    # paddle.jit.save writes the graph of evaluation whatever the mode of the network is; in its own evaluation, at the
    # end of the training and of the checkpoint, the mode matters.
    Mutant(
        "missing eval()",
        PADDLE,
        "train",
        (
            Change("train.py", "    network.eval()\n", ""),
            Change("train.py", "Answering(network).eval()", "Answering(network)"),
        ),
    ),
    Mutant("missing eval()", TORCH, "export", _in("export.py", "    answering.eval()\n", "")),
)

ASKED = (
    *_both(
        "wrong normalisation",
        "infer",
        _in("infer.py", "/ 255.0 - mean) / deviation", "/ 255.0)"),
        _in("infer.py", "(recordings - mean) / scale", "(recordings - recordings.mean()) / recordings.std()"),
    ),
    *_both(
        "channel swap",
        "infer",
        _in("infer.py", "values = prepared(pictures)", "values = prepared(pictures[..., ::-1])"),
        _in("infer.py", "values = prepared(recordings)", "values = prepared(recordings)[..., [0, 4, 2, 3, 1, 5]]"),
    ),
    *_both(
        "NaN",
        "infer",
        _in("infer.py", "[0.229, 0.224, 0.225]", "[0.229, 0.0, 0.225]"),
        _in("infer.py", "[4.0, 0.5, 2.0, 12.0, 1.0, 3.0]", "[4.0, 0.5, 2.0, 12.0, 0.0, 3.0]"),
    ),
    *_both(
        "double softmax",
        "infer",
        _in(
            "infer.py",
            "        return self._answers.copy_to_cpu()\n",
            "        answers = np.exp(self._answers.copy_to_cpu())\n"
            "        return answers / answers.sum(axis=-1, keepdims=True)\n",
        ),
        _in(
            "infer.py",
            "self._network(torch.from_numpy(values).to(self._device)).cpu()",
            "self._network(torch.from_numpy(values).to(self._device)).softmax(dim=-1).cpu()",
        ),
    ),
    *_both(
        "one stale log",
        "infer",
        _in("infer.py", "    predictor = Predictor(options)\n", _OLD_LOG),
        _in("infer.py", "    predictor = Predictor(options)\n", _OLD_LOG),
    ),
)

LOWERED = (
    *_both(
        "AMP off",
        "train",
        _in("train.py", "auto_cast(enable=lowered, level", "auto_cast(enable=False, level"),
        _in("precision.py", 'enabled=self.level == "O1")', "enabled=False)"),
        config=PAIRS,
        says="low",
    ),
    *_both(
        "missing unscale",
        "train",
        (
            Change(
                "train.py",
                "            scaler.scale(loss).backward()\n"
                "            scaler.step(optimizer)\n"
                "            scaler.update()\n",
                "            (loss * (1024.0 if lowered else 1.0)).backward()\n            optimizer.step()\n",
            ),
        ),
        _in(
            "precision.py",
            "        self.scaler.step(self.optimizer)\n        self.scaler.update()\n",
            "        self.optimizer.step()\n",
        ),
        config=PAIRS,
        says="scale",
    ),
    # A small learning rate is no fault; with it, weights that are kept in bfloat16 alone hardly move. In torch those
    # are the copies of the weights: its scaler does not take gradients in low precision on a GPU.
    *_both(
        "lost bf16 updates",
        "train",
        (
            Change("train.py", _RATE, _SMALL_RATE),
            Change(
                "train.py",
                "            scaler.update()\n",
                "            scaler.update()\n"
                "            if lowered:\n"
                "                for one in network.parameters():\n"
                '                    one.set_value(one.astype("bfloat16").astype("float32"))\n',
            ),
        ),
        (
            Change("train.py", _RATE, _SMALL_RATE),
            Change(
                "precision.py",
                "                own.copy_(master)\n        self.schedule.step()\n",
                "                own.copy_(master)\n                master.copy_(own)\n        self.schedule.step()\n",
            ),
        ),
        config=PAIRS,
        says="update",
    ),
)

CONTROLS = tuple(
    Mutant("small learning rate", project, "", _in("train.py", _RATE, _SMALL_RATE), config)
    for project, config in ((PADDLE, NORMAL), (TORCH, PAIRS))
)
"""What is changed beside a fault and is none: alone it must not be called one."""

MUTANTS = (*EXPORTED, *EVALUATED, *ASKED, *LOWERED)

ON_CUDA = tuple(replace(one, config=CUDA) for one in MUTANTS if one.project == TORCH)
CONTROLS_ON_CUDA = tuple(replace(one, config=CUDA) for one in CONTROLS if one.project == TORCH)
