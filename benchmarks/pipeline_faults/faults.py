"""Faults that people met between a training, its export and its use, each with a report in which somebody told of it,
or of the one that is nearest to it.

They were written down, and divided by hash into a half to work with and one that is only counted, before the checks
were changed for them. A fault changes one thing of a ``Way`` in one stage; ``needs`` says of which projects it can be.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from benchmarks.pipeline_faults.projects import Classifier, Project

_GITHUB = "https://github.com/"


@dataclass(slots=True)
class Way:
    """What the stages do: ``load`` makes the model that the export exports from the trained one, ``exported`` what it
    exports of it; ``prepare`` and ``run`` are the inference's."""

    project: Project
    load: Callable[[Classifier, Classifier], torch.nn.Module]
    exported: Callable[[torch.nn.Module], torch.nn.Module]
    prepare: Callable[[Any], Any]
    run: Callable[[Any], Callable[[Any], Any]]


@dataclass(frozen=True, slots=True)
class Fault:
    """``blamed`` is the stage in which it is."""

    source: str
    blamed: str
    plant: Callable[[Way], None]
    needs: str = ""

    def fits(self, name: str, project: Project) -> bool:
        wanted = {"": True, "pictures": project.pictures, "norm": name in ("resnet", "mobilenet", "saturated"),
                  "transformer": name in ("vit", "bert"), "mode": name != "vit"}  # fmt: skip
        return wanted[self.needs]


def half_of(name: str) -> str:
    """``work`` or ``counted``; nothing but the name decides."""
    return ("work", "counted")[hashlib.sha256(name.encode()).digest()[0] % 2]


# What the export loads.


def _loading(change: Callable[[Classifier, Classifier], torch.nn.Module]) -> Callable[[Way], None]:
    def plant(way: Way) -> None:
        way.load = change

    return plant


def _changed(change: Callable[[dict[str, torch.Tensor], Mapping[str, torch.Tensor]], None]) -> Callable[[Way], None]:
    """``change`` is given the weights that are loaded, and those of a model that was never trained."""

    def load(trained: Classifier, fresh: Classifier) -> torch.nn.Module:
        weights = {name: value.clone() for name, value in trained.state_dict().items()}
        change(weights, fresh.state_dict())
        fresh.load_state_dict(weights)
        return fresh.eval()

    return _loading(load)


def _keep(fresh_where: Callable[[str], bool]) -> Callable[[Way], None]:
    """Some weights are not loaded, silently."""

    def change(weights: dict[str, torch.Tensor], fresh: Mapping[str, torch.Tensor]) -> None:
        weights.update({name: value for name, value in fresh.items() if fresh_where(name)})

    return _changed(change)


def _first_halved(weights: dict[str, torch.Tensor], _: Mapping[str, torch.Tensor]) -> None:
    name = next(name for name, value in weights.items() if value.ndim == 4 or "word_embeddings" in name)
    weights[name] = weights[name] / 2


def _statistics_lost(weights: dict[str, torch.Tensor], _: Mapping[str, torch.Tensor]) -> None:
    for name, value in weights.items():
        if name.endswith("running_mean"):
            value.zero_()
        elif name.endswith("running_var"):
            value.fill_(1.0)


def _through_half(weights: dict[str, torch.Tensor], _: Mapping[str, torch.Tensor]) -> None:
    for name, value in weights.items():
        if value.is_floating_point():
            weights[name] = value.half().float()


def _moved_statistics(trained: Classifier, fresh: Classifier) -> torch.nn.Module:
    fresh.load_state_dict(trained.state_dict())
    with torch.no_grad():
        fresh.train()(torch.randn(4, 3, 32, 32))
    return fresh.eval()


def _training(trained: Classifier, fresh: Classifier) -> torch.nn.Module:
    fresh.load_state_dict(trained.state_dict())
    return fresh.train()


def _wider_norms(trained: Classifier, fresh: Classifier) -> torch.nn.Module:
    fresh.load_state_dict(trained.state_dict())
    for one in fresh.modules():
        if isinstance(one, torch.nn.BatchNorm2d | torch.nn.LayerNorm):
            one.eps = 1e-2
    return fresh.eval()


# What the export exports.


class _Behind(torch.nn.Module):
    """The model with something behind it."""

    def __init__(self, model: torch.nn.Module, behind: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.model, self.behind = model, behind

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.behind(self.model(values))


class _Ahead(_Behind):
    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.model(self.behind(values))  # type: ignore[no-any-return]


def _exporting(change: Callable[[torch.nn.Module], torch.nn.Module]) -> Callable[[Way], None]:
    def plant(way: Way) -> None:
        way.exported = change

    return plant


def _behind(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Way], None]:
    return _exporting(lambda model: _Behind(model, change))


def _only_first(values: torch.Tensor) -> torch.Tensor:
    return values[:1].expand(values.shape)


def _mixed(values: torch.Tensor) -> torch.Tensor:
    return values.transpose(0, 1).reshape(values.shape)


def _without_dropout_switch(model: torch.nn.Module) -> torch.nn.Module:
    return _Ahead(model, lambda values: torch.nn.functional.dropout(values, 0.1, training=True))


# What the inference prepares, and how it runs.


def _preparing(change: Callable[[Any, Callable[[Any], Any]], Any]) -> Callable[[Way], None]:
    """``change`` is given the raw samples and the project's own preparation."""

    def plant(way: Way) -> None:
        own = way.prepare
        way.prepare = lambda raw: change(raw, own)

    return plant


def _running(change: Callable[[Any], Any]) -> Callable[[Way], None]:
    """``change`` is given what the model gave."""

    def plant(way: Way) -> None:
        own = way.run
        way.run = lambda model: lambda values: change(own(model)(values))

    return plant


def _plain(raw: Any, scale: float) -> Any:
    return np.ascontiguousarray(np.asarray(raw).transpose(0, 3, 1, 2) / scale, np.float32)


def _padded(raw: Any, prepare: Callable[[Any], Any]) -> Any:
    made = prepare(raw)
    made[:, :, -4:, :] = 0.0
    return made


def _shifted(raw: Any, prepare: Callable[[Any], Any]) -> Any:
    return np.roll(prepare(raw), 1, axis=-1)


def _in_half(way: Way) -> None:
    own = way.run

    def run(model: Any) -> Callable[[Any], Any]:
        return lambda values: own(model)(values).half().float()

    way.run = run


def _not_numbers(values: torch.Tensor) -> torch.Tensor:
    made = values.clone()
    made[-1] = torch.nan
    return made


FAULTS: Mapping[str, Fault] = {
    "export of the weights before training": Fault(
        "PaddlePaddle/PaddleOCR/issues/7888", "export", _keep(lambda name: True)),
    "no key of the checkpoint fits": Fault(
        "torchgeo/torchgeo/issues/4036", "export", _keep(lambda name: "classifier" not in name)),
    "normalised layers keep their first weights": Fault(
        "hexgrad/kokoro/issues/368", "export", _keep(lambda name: "norm" in name.lower() and "weight" in name)),
    "the head was not loaded": Fault(
        "stefanopini/simple-HRNet/issues/79", "export", _keep(lambda name: "classifier" in name)),
    "the first layer halved": Fault("pytorch/pytorch/issues/80133", "export", _changed(_first_halved)),
    "running statistics lost": Fault(
        "LabForComputationalVision/bias_free_denoising/issues/3", "export", _changed(_statistics_lost), "norm"),
    "running statistics moved by a look": Fault(
        "pytorch/vision/issues/2079", "export", _loading(_moved_statistics), "norm"),
    "training mode in the export": Fault("fxia22/pointnet.pytorch/pull/19", "export", _loading(_training), "mode"),
    "weights through half precision": Fault("NVIDIA/TensorRT/issues/1787", "export", _changed(_through_half)),
    "another epsilon": Fault("PaddlePaddle/Paddle/issues/42917", "export", _loading(_wider_norms)),
    "a sigmoid in the export alone": Fault("RangiLyu/nanodet/issues/478", "export", _behind(torch.sigmoid)),
    "a second softmax": Fault("PaddlePaddle/PaddleSeg/issues/3135", "export", _behind(lambda one: one.softmax(-1))),
    "a constant in place of a reshape": Fault("roboflow/rf-detr/issues/949", "export", _behind(_only_first)),
    "samples mixed by a reshape": Fault("linghu8812/tensorrt_inference/issues/54", "export", _behind(_mixed)),
    "dropout that nobody switches off": Fault(
        "OpenTrafficCam/OTVision/issues/132", "export", _exporting(_without_dropout_switch), "pictures"),
    "not normalised": Fault(
        "onnx/onnx/issues/1440", "infer", _preparing(lambda raw, own: _plain(raw, 255.0)), "pictures"),
    "0 to 255": Fault("Linzaer/Ultra-Light-Fast-Generic-Face-Detector-1MB/issues/50", "infer",
                      _preparing(lambda raw, own: _plain(raw, 1.0)), "pictures"),
    "normalised by half": Fault("deepinsight/insightface/issues/2508", "infer",
                                _preparing(lambda raw, own: _plain(raw, 127.5) - 1.0), "pictures"),
    "padded where it should not be": Fault(
        "PaddlePaddle/PaddleDetection/issues/1036", "infer", _preparing(_padded), "pictures"),
    "resized otherwise": Fault("PaddlePaddle/PaddleOCR/issues/10096", "infer", _preparing(_shifted), "pictures"),
    "another order of classes": Fault(
        "PaddlePaddle/PaddleOCR/issues/14278", "infer", _running(lambda one: one.flip(-1))),
    "the last sample alone": Fault("open-mmlab/mmdetection/issues/5107", "infer", _running(lambda one: one[-1:])),
    "nothing found": Fault("open-mmlab/mmdetection/issues/5107", "infer", _running(lambda one: one[:0])),
    "NaN in one sample": Fault("NVIDIA/TensorRT/issues/4338", "infer", _running(_not_numbers)),
    "half precision that nobody asked for": Fault("pytorch/pytorch/issues/58123", "infer", _in_half),
    "nothing but zeros": Fault("NVIDIA/TensorRT/issues/3921", "infer", _running(lambda one: one * 0.0)),
    "the same for every sample": Fault(
        "onnx/onnx/issues/1440", "infer", _running(lambda one: one.mean(0, keepdim=True).expand(one.shape))),
    "words of another dictionary": Fault(
        "PaddlePaddle/PaddleOCR/issues/14278", "infer", _preparing(lambda raw, own: own(raw) + 1), "transformer"),
}  # fmt: skip
"""What happened -> the fault; sources below ``https://github.com/``."""


def address(fault: Fault) -> str:
    return _GITHUB + fault.source
