"""Cases of torchvision's classification, segmentation and detection models."""

from __future__ import annotations

from benchmarks.zoo.spec import Built, Where, clean, fault
from benchmarks.zoo.vision_edits import DATA, TORCHVISION, batch_norms, edit_one, source


@fault(
    "densenet",
    "densenet-deviation-not-divided",
    Where("missing", apis=("div",), modules=("",)),
    source="https://github.com/MVIG-SJTU/AlphaPose/issues/472",
    before=source(DATA, "normalised", ("return (images - mean) / std", "return images - mean")),
)
def densenet_deviation_not_divided(built: Built) -> None:
    """The mean is taken out of the pictures, but they are not divided by the deviation."""


@fault(
    "densenet",
    "densenet-one-weight-corrupted",
    Where("state", names=("features.denseblock2.denselayer1.conv2.weight",)),
    source="https://arxiv.org/abs/2102.11245",
)
def densenet_one_weight_corrupted(built: Built) -> None:
    """One element of one weight has the wrong sign, as a flipped bit leaves it."""
    import torch

    with torch.no_grad():
        built.model.features.denseblock2.denselayer1.conv2.weight[3, 5, 1, 1].neg_()


@fault(
    "regnet",
    "regnet-batch-norm-momentum-of-keras",
    Where("argument", apis=("batch_norm",), modules=("stem.1", "trunk_output.*")),
    Where("state", names=("*running_mean", "*running_var")),
    source="https://github.com/pytorch/vision/issues/8250",
)
def regnet_batch_norm_momentum_of_keras(built: Built) -> None:
    """The norms have the momentum 0.99, which means 0.01 where it was taken from."""
    for module in batch_norms(built.model):
        module.momentum = 0.99


@fault(
    "regnet",
    "regnet-trained-in-evaluation-mode",
    Where("argument", apis=("batch_norm",), modules=("stem.1", "trunk_output.*"), step=1),
    source="https://github.com/wkentaro/pytorch-fcn/issues/57",
    before=source(TORCHVISION, "regnet_step", ("    built.model.train()\n", "")),
)
def regnet_trained_in_evaluation_mode(built: Built) -> None:
    """The model is not switched back to training after the first evaluation."""


@fault(
    "regnet",
    "regnet-activation-before-addition",
    Where(
        "region",
        apis=("relu", "add"),
        modules=("trunk_output.block2.block2-1", "trunk_output.block2.block2-1.activation"),
        calls=2,
    ),
    source="https://arxiv.org/abs/1603.05027",
)
def regnet_activation_before_addition(built: Built) -> None:
    """One block applies its last ReLU to the branch instead of the sum with the shortcut."""
    edit_one(
        getattr(built.model.trunk_output.block2, "block2-1"),
        "forward",
        ("    x = x + self.f(x)\n", "    return x + self.activation(self.f(x))\n"),
    )


@fault(
    "regnet-inference",
    "regnet-inference-resize-without-antialias",
    Where("argument", apis=("interpolate", "resize"), modules=("",)),
    source="https://github.com/pytorch/vision/issues/2950",
)
def regnet_inference_resize_without_antialias(built: Built) -> None:
    """Pictures are made smaller without the filter against aliases."""
    built.options["prepare"].antialias = False


@fault(
    "regnet-inference",
    "regnet-inference-crop-rounded-down",
    Where("argument", apis=("getitem", "crop", "center_crop"), modules=("",)),
    source="https://github.com/pytorch/vision/issues/5274",
    before=source(
        "torchvision.transforms.functional",
        "center_crop",
        ("int(round((image_width - crop_width) / 2.0))", "int((image_width - crop_width) / 2.0)"),
        ("int(round((image_height - crop_height) / 2.0))", "int((image_height - crop_height) / 2.0)"),
    ),
)
def regnet_inference_crop_rounded_down(built: Built) -> None:
    """The corner of the middle of a picture is rounded down, so that some pictures are shifted by a pixel."""


@fault(
    "regnet-inference",
    "regnet-inference-running-variance-not-loaded",
    Where("state", names=("trunk_output.block2.block2-0.f.b.1.running_var",)),
    source="https://github.com/torch/nn/issues/1165",
)
def regnet_inference_running_variance_not_loaded(built: Built) -> None:
    """The running variance of one norm is that of a new model."""
    getattr(built.model.trunk_output.block2, "block2-0").f.b[1].running_var.fill_(1.0)


@fault(
    "deeplab",
    "deeplab-border-counted-as-background",
    Where("extra", apis=("masked_fill", "eq"), modules=("",), calls=2),
    Where("argument", apis=("cross_entropy",), modules=("",)),
    source="https://github.com/NVIDIA/semantic-segmentation/issues/46",
    before=source(
        TORCHVISION,
        "deeplab_loss",
        ("    losses = {", "    target = target.masked_fill(target == 255, 0)\n    losses = {"),
    ),
)
def deeplab_border_counted_as_background(built: Built) -> None:
    """The borders that are to be ignored become background before the loss."""


@fault(
    "deeplab",
    "deeplab-loss-averaged-over-ignored-pixels",
    Where("argument", apis=("cross_entropy", "mean"), modules=("",), calls=2),
    source="https://github.com/open-mmlab/mmsegmentation/issues/886",
    before=source(
        TORCHVISION, "deeplab_loss", ("target, ignore_index=255)", 'target, ignore_index=255, reduction="none").mean()')
    ),
)
def deeplab_loss_averaged_over_ignored_pixels(built: Built) -> None:
    """The sum of the losses is divided by the number of all pixels and not of those that count."""


@fault(
    "faster-rcnn",
    "faster-rcnn-smooth-l1-beta",
    Where("argument", apis=("smooth_l1_loss",), modules=("roi_heads",)),
    source="https://github.com/pytorch/vision/issues/8075",
    before=source("torchvision.models.detection.roi_heads", "fastrcnn_loss", ("beta=1 / 9,", "beta=1.0,")),
    dtypes=("float32",),
)
def faster_rcnn_smooth_l1_beta(built: Built) -> None:
    """The loss of the boxes turns from squares to absolute values at 1 instead of 1/9."""


@fault(
    "faster-rcnn",
    "faster-rcnn-aligned-pooling",
    Where(
        "argument",
        apis=("roi_align", "sub", "clamp", "mul", "getitem", "div", "add"),
        modules=("roi_heads.box_roi_pool",),
        calls=4,
    ),
    source="https://github.com/pytorch/vision/issues/1871",
    before=source(
        "torchvision.ops.poolers",
        "_multiscale_roi_align",
        (
            "sampling_ratio=sampling_ratio,\n        )\n\n        if",
            "sampling_ratio=sampling_ratio,\n            aligned=True,\n        )\n\n        if",
        ),
    ),
    dtypes=("float32",),
)
def faster_rcnn_aligned_pooling(built: Built) -> None:
    """The regions are pooled with a shift of half a pixel, as in another implementation."""


@fault(
    "retinanet",
    "retinanet-focal-alpha-swapped",
    Where("region", apis=("mul", "sub", "rsub", "add"), modules=("head.classification_head",), calls=5),
    source="https://github.com/unsky/focal-loss/issues/9",
    before=source(
        "torchvision.models.detection.retinanet",
        "sigmoid_focal_loss",
        (
            "alpha_t = alpha * targets + (1 - alpha) * (1 - targets)",
            "alpha_t = (1 - alpha) * targets + alpha * (1 - targets)",
        ),
    ),
    dtypes=("float32",),
)
def retinanet_focal_alpha_swapped(built: Built) -> None:
    """The focal loss weighs the background with alpha and the objects with the rest."""


@fault(
    "retinanet",
    "retinanet-foreground-of-whole-batch",
    Where("region", apis=("div", "sum", "add", "ge"), modules=("head.classification_head",), calls=6),
    source="https://github.com/fizyr/keras-retinanet/pull/339",
    before=source(
        "torchvision.models.detection.retinanet:RetinaNetClassificationHead",
        "compute_loss",
        ("losses = []\n", "losses = []\n    all_foreground = sum((one >= 0).sum() for one in matched_idxs)\n"),
        ("/ max(1, num_foreground)", "/ max(1, all_foreground)"),
        ("return _sum(losses) / len(targets)", "return _sum(losses)"),
    ),
    dtypes=("float32",),
)
def retinanet_foreground_of_whole_batch(built: Built) -> None:
    """The loss of the classes is divided by the objects of the batch instead of those of each picture."""


@clean("densenet", "densenet-normalised-with-reciprocal", before=source(DATA, "normalised", ("/ std", "* (1 / std)")))
def densenet_normalised_with_reciprocal(built: Built) -> None:
    """Pictures are multiplied by one over the deviation."""


@clean(
    "densenet",
    "densenet-gradients-kept-as-zeros",
    before=source(TORCHVISION, "densenet_step", ("zero_grad()", "zero_grad(set_to_none=False)")),
)
def densenet_gradients_kept_as_zeros(built: Built) -> None:
    """Gradients are set to zero instead of being dropped."""


@clean(
    "deeplab",
    "deeplab-loss-in-two-steps",
    before=source(
        TORCHVISION,
        "deeplab_loss",
        (
            "torch.nn.functional.cross_entropy(value, target",
            "torch.nn.functional.nll_loss(value.log_softmax(1), target",
        ),
    ),
)
def deeplab_loss_in_two_steps(built: Built) -> None:
    """The cross entropy as the logarithm of the softmax and the likelihood of it."""


@clean("faster-rcnn", "faster-rcnn-two-threads", threads=2, dtypes=("float32",))
def faster_rcnn_two_threads(built: Built) -> None:
    """Two threads instead of one."""


@clean(
    "retinanet",
    "retinanet-focal-loss-of-logits",
    before=source(
        "torchvision.models.detection.retinanet",
        "sigmoid_focal_loss",
        ("p_t = p * targets + (1 - p) * (1 - targets)", "p_t = torch.where(targets > 0.5, p, 1 - p)"),
        (
            'F.binary_cross_entropy_with_logits(inputs, targets, reduction="none")',
            "-torch.where(targets > 0.5, F.logsigmoid(inputs), F.logsigmoid(-inputs))",
        ),
    ),
    dtypes=("float32",),
)
def retinanet_focal_loss_of_logits(built: Built) -> None:
    """The focal loss from the logarithms of sigmoids, which are chosen by the target."""
