"""What calls of two frameworks were asked for, in one form."""

from __future__ import annotations

from typing import Any

from trueline.compare.asking import asked, differences

TENSOR = {"$t": 0}
CONVOLUTIONS = ("torch.nn.functional.conv2d", "paddle._C_ops.conv2d")


def given(*args: Any, **kwargs: Any) -> dict[str, Any]:
    return {"args": list(args), "kwargs": kwargs}


def torch_convolution(stride: int) -> dict[str, Any]:
    return given(TENSOR, {"$t": 1}, None, {"$tuple": [stride, stride]}, {"$tuple": [0, 0]}, {"$tuple": [1, 1]}, 1)


def test_a_kernel_is_read_by_its_own_signature() -> None:
    paddle = given(TENSOR, {"$t": 1}, [2, 2], [0, 0], "EXPLICIT", [1, 1], 1, "NCHW")
    assert list(differences(CONVOLUTIONS, (torch_convolution(2), paddle))) == []
    assert list(differences(CONVOLUTIONS, (torch_convolution(1), paddle))) == [("stride", "1", "2")]


def test_a_word_for_a_padding_is_its_number() -> None:
    paddle = given(TENSOR, {"$t": 1}, [1, 1], [0, 0], "VALID", [1, 1], 1, "NCHW")
    assert asked(CONVOLUTIONS[1], paddle)["padding"] == 0


def test_momentum_means_the_share_of_the_old_in_one_and_of_the_new_in_the_other() -> None:
    apis = ("torch.nn.functional.batch_norm", "paddle.nn.functional.batch_norm")
    tensors = [TENSOR, {"$t": 1}, {"$t": 2}]

    def told(momentum: float) -> list[tuple[str, str, str]]:
        left = given(*tensors, training=True, momentum=0.1, eps=1e-5)
        right = given(*tensors, training=True, momentum=momentum, epsilon=1e-5, data_format="NCHW")
        return list(differences(apis, (left, right)))

    assert told(0.9) == []
    assert [name for name, _, _ in told(0.1)] == ["momentum"]
