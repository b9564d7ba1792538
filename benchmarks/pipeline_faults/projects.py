"""The projects: small models of the transformers library with random weights, as a project would train, export and use
them. ``saturated`` is a classifier whose softmax says one class and nothing else, as after a training that was too
short."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

SAMPLES = 6


class Classifier(torch.nn.Module):
    """A model of the library with the softmax that such projects put behind it."""

    def __init__(self, model: torch.nn.Module, sharpness: float = 1.0) -> None:
        super().__init__()
        self.model, self.sharpness = model, sharpness

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.sharpness * self.model(values, return_dict=False)[0], -1)


def _pictures(seed: int) -> np.ndarray[Any, Any]:
    """Pictures as a file has them: 0 to 255, the channels last."""
    return np.random.default_rng(seed).integers(0, 256, (SAMPLES, 32, 32, 3)).astype(np.float32)


def _prepared(raw: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    mean, deviation = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    return np.ascontiguousarray(((raw / 255.0 - mean) / deviation).transpose(0, 3, 1, 2), np.float32)


def _words(seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(5, 60, (SAMPLES, 12))


def _settled(model: torch.nn.Module) -> torch.nn.Module:
    """Running statistics as after a training: those of what went through."""
    model.train()
    for seed in range(4):
        model(torch.as_tensor(_prepared(_pictures(100 + seed))))
    for one in model.modules():
        if isinstance(one, torch.nn.BatchNorm2d):
            one.momentum = 0.5
    for seed in range(4):
        model(torch.as_tensor(_prepared(_pictures(200 + seed))))
    return model.eval()


def _resnet() -> torch.nn.Module:
    from transformers import ResNetConfig, ResNetForImageClassification

    sizes = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "num_labels": 10}
    return _settled(ResNetForImageClassification(ResNetConfig(**sizes, layer_type="basic")))


def _mobilenet() -> torch.nn.Module:
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    return _settled(MobileNetV2ForImageClassification(MobileNetV2Config(image_size=32, depth_multiplier=0.25,
                                                                        num_labels=10)))  # fmt: skip


def _vit() -> torch.nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    return ViTForImageClassification(ViTConfig(**sizes, image_size=32, patch_size=8, num_labels=10,
                                               initializer_range=0.2))  # fmt: skip


def _bert() -> torch.nn.Module:
    from transformers import BertConfig, BertForSequenceClassification

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    return BertForSequenceClassification(BertConfig(**sizes, vocab_size=64, num_labels=6, initializer_range=0.2))


@dataclass(frozen=True, slots=True)
class Project:
    """``raw`` gives what a file holds, ``prepare`` what the model takes."""

    make: Callable[[], torch.nn.Module]
    raw: Callable[[int], Any]
    prepare: Callable[[Any], Any]
    sharpness: float = 1.0

    def model(self, seed: int) -> Classifier:
        torch.manual_seed(seed)
        with torch.no_grad():
            return Classifier(self.make(), self.sharpness).eval()

    @property
    def pictures(self) -> bool:
        return self.prepare is _prepared


PROJECTS: Mapping[str, Project] = {
    "resnet": Project(_resnet, _pictures, _prepared),
    "mobilenet": Project(_mobilenet, _pictures, _prepared, 4.0),
    "vit": Project(_vit, _pictures, _prepared),
    "bert": Project(_bert, _words, lambda raw: raw),
    "saturated": Project(_resnet, _pictures, _prepared, 1e5),
}


def copied(model: Classifier) -> Classifier:
    return copy.deepcopy(model)
