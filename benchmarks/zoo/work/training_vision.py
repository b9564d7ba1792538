"""Cases of training scripts around image models."""

from __future__ import annotations

from benchmarks.zoo.spec import Built, clean, fault
from benchmarks.zoo.training_edits import kinds, library, script, updated

CLIPPING = ("norm", "stack", "add", "div", "clamp", "mul", "rdiv", "reciprocal")


@fault(
    "vit-recipe",
    "vit-recipe-mixup-other-permutation",
    *kinds("call", "region", apis=("flip", "roll", "mul", "add"), modules=("",)),
    *kinds("data", names=("target", "targets")),
    source="https://github.com/xudonmao/VMT/issues/1",
    before=library("timm.data.mixup", "mixup_target", ("y2 = y1.flip(0)", "y2 = y1.roll(1, 0)")),
)
def mixup_other_permutation(built: Built) -> None:
    """The targets are mixed with those of other images than the ones that were mixed in."""


@fault(
    "vit-recipe",
    "vit-recipe-layer-decay-off-by-one",
    *updated("model.*"),
    source="https://github.com/google-research/electra/issues/51",
    before=library(
        "timm.optim._optim_factory",
        "param_groups_layer_decay",
        ("layer_decay ** (layer_max - i)", "layer_decay ** (layer_max + 1 - i)"),
    ),
)
def layer_decay_off_by_one(built: Built) -> None:
    """The learning rate of each layer is decayed once too often, that of the head too."""


@fault(
    "vit-recipe",
    "vit-recipe-drop-path-not-scaled",
    *kinds("missing", "call", "region", apis=("div", "mul", "bernoulli"), modules=("model.blocks.*",)),
    source="https://github.com/huggingface/pytorch-image-models/issues/887",
    before=library("timm.layers.drop", "drop_path", ("if keep_prob > 0.0 and scale_by_keep:", "if False:")),
)
def drop_path_not_scaled(built: Built) -> None:
    """The paths that are kept are not divided by the probability to be kept."""


@fault(
    "vit-recipe",
    "vit-recipe-smoothing-over-other-classes",
    *kinds("argument", "call", apis=("full", "scatter", "one_hot", "flip", "mul"), modules=("",)),
    *kinds("data", names=("target", "targets")),
    source="https://github.com/CoinCheung/pytorch-loss/pull/19",
    before=library("timm.data.mixup", "mixup_target", ("smoothing / num_classes", "smoothing / (num_classes - 1)")),
)
def smoothing_over_other_classes(built: Built) -> None:
    """The smoothed targets are spread over one class less, so that they do not sum to one."""


@fault(
    "resnet-sgd",
    "resnet-sgd-clip-each-parameter",
    *updated("model.*"),
    *kinds("region", "missing", "call", "argument", apis=CLIPPING, modules=("",), phase="backward", calls=6),
    *kinds("region", "missing", "call", "argument", apis=CLIPPING, modules=("",), calls=6),
    source="https://github.com/huggingface/transformers/issues/581",
    before=script(
        "resnet",
        "clip",
        (
            "    total = torch.stack([gradient.norm() for gradient in gradients]).norm()\n"
            "    factor = (limit / (total + 1e-6)).clamp(max=1.0)\n"
            "    for gradient in gradients:\n        gradient.mul_(factor)\n",
            "    for gradient in gradients:\n"
            "        gradient.mul_((limit / (gradient.norm() + 1e-6)).clamp(max=1.0))\n",
        ),
    ),
)
def clip_each_parameter(built: Built) -> None:
    """Each gradient is clipped by its own norm instead of by the norm of all."""


@fault(
    "resnet-sgd",
    "resnet-sgd-swa-momentum-zero",
    *kinds("argument", "call", apis=("batch_norm",), modules=("averaged.module.*",), step=2),
    *kinds("state", names=("averaged.module.*running_*",), step=2),
    source="https://github.com/Lightning-AI/pytorch-lightning/issues/14866",
    before=library("torch.optim.swa_utils", "update_bn", ("module.momentum = None", "module.momentum = 0.0")),
)
def swa_momentum_zero(built: Built) -> None:
    """The statistics of the averaged model are measured with a momentum of zero, that is, not at all."""


@fault(
    "resnet-sgd",
    "resnet-sgd-norm-momentum-of-tensorflow",
    *kinds("argument", "call", apis=("batch_norm",), modules=("model.bn1", "model.*")),
    *kinds("state", names=("model.*running_*",)),
    source="https://github.com/pytorch/vision/issues/8250",
    before=script(
        "resnet",
        "make_model",
        (
            "    return ResNet(",
            "    import functools\n\n    import torch\n\n"
            "    norm = functools.partial(torch.nn.BatchNorm2d, momentum=0.9)\n"
            "    return ResNet(",
        ),
        ("stem_width=16", "stem_width=16, norm_layer=norm"),
    ),
)
def norm_momentum_of_tensorflow(built: Built) -> None:
    """The momentum of the batch norms is 0.9 as in TensorFlow, where it means 0.1."""


@fault(
    "convnext-focal",
    "convnext-focal-alpha-for-all",
    *kinds("region", "missing", "call", "argument", apis=("mul", "add", "sub", "rsub"), modules=("",), calls=5),
    source="https://github.com/qubvel/segmentation_models/issues/187",
    before=script(
        "focal", "focal_loss", ("balance = alpha * targets + (1 - alpha) * (1 - targets)", "balance = alpha")
    ),
)
def alpha_for_all(built: Built) -> None:
    """Positive and negative classes are weighted by the same alpha."""


@fault(
    "convnext-focal",
    "convnext-focal-sigmoid-twice",
    *kinds("extra", "argument", "call", "region", apis=("sigmoid", "binary_cross_entropy_with_logits"), modules=("",)),
    source="https://github.com/itakurah/focal-loss-pytorch/pull/5",
    before=script(
        "focal",
        "focal_loss",
        ("cross_entropy_with_logits(logits,", "cross_entropy_with_logits(torch.sigmoid(logits),"),
    ),
)
def sigmoid_twice(built: Built) -> None:
    """The cross entropy that expects logits is given probabilities."""


@clean("vit-recipe", "vit-recipe-attention-written-out")
def attention_written_out(built: Built) -> None:
    """Attention written out instead of scaled_dot_product_attention."""
    for block in built.model["model"].blocks:
        block.attn.fused_attn = False


@clean("vit-recipe", "vit-recipe-cross-entropy-of-probabilities")
def cross_entropy_of_probabilities(built: Built) -> None:
    """The loss on soft targets by cross_entropy of torch instead of timm's own."""
    import torch

    built.options["criterion"] = torch.nn.CrossEntropyLoss()


@clean("resnet-sgd", "resnet-sgd-channels-last")
def channels_last(built: Built) -> None:
    """The weights of the convolutions have their channels last in memory."""
    import torch

    built.model.to(memory_format=torch.channels_last)


@clean("resnet-sgd", "resnet-sgd-two-threads", threads=2)
def two_threads(built: Built) -> None:
    """Two threads instead of one."""


@clean(
    "convnext-focal",
    "convnext-focal-by-where",
    before=script(
        "focal",
        "focal_loss",
        ("chance * targets + (1 - chance) * (1 - targets)", "torch.where(targets == 1, chance, 1 - chance)"),
        (
            "alpha * targets + (1 - alpha) * (1 - targets)",
            "torch.where(targets == 1, torch.full_like(targets, alpha), torch.full_like(targets, 1 - alpha))",
        ),
    ),
)
def by_where(built: Built) -> None:
    """Positive and negative classes are told apart by where instead of by products with the targets."""
