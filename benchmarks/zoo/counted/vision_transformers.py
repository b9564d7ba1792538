"""Cases of the vision models of transformers."""

from __future__ import annotations

from benchmarks.zoo.spec import Built, Where, clean, fault
from benchmarks.zoo.vision_edits import edit_one, linear_in_bfloat16, replace_one, source


@fault(
    "segformer",
    "segformer-height-and-width-swapped",
    Where(
        "argument",
        apis=("view", "reshape", "conv2d"),
        modules=("segformer.stages.*.blocks.*.mlp.dwconv", "segformer.stages.*.blocks.*.mlp.dwconv.dwconv"),
    ),
    source="https://github.com/roboflow/rf-detr/pull/630",
    before=source(
        "transformers.models.segformer.modeling_segformer:SegformerDepthWiseConv",
        "forward",
        ("num_channels, height, width)", "num_channels, width, height)"),
    ),
)
def segformer_height_and_width_swapped(built: Built) -> None:
    """The convolution of the feed-forward layers sees pictures with height and width exchanged."""


@fault(
    "segformer",
    "segformer-stages-in-order",
    Where("argument", apis=("cat",), modules=("decode_head",)),
    source="https://arxiv.org/abs/2105.15203",
    before=source(
        "transformers.models.segformer.modeling_segformer:SegformerDecodeHead",
        "forward",
        ("all_hidden_states[::-1]", "all_hidden_states"),
    ),
)
def segformer_stages_in_order(built: Built) -> None:
    """The head puts the features of the stages together from first to last, where its weights expect last to first."""


@fault(
    "dinov2",
    "dinov2-gate-and-up-swapped",
    Where("state", names=("dinov2.encoder.layer.1.mlp.gate_proj.*", "dinov2.encoder.layer.1.mlp.up_proj.*")),
    source="https://github.com/nntrainer/nntrainer/pull/4194",
)
def dinov2_gate_and_up_swapped(built: Built) -> None:
    """The weights of the gate and the value of one layer were loaded into each other's place."""
    mlp = built.model.dinov2.encoder.layer[1].mlp
    gate = {name: value.clone() for name, value in mlp.gate_proj.state_dict().items()}
    mlp.gate_proj.load_state_dict(mlp.up_proj.state_dict())
    mlp.up_proj.load_state_dict(gate)


@fault(
    "dinov2",
    "dinov2-projection-in-bfloat16",
    Where(
        "precision",
        apis=("linear", "to"),
        modules=("dinov2.encoder.layer.1.attention.o_proj", "dinov2.encoder.layer.1.attention"),
        calls=5,
    ),
    source="https://github.com/huggingface/transformers/pull/18746",
    dtypes=("float32",),
)
def dinov2_projection_in_bfloat16(built: Built) -> None:
    """One projection of a float32 model computes in bfloat16."""
    replace_one(built.model.dinov2.encoder.layer[1].attention.o_proj, "forward", linear_in_bfloat16)


@fault(
    "detr",
    "detr-positions-unnormalised",
    Where("missing", apis=("div", "mul", "add", "getitem"), modules=("model.position_embedding",), calls=8),
    source="https://github.com/impiga/Plain-DETR/issues/28",
    dtypes=("float32",),
)
def detr_positions_unnormalised(built: Built) -> None:
    """The positions are counted in pixels of the features instead of being scaled to the size of the picture."""
    built.model.model.position_embedding.normalize = False


@fault(
    "detr",
    "detr-padding-mask-unused",
    Where("missing", apis=("add", "softmax"), modules=("model.encoder.layers.*.self_attn",)),
    source="https://github.com/Visual-Behavior/detr-tensorflow/issues/12",
    before=source(
        "transformers.models.detr.modeling_detr:DetrEncoderLayer",
        "forward",
        ("attention_mask=attention_mask,", "attention_mask=None,"),
    ),
    dtypes=("float32",),
)
def detr_padding_mask_unused(built: Built) -> None:
    """The encoder attends to the padding of smaller pictures."""


@fault(
    "detr",
    "detr-empty-weight-lost",
    Where("argument", apis=("cross_entropy", "setitem"), modules=("",)),
    source="https://github.com/facebookresearch/detr/issues/9",
    dtypes=("float32",),
)
def detr_empty_weight_lost(built: Built) -> None:
    """Queries without an object count as much as those with one."""
    built.model.config.eos_coefficient = 1.0


@fault(
    "detr",
    "detr-positions-in-values",
    Where("argument", apis=("linear",), modules=("model.encoder.layers.1.self_attn.v_proj",)),
    Where("argument", apis=("add", "linear"), modules=("model.encoder.layers.1.self_attn",)),
    source="https://arxiv.org/abs/2005.12872",
    dtypes=("float32",),
)
def detr_positions_in_values(built: Built) -> None:
    """One layer of the encoder adds the positions to the values too."""
    edit_one(
        built.model.model.encoder.layers[1].self_attn,
        "forward",
        ("self.v_proj(hidden_states)", "self.v_proj(query_key_input)"),
    )


@clean("dinov2", "dinov2-attention-fused")
def dinov2_attention_fused(built: Built) -> None:
    """Attention by the fused function instead of the written-out form."""
    built.model.set_attn_implementation("sdpa")


@clean(
    "detr",
    "detr-frozen-norm-by-pytorch",
    before=source(
        "transformers.models.detr.modeling_detr:DetrFrozenBatchNorm2d",
        "forward",
        (
            "return x * scale + bias",
            "return nn.functional.batch_norm(\n"
            "        x, self.running_mean, self.running_var, self.weight, self.bias, training=False, eps=epsilon\n"
            "    )",
        ),
    ),
    dtypes=("float32",),
)
def detr_frozen_norm_by_pytorch(built: Built) -> None:
    """The frozen norms of the trunk by PyTorch's batch norm in evaluation."""
