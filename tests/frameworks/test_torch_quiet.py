"""Properties of tensors are read without asking our mode while a capture runs; everybody else is asked as ever."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.overrides import TorchFunctionMode  # noqa: E402

import trueline  # noqa: E402
from trueline.frameworks.torch.calls import fast_calls  # noqa: E402


class Listening(TorchFunctionMode):
    """Somebody else's mode, which hears of everything."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.heard.append(getattr(getattr(func, "__self__", None), "__name__", func.__name__))
        return func(*args, **(kwargs or {}))


class Own(torch.Tensor):  # type: ignore[misc]
    """A subclass that answers for itself."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(getattr(func, "__self__", None), "__name__", "") == "is_sparse":
            return "its own answer"
        return super().__torch_function__(func, types, args, kwargs or {})


@pytest.fixture
def _captured(tmp_path: Path) -> Iterator[None]:
    if fast_calls() is None or fast_calls().ask_doors() is None:
        pytest.skip("this torch is asked the long way")
    before = dict(vars(torch.Tensor))
    with trueline.capture(tmp_path / "run", data="structure"):
        assert "grad" in vars(torch.Tensor)
        yield
    assert dict(vars(torch.Tensor)) == before


@pytest.mark.usefixtures("_captured")
def test_properties_say_what_they_say_without_a_capture() -> None:
    tensor = torch.zeros(2, 3, requires_grad=True)
    assert tensor.shape == (2, 3)
    assert tensor.grad is None
    tensor.grad = torch.ones(2, 3)
    assert tensor.grad.sum() == 6
    tensor.grad = None
    assert tensor.grad is None
    with pytest.raises(TypeError):
        tensor.grad = "no tensor"
    with pytest.raises(RuntimeError, match="leaf"):
        (tensor * 2).requires_grad = False
    assert torch.is_grad_enabled()
    assert torch._C._is_torch_function_enabled()


@pytest.mark.usefixtures("_captured")
def test_another_mode_hears_of_readings() -> None:
    tensor = torch.zeros(2)
    with Listening() as mode:
        assert tensor.dtype is torch.float32
        tensor.requires_grad = True
    assert mode.heard == ["dtype", "requires_grad"]


@pytest.mark.usefixtures("_captured")
def test_a_subclass_answers_for_itself() -> None:
    assert torch.zeros(2).as_subclass(Own).is_sparse == "its own answer"
    assert torch.zeros(2).is_sparse is False


@pytest.mark.usefixtures("_captured")
def test_torch_finds_its_own_property_in_the_class() -> None:
    assert torch.Tensor.grad is vars(torch._C.TensorBase)["grad"]
