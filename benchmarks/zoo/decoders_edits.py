"""Edits that several cases of decoder language models share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.zoo.source import edit_function, imported
from benchmarks.zoo.spec import Built, Change, Where

LLAMA = "transformers.models.llama.modeling_llama"
QWEN3 = "transformers.models.qwen3.modeling_qwen3"
GPT2 = "transformers.models.gpt2.modeling_gpt2"
GEMMA2 = "transformers.models.gemma2.modeling_gemma2"
MISTRAL = "transformers.models.mistral.modeling_mistral"
PHI = "transformers.models.phi.modeling_phi"
BLOOM = "transformers.models.bloom.modeling_bloom"
FALCON = "transformers.models.falcon.modeling_falcon"
OPT = "transformers.models.opt.modeling_opt"
COHERE = "transformers.models.cohere.modeling_cohere"
OLMO2 = "transformers.models.olmo2.modeling_olmo2"
NEOX = "transformers.models.gpt_neox.modeling_gpt_neox"
PROGRAMS = "benchmarks.zoo.programs.decoders"

NORM = ("to", "float", "pow", "mean", "add", "rsqrt", "mul")
CLIP = (
    "clip_grad_norm", "foreach_norm", "vector_norm", "linalg_vector_norm", "norm", "stack", "to", "add", "div",
    "reciprocal", "clamp", "foreach_mul", "mul",
)  # fmt: skip


def updates(*names: str, step: int = 0) -> tuple[Where, ...]:
    """The optimizer's step changes those parameters otherwise. It comes after all of the step's own values."""
    names = names or ("*",)
    return (
        Where("update", names=names, phase="backward", step=step),
        Where("update", names=names, phase="forward", step=step),
    )


def edit_step(built: Built, function: str, *changes: tuple[str, str]) -> None:
    """The training loop, written otherwise."""
    programs = imported(PROGRAMS)
    edit_function(programs, function, *changes)
    built.step = getattr(programs, function)


def edit_one(module: Any, name: str, *changes: tuple[str, str]) -> None:
    """Edits that method of one module, not of the others of its class."""
    kind = type(module)
    own = type(kind.__name__, (kind,), {"__module__": kind.__module__})
    edit_function(own, name, *changes)
    module.__class__ = own


def method(kind: Any, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Puts the decorated function in the place of a method."""

    def put(function: Callable[..., Any]) -> Callable[..., Any]:
        setattr(kind, name, function)
        return function

    return put


def set_theta(built: Built, theta: float) -> None:
    """The base of the rotary frequencies, as if the configuration said so."""
    rotary = built.model.model.rotary_emb
    rotary.config.rope_parameters["rope_theta"] = theta
    frequencies, _ = rotary.compute_default_rope_parameters(rotary.config)
    rotary.inv_freq = frequencies.to(rotary.inv_freq)


def with_theta(theta: float) -> Change:
    return Change(after=lambda built: set_theta(built, theta))


def evaluate_between(built: Built, back: bool) -> None:
    """The loop looks at a validation batch before its second step, and then goes back to training or does not."""
    import torch

    step = built.step

    def with_evaluation(built: Built, index: int) -> Any:
        if index == 1:
            built.model.eval()
            with torch.no_grad():
                built.model(input_ids=built.batches[-1]["input_ids"], use_cache=False)
            if back:
                built.model.train()
        return step(built, index)

    built.step = with_evaluation


def norm_function(weight_gradient: bool, input_weight: bool) -> Any:
    """A root mean square norm with a backward of its own, as fused kernels have one. Its backward is right where both
    are true; else it forgets the gradient of the weight, or the weight in the gradient of the input."""
    import torch

    class Norm(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, values: Any, weight: Any, epsilon: float) -> Any:
            exact = values.to(torch.float32)
            scale = torch.rsqrt(exact.pow(2).mean(-1, keepdim=True) + epsilon)
            ctx.save_for_backward(values, weight, scale)
            return weight * (exact * scale).to(values.dtype)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            values, weight, scale = ctx.saved_tensors
            exact, normed = values.to(torch.float32), values.to(torch.float32) * scale
            incoming = gradient.to(torch.float32)
            to_weight = (incoming * normed).reshape(-1, weight.shape[-1]).sum(0).to(weight.dtype)
            if input_weight:
                incoming = incoming * weight.to(torch.float32)
            inner = (incoming * exact).mean(-1, keepdim=True)
            to_input = scale * incoming - scale.pow(3) * exact * inner
            return to_input.to(values.dtype), to_weight if weight_gradient else None, None

    return Norm


def fuse_norms(kind: Any, weight_gradient: bool = True, input_weight: bool = True) -> None:
    """Puts that function in the place of a class's written-out norm."""
    function = norm_function(weight_gradient, input_weight)

    def forward(self: Any, hidden_states: Any) -> Any:
        return function.apply(hidden_states, self.weight, self.variance_epsilon)

    kind.forward = forward
