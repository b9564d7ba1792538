"""Cases on adapters of peft."""

from __future__ import annotations

from benchmarks.zoo.source import edit_function, imported
from benchmarks.zoo.spec import Built, Setting, Where, clean, fault
from benchmarks.zoo.various_edits import edit_one, edit_step, lower


@fault(
    "lora",
    "lora-rank-stabilised-scale",
    Where("argument", ("mul", "add"), ("*.q_proj", "*.v_proj", "*.up_proj")),
    source="https://github.com/vllm-project/vllm/pull/6909",
)
def rank_stabilised_scale(built: Built) -> None:
    """The adapters are scaled by alpha over the root of the rank where they were trained with alpha over the rank."""
    for module in built.model.modules():
        if hasattr(module, "lora_A"):
            module.scaling["default"] = module.lora_alpha["default"] / module.r["default"] ** 0.5


@fault(
    "lora",
    "lora-loss-not-divided",
    Where("missing", ("div", "truediv"), ("",)),
    Where("missing", ("div", "truediv", "backward"), ("",), phase="backward"),
    source="https://github.com/fastai/fastai/issues/3023",
)
def loss_not_divided(built: Built) -> None:
    """Gradients of two batches are added, but their losses are not divided by two."""
    edit_step(built, ("loss = result.loss / count", "loss = result.loss"))


@fault(
    "lora",
    "lora-adapter-bfloat16",
    Where("precision", ("linear", "to"), ("*.layers.0.*.q_proj.lora_*", "*.layers.0.*.q_proj"), calls=4),
    source="https://github.com/huggingface/peft/pull/1706",
    dtypes=("float32",),
)
def adapter_bfloat16(built: Built) -> None:
    """One adapter computes in bfloat16 within a model of float32."""
    layer = built.model.base_model.model.model.layers[0].self_attn.q_proj
    lower(layer.lora_A["default"])
    lower(layer.lora_B["default"])


@fault(
    "lora",
    "lora-gradients-kept",
    Where("missing", ("zero_grad",), ("*",)),
    Where("missing", ("zero_grad",), ("*",), phase="backward", step=1),
    Where("update", (), ("*",), ("*lora_*",), step=1),
    Where("update", (), ("*",), ("*lora_*",), phase="backward", step=1),
    source="https://github.com/tenstorrent/tt-blacksmith/pull/711",
)
def gradients_kept(built: Built) -> None:
    """Gradients are not set to zero after an update, so that the next one holds them once more."""
    edit_step(built, ("    built.optimizer.zero_grad()\n", ""))


@fault(
    "lora-dropout",
    "lora-dropout-in-evaluation-mode",
    Where("argument", ("dropout",), ("*.lora_dropout*",)),
    Where("missing", ("dropout",), ("*.lora_dropout*",)),
    Where("randomness", ("dropout",), ("*.lora_dropout*",)),
    source="https://github.com/shubhamagarwal92/mmd/issues/14",
)
def dropout_in_evaluation_mode(built: Built) -> None:
    """The model was left in evaluation mode, so that the adapters are trained without dropout."""
    built.model.eval()


@fault(
    "lora-dropout",
    "lora-dropout-rate",
    Where("argument", ("dropout",), ("*.lora_dropout*",)),
    Where("randomness", ("dropout",), ("*.lora_dropout*",)),
    source="https://github.com/meta-pytorch/torchtune/pull/1492",
)
def dropout_rate(built: Built) -> None:
    """The adapters drop out half as much as was asked for."""
    import torch

    for module in built.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.05


def _not_detached(setting: Setting) -> None:
    from benchmarks.zoo.torchvision_ops import prepare

    prepare()
    edit_function(
        imported("peft.tuners.lora.dora").DoraLinearLayer,
        "forward",
        ("lora_weight=lora_weight.detach()", "lora_weight=lora_weight"),
        ("weight_norm = weight_norm.detach()", ""),
    )


@fault(
    "dora",
    "dora-norm-not-detached",
    Where("missing", ("detach",), ("*.lora_magnitude_vector.default",), phase="backward"),
    Where(
        "region",
        ("detach", "norm", "vector_norm", "div", "truediv", "add", "mul"),
        ("*.lora_magnitude_vector.default",),
        phase="backward",
        calls=2,
    ),
    source="https://github.com/huggingface/peft/pull/1474",
    before=_not_detached,
)
def norm_not_detached(built: Built) -> None:
    """The norm of the adapted weights is not taken for a constant, so that gradients flow through it."""


@fault(
    "dora",
    "dora-norm-without-scale",
    Where("missing", ("mul", "rmul", "add"), ("*.layers.1.self_attn.o_proj.lora_magnitude_vector.default",)),
    source="https://github.com/adapter-hub/adapters/pull/790",
)
def norm_without_scale(built: Built) -> None:
    """The norm of the adapted weights of one layer leaves out the scale of the adapter."""
    layer = built.model.base_model.model.model.layers[1].self_attn.o_proj
    edit_one(
        layer.lora_magnitude_vector["default"],
        "get_weight_norm",
        ("weight = weight + scaling * lora_weight", "weight = weight + lora_weight"),
    )


@fault(
    "ia3",
    "ia3-decay-to-zero",
    Where("update", (), ("*",), ("*ia3_l*",)),
    source="https://github.com/ServiceNow/Fast-LLM/pull/545",
    dtypes=("float32",),
)
def decay_to_zero(built: Built) -> None:
    """The vectors that scale, which begin with one, decay to zero."""
    built.optimizer.param_groups[0]["weight_decay"] = 0.01


@clean("lora", "lora-checkpointing")
def lora_checkpointing(built: Built) -> None:
    """Activations are computed again in the backward pass."""
    built.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})


def _merged(setting: Setting) -> None:
    from benchmarks.zoo.torchvision_ops import prepare

    prepare()
    edit_function(
        imported("peft.tuners.lora.layer").Linear,
        "forward",
        (
            "result = result + lora_B(lora_A(dropout(x))) * scaling",
            "weight = self.base_layer.weight + scaling * (lora_B.weight @ lora_A.weight)\n"
            "                result = F.linear(x, weight, self.base_layer.bias)",
        ),
    )


@clean("lora", "lora-merged-linear-delta", before=_merged)
def merged_linear_delta(built: Built) -> None:
    """The product of an adapter's matrices is added to the weights before they are multiplied with the input."""
