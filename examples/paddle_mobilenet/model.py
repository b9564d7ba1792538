"""MobileNetV3-small (Howard et al., 2019, table 2), for pictures of any size.

The stride of the first layer is left out by default, so that pictures of 32 x 32 keep something to look at.
"""

from __future__ import annotations

from typing import NamedTuple

import paddle
from data import CLASSES
from paddle import nn


class Row(NamedTuple):
    """One block of the table: kernel, channels inside and after it, squeeze-and-excite, activation, stride."""

    kernel: int
    inside: int
    channels: int
    squeeze: bool
    activation: str
    stride: int


SMALL = (
    Row(3, 16, 16, True, "relu", 2),
    Row(3, 72, 24, False, "relu", 2),
    Row(3, 88, 24, False, "relu", 1),
    Row(5, 96, 40, True, "hardswish", 2),
    Row(5, 240, 40, True, "hardswish", 1),
    Row(5, 240, 40, True, "hardswish", 1),
    Row(5, 120, 48, True, "hardswish", 1),
    Row(5, 144, 48, True, "hardswish", 1),
    Row(5, 288, 96, True, "hardswish", 2),
    Row(5, 576, 96, True, "hardswish", 1),
    Row(5, 576, 96, True, "hardswish", 1),
)
ACTIVATIONS = {"relu": nn.ReLU, "hardswish": nn.Hardswish}


def whole(channels: float, divisor: int = 8) -> int:
    """A number of channels as the paper rounds it: a multiple of 8, never less than 90 % of what was asked for."""
    rounded = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * channels else rounded


class Convolution(nn.Layer):
    """A convolution without bias, its batch normalisation, and an activation where one is named."""

    def __init__(self, before: int, after: int, kernel: int, stride: int = 1, groups: int = 1, activation: str = ""):
        super().__init__()
        self.convolve = nn.Conv2D(
            before, after, kernel, stride=stride, padding=kernel // 2, groups=groups, bias_attr=False
        )
        self.normalise = nn.BatchNorm2D(after, momentum=0.8)
        self.activate = ACTIVATIONS[activation]() if activation else nn.Identity()

    def forward(self, values: paddle.Tensor) -> paddle.Tensor:
        return self.activate(self.normalise(self.convolve(values)))


class SqueezeExcite(nn.Layer):
    """Scales each channel by what all of the picture says about it."""

    def __init__(self, channels: int):
        super().__init__()
        self.squeeze = nn.Conv2D(channels, whole(channels / 4), 1)
        self.excite = nn.Conv2D(whole(channels / 4), channels, 1)

    def forward(self, values: paddle.Tensor) -> paddle.Tensor:
        scale = values.mean(axis=[2, 3], keepdim=True)
        scale = nn.functional.relu(self.squeeze(scale))
        return values * nn.functional.hardsigmoid(self.excite(scale))


class Block(nn.Layer):
    """Expand, filter each channel by itself, squeeze and excite, project; with a way around where shapes allow it."""

    def __init__(self, before: int, row: Row, stride: int):
        super().__init__()
        self.around = stride == 1 and before == row.channels
        self.expand = Convolution(before, row.inside, 1, activation=row.activation)
        self.filter = Convolution(row.inside, row.inside, row.kernel, stride, row.inside, row.activation)
        self.weigh = SqueezeExcite(row.inside) if row.squeeze else nn.Identity()
        self.project = Convolution(row.inside, row.channels, 1)

    def forward(self, values: paddle.Tensor) -> paddle.Tensor:
        made = self.project(self.weigh(self.filter(self.expand(values))))
        return values + made if self.around else made


class MobileNetV3Small(nn.Layer):
    """Pictures of shape (count, 3, height, width) to scores of shape (count, classes). ``scale`` multiplies all
    channels; the first ``kept`` strides are 1."""

    def __init__(self, classes: int, scale: float = 0.25, kept: int = 1, dropout: float = 0.2):
        super().__init__()
        self.begin = Convolution(3, whole(16 * scale), 3, 1 if kept else 2, activation="hardswish")
        before, blocks, strides = whole(16 * scale), [], 1
        for row in SMALL:
            stride = row.stride
            if stride == 2:
                stride, strides = (1 if strides < kept else 2), strides + 1
            scaled = row._replace(inside=whole(row.inside * scale), channels=whole(row.channels * scale))
            blocks.append(Block(before, scaled, stride))
            before = scaled.channels
        self.blocks = nn.Sequential(*blocks)
        self.end = Convolution(before, whole(576 * scale), 1, activation="hardswish")
        self.widen = nn.Linear(whole(576 * scale), whole(1024 * scale))
        self.activate = nn.Hardswish()
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(whole(1024 * scale), classes)

    def forward(self, pictures: paddle.Tensor) -> paddle.Tensor:
        values = self.end(self.blocks(self.begin(pictures))).mean(axis=[2, 3])
        return self.head(self.dropout(self.activate(self.widen(values))))


class Answering(nn.Layer):
    """The network with what turns its scores into probabilities: what is evaluated, exported and asked."""

    def __init__(self, network: MobileNetV3Small):
        super().__init__()
        self.network = network

    def forward(self, pictures: paddle.Tensor) -> paddle.Tensor:
        return nn.functional.softmax(self.network(pictures), axis=-1)


def trained(checkpoint: str) -> Answering:
    """The network with the weights of a checkpoint, ready to be asked."""
    network = MobileNetV3Small(len(CLASSES))
    network.set_state_dict(paddle.load(checkpoint))
    answering = Answering(network)
    answering.eval()
    return answering
