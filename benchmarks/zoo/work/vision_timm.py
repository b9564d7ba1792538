"""Cases of timm's image classifiers and what timm trains them with."""

from __future__ import annotations

from benchmarks.zoo.spec import Built, Where, clean, fault
from benchmarks.zoo.vision_edits import TIMM, batch_norms, edit_one, source, swish_with_short_gradient


@fault(
    "vit",
    "vit-attention-scale-by-number-of-heads",
    Where("argument", apis=("mul", "matmul", "softmax"), modules=("blocks.*.attn",)),
    source="https://github.com/huggingface/pytorch-image-models/issues/2385",
    before=source(
        "timm.layers.attention:Attention",
        "__init__",
        ("self.scale = head_dim ** -0.5", "self.scale = num_heads ** -0.5"),
    ),
)
def vit_attention_scale_by_number_of_heads(built: Built) -> None:
    """The scale of attention is taken from the number of heads instead of the size of a head."""


@fault(
    "vit",
    "vit-final-norm-epsilon",
    Where("argument", apis=("layer_norm",), modules=("norm",)),
    source="https://github.com/karpathy/makemore/issues/1",
    dtypes=("float32",),
)
def vit_final_norm_epsilon(built: Built) -> None:
    """The last norm was made with PyTorch's default epsilon of 1e-5 instead of 1e-6."""
    built.model.norm.eps = 1e-5


@fault(
    "vit",
    "vit-scheduler-stepped-first",
    Where("update", names=("*",)),
    source="https://github.com/huggingface/pytorch-image-models/issues/2125",
    before=source(
        TIMM,
        "vit_step",
        (
            "    built.optimizer.step()\n    built.scheduler.step_update(num_updates=index + 1)\n",
            "    built.scheduler.step_update(num_updates=index + 1)\n    built.optimizer.step()\n",
        ),
    ),
)
def vit_scheduler_stepped_first(built: Built) -> None:
    """The schedule advances before the update, which skips the first rate of the warm-up."""


@fault(
    "vit",
    "vit-mixup-of-scaled-pictures",
    Where("region", apis=("flip", "mul", "add"), modules=("",), calls=4, step=0),
    source="https://github.com/huggingface/pytorch-image-models/issues/50",
    before=source(
        "timm.data.mixup:Mixup",
        "_mix_batch",
        (
            "x_flipped = x.flip(0).mul_(1. - lam)\n        x.mul_(lam).add_(x_flipped)",
            "x.mul_(lam).add_(x.flip(0).mul_(1. - lam))",
        ),
    ),
)
def vit_mixup_of_scaled_pictures(built: Built) -> None:
    """The pictures are mixed in place, so that those mixed in were scaled already."""


@fault(
    "eva",
    "eva-rope-temperature",
    Where("state", names=("rope.*",)),
    source="https://github.com/huggingface/transformers/pull/48105",
    before=source("timm.models.eva:Eva", "__init__", ("temperature=rope_temperature,", "temperature=100.0,")),
)
def eva_rope_temperature(built: Built) -> None:
    """The rotary positions have the temperature 100 of another family instead of 10000."""


@fault(
    "eva",
    "eva-rope-rotated-by-halves",
    Where(
        "region",
        apis=("stack", "neg", "cat", "reshape", "chunk", "mul", "add", "getitem", "addcmul", "unbind"),
        modules=("blocks.*.attn",),
        calls=4,
    ),
    source="https://github.com/Blaizzy/mlx-vlm/pull/112",
)
def eva_rope_rotated_by_halves(built: Built) -> None:
    """Attention rotates the halves of a head, while the sines and cosines are laid out for pairs side by side."""
    for block in built.model.blocks:
        block.attn.rotate_half = True


@fault(
    "eva",
    "eva-gate-and-value-swapped",
    Where("call", apis=("silu", "mul"), modules=("blocks.*.mlp.act", "blocks.*.mlp")),
    source="https://github.com/ml-explore/mlx-lm/pull/767",
    before=source("timm.layers.mlp:SwiGLU", "forward", ("self.act(x_gate) * x", "x_gate * self.act(x)")),
)
def eva_gate_and_value_swapped(built: Built) -> None:
    """The activation of the gated feed-forward layer is applied to the value instead of the gate."""


@fault(
    "eva",
    "eva-label-smoothing-scaled-by-classes",
    Where("argument", apis=("mul",), modules=("",)),
    source="https://github.com/fastai/fastai/pull/1814",
    before=source(
        "timm.loss.cross_entropy:LabelSmoothingCrossEntropy",
        "forward",
        (
            "loss = self.confidence * nll_loss",
            "classes = x.shape[-1]\n    loss = (1. - self.smoothing * classes / (classes - 1)) * nll_loss",
        ),
    ),
)
def eva_label_smoothing_scaled_by_classes(built: Built) -> None:
    """The weight of the true class is lowered by the smoothing times c / (c - 1)."""


@fault(
    "convnext",
    "convnext-layer-scale-left-out",
    Where("missing", apis=("mul", "reshape"), modules=("stages.1.blocks.1",), calls=2),
    source="https://github.com/facebookresearch/ConvNeXt/issues/51",
)
def convnext_layer_scale_left_out(built: Built) -> None:
    """The scale of the residual branch is not applied in one block."""
    edit_one(built.model.stages[1].blocks[1], "forward", ("if self.gamma is not None:", "if False:"))


@fault(
    "convnext",
    "convnext-drop-path-unscaled",
    Where("missing", apis=("div", "bernoulli", "mul"), modules=("stages.*.blocks.*.drop_path", "stages.*.blocks.*")),
    source="https://github.com/microsoft/Swin-Transformer/issues/366",
)
def convnext_drop_path_unscaled(built: Built) -> None:
    """Branches that stochastic depth keeps are not divided by the probability of keeping them."""
    from timm.layers import DropPath

    for module in built.model.modules():
        if isinstance(module, DropPath):
            module.scale_by_keep = False


@fault(
    "convnext",
    "convnext-norm-in-bfloat16",
    Where("precision", apis=("layer_norm", "to"), modules=("stages.0.blocks.0.norm", "stages.0.blocks.0"), calls=4),
    source="https://github.com/huggingface/pytorch-image-models/pull/1340",
    dtypes=("float32",),
)
def convnext_norm_in_bfloat16(built: Built) -> None:
    """One norm of a float32 model computes in bfloat16, as if the automatic cast had not excluded norms."""
    edit_one(
        built.model.stages[0].blocks[0].norm,
        "forward",
        (
            "x = F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)",
            "x = F.layer_norm(x.to(torch.bfloat16), self.normalized_shape, self.weight.to(torch.bfloat16), "
            "self.bias.to(torch.bfloat16), self.eps).to(x.dtype)",
        ),
    )


@fault(
    "efficientnet",
    "efficientnet-batch-norm-epsilon-of-tensorflow",
    Where("argument", apis=("batch_norm",), modules=("bn1", "bn2", "blocks.*.bn*")),
    source="https://github.com/huggingface/transformers/pull/19454",
)
def efficientnet_batch_norm_epsilon_of_tensorflow(built: Built) -> None:
    """The norms have the epsilon 1e-3 of the original, for weights that were trained with 1e-5."""
    for module in batch_norms(built.model):
        module.eps = 1e-3


@fault(
    "efficientnet",
    "efficientnet-excitation-with-relu",
    Where("call", apis=("silu", "relu"), modules=("blocks.*.se.act1", "blocks.*.se")),
    source="https://github.com/pytorch/vision/pull/4448",
)
def efficientnet_excitation_with_relu(built: Built) -> None:
    """Squeeze and excitation has a ReLU inside instead of the activation of the model."""
    import torch

    for stage in built.model.blocks:
        for block in stage:
            block.se.act1 = torch.nn.ReLU(inplace=True)


@fault(
    "efficientnet",
    "efficientnet-rmsprop-epsilon-outside-root",
    Where("update", names=("*",)),
    source="https://github.com/pytorch/pytorch/issues/23796",
    dtypes=("float32",),
    before=source(
        "timm.optim.rmsprop_tf",
        "_single_tensor_rmsprop_tf",
        ("avg = square_avg.add(eps).sqrt_()  # eps moved in sqrt", "avg = square_avg.sqrt().add_(eps)"),
    ),
)
def efficientnet_rmsprop_epsilon_outside_root(built: Built) -> None:
    """RMSprop adds its epsilon to the root, as PyTorch does, and not under the root, as TensorFlow does."""


@fault(
    "efficientnet",
    "efficientnet-scheduler-before-optimizer",
    Where("update", names=("*",)),
    source="https://github.com/cfchen-duke/ProtoPNet/issues/22",
    before=source(
        TIMM,
        "efficientnet_step",
        (
            "    built.optimizer.step()\n    built.scheduler.step()\n",
            "    built.scheduler.step()\n    built.optimizer.step()\n",
        ),
    ),
)
def efficientnet_scheduler_before_optimizer(built: Built) -> None:
    """The schedule is stepped before the optimizer, so the first rate is never used."""


@fault(
    "efficientnet",
    "efficientnet-swish-gradient-incomplete",
    Where(
        "call",
        apis=("silu", "sigmoid", "mul", "apply", "Swish"),
        modules=("blocks.1.1.bn1.act", "blocks.1.1.bn1"),
        phase="backward",
    ),
    source="https://github.com/pytorch/pytorch/issues/110815",
)
def efficientnet_swish_gradient_incomplete(built: Built) -> None:
    """A swish that was written to save memory lacks a term in its derivative; one block uses it."""
    built.model.blocks[1][1].bn1.act = swish_with_short_gradient()


@fault(
    "swin",
    "swin-softmax-in-bfloat16",
    Where(
        "precision",
        apis=("softmax", "to"),
        modules=("layers.0.blocks.1.attn.softmax", "layers.0.blocks.1.attn"),
        calls=3,
    ),
    source="https://github.com/apple/axlearn/pull/18",
    dtypes=("float32",),
)
def swin_softmax_in_bfloat16(built: Built) -> None:
    """The softmax of one attention of a float32 model computes in bfloat16."""
    edit_one(
        built.model.layers[0].blocks[1].attn.softmax,
        "forward",
        (
            "F.softmax(input, self.dim, _stacklevel=5)",
            "F.softmax(input.to(torch.bfloat16), self.dim, _stacklevel=5).to(input.dtype)",
        ),
    )


@fault(
    "seresnet",
    "seresnet-accumulated-loss-undivided",
    Where("missing", apis=("div",), modules=("",)),
    Where("missing", apis=("div", "backward"), modules=("",), phase="backward"),
    source="https://github.com/agokrani/distillKitPlus/issues/5",
    before=source(TIMM, "seresnet_step", ("(loss / parts).backward()", "loss.backward()")),
)
def seresnet_accumulated_loss_undivided(built: Built) -> None:
    """The losses of the parts of a batch are added up without dividing by their number."""


@fault(
    "seresnet",
    "seresnet-hard-sigmoid-gate",
    Where("call", apis=("sigmoid", "hardsigmoid"), modules=("layer2.1.se.gate", "layer2.1.se")),
    source="https://github.com/ofsoundof/LocalViT/issues/2",
)
def seresnet_hard_sigmoid_gate(built: Built) -> None:
    """The gate of one block is the piecewise linear sigmoid."""
    import torch

    built.model.layer2[1].se.gate = torch.nn.Hardsigmoid()


@fault(
    "seresnet",
    "seresnet-stem-frozen",
    Where("update", names=("conv1.*",)),
    Where("state", names=("conv1.*",)),
    Where("missing", names=("conv1.*",), modules=("conv1*",), phase="backward"),
    source="https://github.com/pytorch/vision/issues/2164",
)
def seresnet_stem_frozen(built: Built) -> None:
    """The convolutions of the stem are frozen although nothing was pretrained."""
    for value in built.model.conv1.parameters():
        value.requires_grad_(False)


@clean(
    "eva",
    "eva-silu-written-out",
    before=source("timm.layers.mlp:SwiGLU", "forward", ("self.act(x_gate) * x", "x_gate * x_gate.sigmoid() * x")),
)
def eva_silu_written_out(built: Built) -> None:
    """SiLU as the product with a sigmoid."""


@clean(
    "eva",
    "eva-projections-fused",
    before=source(
        "timm.models.eva:EvaAttention",
        "forward",
        (
            "q = self.q_proj(x).reshape(B, N, self.num_heads, -1).transpose(1, 2)",
            "no_bias = torch.zeros_like(self.q_proj.bias)\n"
            "        fused = F.linear(\n"
            "            x,\n"
            "            torch.cat((self.q_proj.weight, self.k_proj.weight, self.v_proj.weight)),\n"
            "            torch.cat((self.q_proj.bias, no_bias, self.v_proj.bias)),\n"
            "        )\n"
            "        parts = fused.chunk(3, dim=-1)\n"
            "        q, k, v = (one.reshape(B, N, self.num_heads, -1).transpose(1, 2) for one in parts)",
        ),
        ("k = self.k_proj(x).reshape(B, N, self.num_heads, -1).transpose(1, 2)", "pass"),
        ("v = self.v_proj(x).reshape(B, N, self.num_heads, -1).transpose(1, 2)", "pass"),
    ),
)
def eva_projections_fused(built: Built) -> None:
    """Queries, keys and values by one product with the weights put together."""


@clean(
    "convnext",
    "convnext-feed-forward-as-convolutions",
    before=source(
        "timm.layers.mlp:Mlp",
        "forward",
        (
            "x = self.fc1(x)",
            "x = nn.functional.conv2d(\n"
            "        x.permute(0, 3, 1, 2), self.fc1.weight[:, :, None, None], self.fc1.bias\n"
            "    )",
        ),
        (
            "x = self.fc2(x)",
            "x = nn.functional.conv2d(x, self.fc2.weight[:, :, None, None], self.fc2.bias).permute(0, 2, 3, 1)",
        ),
    ),
)
def convnext_feed_forward_as_convolutions(built: Built) -> None:
    """The linear layers of the blocks as convolutions of one pixel."""


@clean(
    "efficientnet",
    "efficientnet-mean-by-pooling",
    before=source(
        "timm.models._efficientnet_blocks:SqueezeExcite",
        "forward",
        ("x.mean((2, 3), keepdim=True)", "F.adaptive_avg_pool2d(x, 1)"),
    ),
)
def efficientnet_mean_by_pooling(built: Built) -> None:
    """Squeeze and excitation takes its mean by pooling."""


@clean("swin", "swin-attention-fused")
def swin_attention_fused(built: Built) -> None:
    """Attention in windows by the fused function, which is handed bias and mask in one."""
    for layer in built.model.layers:
        for block in layer.blocks:
            block.attn.fused_attn = True
