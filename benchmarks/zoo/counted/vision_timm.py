"""Cases of timm's image classifiers and what timm trains them with."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.spec import Built, Where, clean, fault
from benchmarks.zoo.vision_edits import TIMM, source


@fault(
    "vit",
    "vit-gelu-approximated-in-last-block",
    Where("argument", apis=("gelu",), modules=("blocks.2.mlp.act", "blocks.2.mlp")),
    source="https://github.com/huggingface/pytorch-image-models/pull/2105",
    dtypes=("float32",),
)
def vit_gelu_approximated_in_last_block(built: Built) -> None:
    """The last block has the tanh approximation of GELU instead of the exact function."""
    import torch

    built.model.blocks[2].mlp.act = torch.nn.GELU(approximate="tanh")


@fault(
    "vit",
    "vit-qkv-interleaved-by-head",
    Where("region", apis=("reshape", "permute", "unbind", "view"), modules=("blocks.*.attn",), calls=2),
    source="https://github.com/NVIDIA/apex/issues/1131",
    before=source(
        "timm.layers.attention:Attention",
        "forward",
        (
            "reshape(B, N, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)",
            "reshape(B, N, self.num_heads, 3, self.head_dim).permute(3, 0, 2, 1, 4)",
        ),
    ),
)
def vit_qkv_interleaved_by_head(built: Built) -> None:
    """Queries, keys and values are read from the fused projection as if each head had its three side by side."""


@fault(
    "eva",
    "eva-decay-on-norms-and-biases",
    Where("update", names=("*norm*", "*bias", "cls_token", "reg_token", "pos_embed")),
    source="https://github.com/ServiceNow/Fast-LLM/issues/542",
)
def eva_decay_on_norms_and_biases(built: Built) -> None:
    """Weight decay is applied to norms, biases and positions too."""
    from timm.optim import create_optimizer_v2

    built.optimizer = create_optimizer_v2(
        built.model, opt="lamb", lr=5e-3, weight_decay=0.05, filter_bias_and_bn=False
    )


@fault(
    "eva",
    "eva-lamb-bias-correction-missing",
    Where("update", names=("*",)),
    source="https://github.com/jettify/pytorch-optimizer/issues/443",
)
def eva_lamb_bias_correction_missing(built: Built) -> None:
    """LAMB does not correct its averages for their start at zero."""
    for group in built.optimizer.param_groups:
        group["bias_correction"] = False


@fault(
    "convnext",
    "convnext-average-one-step-late",
    Where("argument", apis=("foreach_lerp", "lerp", "update"), modules=("",), step=1),
    Where("update", names=("*",), step=1),
    Where("state", names=("*",), step=1),
    source="https://github.com/huggingface/diffusers/issues/1864",
    before=source(TIMM, "convnext_step", ("step=index + 1", "step=index")),
)
def convnext_average_one_step_late(built: Built) -> None:
    """The average of the weights is told the number of the step before, so its decay starts one step late."""


@fault(
    "efficientnet",
    "efficientnet-same-padding",
    Where(
        "region",
        apis=("conv2d", "pad"),
        modules=("conv_stem", "blocks.*.conv_dw"),
        calls=2,
    ),
    source="https://github.com/NVIDIA/DeepLearningExamples/issues/1144",
    before=source(
        "timm.models.efficientnet:EfficientNet", "__init__", ("pad_type: str = '',", "pad_type: str = 'same',")
    ),
)
def efficientnet_same_padding(built: Built) -> None:
    """The convolutions with a stride are padded as TensorFlow does, on one side, for weights of PyTorch."""


@fault(
    "swin",
    "swin-shift-mask-ignored",
    Where("missing", apis=("add", "view", "unsqueeze", "softmax"), modules=("layers.*.blocks.1.attn",), calls=5),
    source="https://github.com/huggingface/pytorch-image-models/issues/2438",
    before=source(
        "timm.models.swin_transformer:SwinTransformerBlock",
        "_attn",
        ("self.attn(x_windows, mask=attn_mask)", "self.attn(x_windows, mask=None)"),
    ),
)
def swin_shift_mask_ignored(built: Built) -> None:
    """Shifted windows attend across the edges of the picture, as the mask is not handed on."""


@fault(
    "swin",
    "swin-merge-order",
    Where("argument", apis=("permute", "flatten"), modules=("layers.1.downsample",)),
    source="https://github.com/open-mmlab/mmdetection/issues/6747",
    before=source(
        "timm.models.swin_transformer:PatchMerging",
        "forward",
        ("permute(0, 1, 3, 4, 2, 5)", "permute(0, 1, 3, 2, 4, 5)"),
    ),
)
def swin_merge_order(built: Built) -> None:
    """The four patches that are merged are put side by side in another order than the weights expect."""


@fault(
    "swin",
    "swin-clipping-for-each-parameter",
    Where(
        "region",
        apis=("clip_grad_norm", "mul", "foreach_mul", "vector_norm", "foreach_norm", "stack", "clamp", "div", "add"),
        modules=("",),
        calls=4,
    ),
    Where("region", apis=("clip_grad_norm",), modules=("",), phase="backward", calls=4),
    Where("update", names=("*",)),
    source="https://github.com/huggingface/transformers/pull/614",
    before=source(
        TIMM,
        "swin_step",
        (
            "torch.nn.utils.clip_grad_norm_(built.model.parameters(), 0.5)",
            "for value in built.model.parameters():\n        torch.nn.utils.clip_grad_norm_(value, 0.5)",
        ),
    ),
)
def swin_clipping_for_each_parameter(built: Built) -> None:
    """The gradient of each parameter is clipped by its own norm instead of that of all."""


@fault(
    "seresnet",
    "seresnet-stride-in-first-convolution",
    Where("argument", apis=("conv2d",), modules=("layer?.0.conv1", "layer?.0.conv2")),
    source="https://github.com/pytorch/vision/issues/191",
)
def seresnet_stride_in_first_convolution(built: Built) -> None:
    """The blocks that halve the picture do so in their first convolution instead of the second."""
    for layer in (built.model.layer2, built.model.layer3, built.model.layer4):
        layer[0].conv1.stride, layer[0].conv2.stride = (2, 2), (1, 1)


@fault(
    "seresnet",
    "seresnet-gradients-reset-between-parts",
    Where("extra", apis=("zero_grad",), modules=("",)),
    Where("extra", apis=("zero_grad", "backward"), modules=("",), phase="backward"),
    Where("update", names=("*",)),
    source="https://github.com/bytetriper/RAE/issues/67",
    before=source(
        TIMM,
        "seresnet_step",
        (
            "        output = built.model(part)",
            "        built.optimizer.zero_grad()\n        output = built.model(part)",
        ),
    ),
)
def seresnet_gradients_reset_between_parts(built: Built) -> None:
    """The gradients are reset before each part of a batch, so that only the last part counts."""


@clean("vit", "vit-attention-fused")
def vit_attention_fused(built: Built) -> None:
    """Attention by the fused function instead of the written-out form."""
    for block in built.model.blocks:
        block.attn.fused_attn = True


@clean("vit", "vit-blocks-recomputed")
def vit_blocks_recomputed(built: Built) -> None:
    """The blocks are computed again in the backward pass."""
    built.model.set_grad_checkpointing(True)


@clean("vit", "vit-optimizer-all-at-once")
def vit_optimizer_all_at_once(built: Built) -> None:
    """The optimizer updates all parameters in one call instead of one after the other."""
    for group in built.optimizer.param_groups:
        group["foreach"] = True


@clean("vit", "vit-inside-a-wrapper")
def vit_inside_a_wrapper(built: Built) -> None:
    """The model is put into a wrapper that does nothing, so that all its paths get a prefix."""
    import torch

    class Wrapper(torch.nn.Module):
        def __init__(self, module: Any) -> None:
            super().__init__()
            self.module = module

        def forward(self, *arguments: Any, **more: Any) -> Any:
            return self.module(*arguments, **more)

        def state_dict(self, *arguments: Any, **more: Any) -> Any:
            return self.module.state_dict(*arguments, **more)

    built.model = Wrapper(built.model)


@clean("convnext", "convnext-average-one-by-one")
def convnext_average_one_by_one(built: Built) -> None:
    """The average of the weights is updated one tensor after the other."""
    built.options["average"].foreach = False


@clean("convnext", "convnext-channels-last")
def convnext_channels_last(built: Built) -> None:
    """Weights and pictures lie in memory with the channels last."""
    import torch

    built.model.to(memory_format=torch.channels_last)
    built.batches = [(images.contiguous(memory_format=torch.channels_last), target) for images, target in built.batches]


@clean("efficientnet", "efficientnet-smoothed-loss-of-pytorch")
def efficientnet_smoothed_loss_of_pytorch(built: Built) -> None:
    """The loss with smoothed labels by PyTorch's cross entropy instead of timm's."""
    import torch

    built.options["criterion"] = torch.nn.CrossEntropyLoss(label_smoothing=0.1)


@clean(
    "swin",
    "swin-shift-by-slices",
    before=source(
        "timm.models.swin_transformer:SwinTransformerBlock",
        "_attn",
        (
            "shifted_x = torch.roll(x, shifts=(-self.shift_size[0], -self.shift_size[1]), dims=(1, 2))",
            "down, right = self.shift_size\n"
            "        shifted_x = torch.cat((x[:, down:], x[:, :down]), dim=1)\n"
            "        shifted_x = torch.cat((shifted_x[:, :, right:], shifted_x[:, :, :right]), dim=2)",
        ),
    ),
)
def swin_shift_by_slices(built: Built) -> None:
    """Pictures are shifted by putting slices together instead of rolling."""


@clean(
    "seresnet",
    "seresnet-one-backward-for-all-parts",
    before=source(
        TIMM,
        "seresnet_step",
        ("        (loss / parts).backward()\n        losses.append(loss.detach())", "        losses.append(loss)"),
        ("    built.optimizer.step()", "    torch.stack(losses).mean().backward()\n    built.optimizer.step()"),
    ),
)
def seresnet_one_backward_for_all_parts(built: Built) -> None:
    """The losses of the parts are averaged first, and their gradients computed in one backward pass."""


@clean("seresnet", "seresnet-two-threads", threads=2)
def seresnet_two_threads(built: Built) -> None:
    """Two threads instead of one."""
