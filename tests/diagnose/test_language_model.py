"""A small Llama of another library, with the mistakes that people make in it, and with what they may write otherwise.

The mistakes must be named, however small; what computes the same must pass.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
torch = pytest.importorskip("torch")
pytest.importorskip("transformers", reason="the model is one of transformers")

import trueline  # noqa: E402
from trueline.records import Verdict  # noqa: E402

Edit = Callable[[Any], None]


def trained(path: Path, dtype: str, edit: Edit | None, data: str, **optimizer: Any) -> Path:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=96, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32, initializer_range=0.1, attn_implementation="eager",
    )  # fmt: skip
    model = LlamaForCausalLM(config).to(getattr(torch, dtype)).train()
    if edit is not None:
        edit(model)
    steps = torch.optim.AdamW(model.parameters(), lr=1e-3, **optimizer)
    batches = [torch.randint(0, 96, (2, 12), generator=torch.Generator().manual_seed(seed)) for seed in (1, 2)]
    with trueline.capture(path, data=data) as capture:
        for batch in batches:
            steps.zero_grad()
            model(input_ids=batch, labels=batch).loss.backward()
            steps.step()
            capture.step()
    return path


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """The model as it is, recorded once for each dtype and data."""
    folder, known = tmp_path_factory.mktemp("references"), dict[tuple[str, str], Path]()

    def reference(dtype: str, data: str) -> Path:
        if (dtype, data) not in known:
            known[dtype, data] = trained(folder / f"{dtype}-{data}", dtype, None, data)
        return known[dtype, data]

    return reference


def exchanged(module: str, forward: Callable[..., Any]) -> Edit:
    """Replaces the forward of one module: ``forward(module, its own forward, *arguments)``."""

    def edit(model: Any) -> None:
        one = model.get_submodule(module)
        own = one.forward
        one.forward = lambda *args, **kwargs: forward(one, own, *args, **kwargs)

    return edit


def gelu(model: Any) -> None:
    model.model.layers[1].mlp.act_fn = torch.nn.GELU()


def without_upcast(module: Any, _: Any, x: Any) -> Any:
    scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + module.variance_epsilon)
    return module.weight * (x * scale)


def in_half(_: Any, own: Any, x: Any) -> Any:
    return own(x.to(torch.bfloat16).to(x.dtype))


def linear_in_half(module: Any, _: Any, x: Any) -> Any:
    return torch.nn.functional.linear(x.to(torch.bfloat16), module.weight.to(torch.bfloat16)).to(x.dtype)


def rotary_in_half(_: Any, own: Any, *args: Any, **kwargs: Any) -> Any:
    return tuple(one.to(torch.bfloat16).to(torch.float32) for one in own(*args, **kwargs))


def loss_in_half(model: Any) -> None:
    own = model.loss_function
    model.loss_function = lambda logits, *args, **kwargs: own(logits.to(torch.bfloat16), *args, **kwargs)


def softmax_in_half(model: Any) -> None:
    from transformers.models.llama import modeling_llama

    def attention(module: Any, query: Any, key: Any, value: Any, mask: Any, scaling: float, **_: Any) -> Any:
        key, value = (modeling_llama.repeat_kv(one, module.num_key_value_groups) for one in (key, value))
        scores = torch.matmul(query, key.transpose(2, 3)) * scaling
        scores = scores if mask is None else scores + mask
        weights = torch.nn.functional.softmax(scores.to(torch.bfloat16), dim=-1).to(query.dtype)
        return torch.matmul(weights, value).transpose(1, 2).contiguous(), weights

    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS["softmax in half"] = attention
    own = model.model.layers[1].self_attn
    own.config = type(own.config)(**{**own.config.to_dict(), "attn_implementation": "softmax in half"})


FAULTS: dict[str, tuple[str, Edit, str, tuple[str, ...]]] = {
    "gelu for silu": ("bfloat16", gelu, "layers.1.mlp.act_fn", ("gelu", "silu")),
    "norm without its upcast": (
        "bfloat16", exchanged("model.layers.1.input_layernorm", without_upcast), "layers.1.input_layernorm",
        ("to", "pow", "rsqrt", "mean", "mul"),
    ),
    "one linear in bf16": (
        "float32", exchanged("model.layers.1.mlp.up_proj", linear_in_half), "layers.1.mlp.up_proj", ("linear", "to")
    ),
    "one input of a linear in bf16": (
        "float32", exchanged("model.layers.1.mlp.up_proj", in_half), "layers.1.mlp", ("to",)
    ),
    "one rotary embedding in bf16": (
        "float32", exchanged("model.rotary_emb", rotary_in_half), "model", ("to",)
    ),
    "one softmax in bf16": ("float32", softmax_in_half, "layers.1.self_attn", ("softmax", "to")),
    "the loss in bf16": ("float32", loss_in_half, "", ("to", "cross_entropy", "float")),
}  # fmt: skip


@pytest.mark.parametrize("data", ["tensors", "stats"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_mistake_is_named(tmp_path: Path, references: Callable[[str, str], Path], fault: str, data: str) -> None:
    dtype, edit, module, apis = FAULTS[fault]
    candidate = trained(tmp_path / "candidate", dtype, edit, data)
    with trueline.compare(references(dtype, data), candidate) as report:
        assert report.verdict is Verdict.FAIL and report.origin is not None
        origin = report.origin
        calls = [*origin.reference_calls, *origin.candidate_calls, origin.comparison.call]
        assert any(call.api.rpartition(".")[2].strip("_") in apis for call in calls), origin.explanation
        assert any(module in call.module for call in calls), origin.explanation
        assert origin.comparison.call.step == 0


def sdpa(model: Any) -> None:
    model.set_attn_implementation("sdpa")


def checkpointed(model: Any) -> None:
    model.activation_checkpointing_enable({"use_reentrant": False})


def fused_norm(module: Any, _: Any, x: Any) -> Any:
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), module.weight, module.variance_epsilon)


def all_norms_fused(model: Any) -> None:
    for name in [name for name, one in model.named_modules() if type(one).__name__ == "LlamaRMSNorm"]:
        exchanged(name, fused_norm)(model)


class Part(torch.nn.Module):
    """One of the three products that were computed together."""

    def __init__(self, whole: dict[str, Any], place: int) -> None:
        super().__init__()
        self._whole, self._place = whole, place

    def forward(self, x: Any) -> Any:
        if self._place == 0:
            self._whole["parts"] = self._whole["computed"](x)
        return self._whole["parts"][self._place]


def query_key_value_together(model: Any) -> None:
    for layer in model.model.layers:
        own = layer.self_attn
        projections = [own.q_proj, own.k_proj, own.v_proj]

        def together(x: Any, projections: Any = projections) -> Any:
            weight = torch.cat([one.weight for one in projections])
            return torch.nn.functional.linear(x, weight).split([one.out_features for one in projections], dim=-1)

        whole: dict[str, Any] = {"computed": together}
        for place, one in enumerate(projections):
            one.forward = Part(whole, place).forward


SAME: dict[str, tuple[Edit | None, dict[str, Any]]] = {
    "attention by sdpa": (sdpa, {}),
    "activations computed again": (checkpointed, {}),
    "rms_norm of torch": (all_norms_fused, {}),
    "query, key and value together": (query_key_value_together, {}),
    "optimizer fused": (None, {"fused": True}),
    "optimizer for each parameter": (None, {"foreach": False}),
    "optimizer for all": (None, {"foreach": True}),
}


@pytest.mark.parametrize("data", ["tensors", "stats"])
@pytest.mark.parametrize("way", SAME)
def test_the_same_written_otherwise_passes(
    tmp_path: Path, references: Callable[[str, str], Path], way: str, data: str
) -> None:
    edit, optimizer = SAME[way]
    candidate = trained(tmp_path / "candidate", "float32", edit, data, **optimizer)
    with trueline.compare(references("float32", data), candidate) as report:
        assert report.verdict in (Verdict.PASS, Verdict.WARN), report.origin and report.origin.explanation


def test_other_thread_counts_pass(tmp_path: Path, references: Callable[[str, str], Path]) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2 if before == 1 else 1)
    try:
        candidate = trained(tmp_path / "candidate", "float32", None, "tensors")
    finally:
        torch.set_num_threads(before)
    with trueline.compare(references("float32", "tensors"), candidate) as report:
        assert report.verdict in (Verdict.PASS, Verdict.WARN), report.origin and report.origin.explanation
