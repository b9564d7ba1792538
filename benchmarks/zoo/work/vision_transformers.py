"""Cases of the vision models of transformers."""

from __future__ import annotations

from benchmarks.zoo.spec import Built, Where, clean, fault
from benchmarks.zoo.vision_edits import source


@fault(
    "segformer",
    "segformer-labels-reduced",
    Where("data", names=("*labels*", "*target*")),
    source="https://github.com/open-mmlab/mmsegmentation/issues/1714",
)
def segformer_labels_reduced(built: Built) -> None:
    """All labels were lowered by one and the background is ignored, although it is a class here."""
    import torch

    built.batches = [
        (images, torch.where((labels == 0) | (labels == 255), 255, labels - 1)) for images, labels in built.batches
    ]


@fault(
    "dinov2",
    "dinov2-position-scale-with-offset",
    Where("argument", apis=("interpolate",), modules=("dinov2.embeddings",)),
    source="https://github.com/huggingface/transformers/pull/35411",
    before=source(
        "transformers.models.dinov2.modeling_dinov2:Dinov2Embeddings",
        "interpolate_pos_encoding",
        (
            "size=(new_height, new_width),",
            "scale_factor=((new_height + 0.1) / sqrt_num_positions, (new_width + 0.1) / sqrt_num_positions),",
        ),
    ),
)
def dinov2_position_scale_with_offset(built: Built) -> None:
    """The positions are resized by a factor with a small number added to it instead of to a size."""


@fault(
    "dinov2",
    "dinov2-mean-with-class-token",
    Where("argument", apis=("getitem", "mean"), modules=("",), calls=2),
    Where("missing", apis=("getitem",), modules=("",)),
    source="https://github.com/lucidrains/vit-pytorch/issues/226",
    before=source(
        "transformers.models.dinov2.modeling_dinov2:Dinov2ForImageClassification",
        "forward",
        ("sequence_output[:, 1:]", "sequence_output"),
    ),
)
def dinov2_mean_with_class_token(built: Built) -> None:
    """The mean of the patches takes in the class token."""


@clean("segformer", "segformer-attention-fused")
def segformer_attention_fused(built: Built) -> None:
    """Attention by the fused function instead of the written-out form."""
    built.model.set_attn_implementation("sdpa")


@clean("segformer", "segformer-layers-recomputed")
def segformer_layers_recomputed(built: Built) -> None:
    """The layers are computed again in the backward pass, by the older of the two ways."""
    built.model.gradient_checkpointing_enable({"use_reentrant": True})


@clean(
    "dinov2",
    "dinov2-gate-and-up-in-one-product",
    before=source(
        "transformers.models.dinov2.modeling_dinov2:Dinov2SwiGLUFFN",
        "forward",
        (
            "down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))",
            "weight = torch.cat((self.gate_proj.weight, self.up_proj.weight))\n"
            "    bias = torch.cat((self.gate_proj.bias, self.up_proj.bias))\n"
            "    gate, up = nn.functional.linear(x, weight, bias).chunk(2, dim=-1)\n"
            "    down_proj = self.down_proj(self.act_fn(gate) * up)",
        ),
    ),
)
def dinov2_gate_and_up_in_one_product(built: Built) -> None:
    """The gate and the value of the feed-forward layers come from one product."""


@clean("detr", "detr-attention-fused", dtypes=("float32",))
def detr_attention_fused(built: Built) -> None:
    """Attention by the fused function instead of the written-out form."""
    built.model.config._attn_implementation = "sdpa"
