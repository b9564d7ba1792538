"""Cases of torchvision's classification, segmentation and detection models."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.spec import Built, Where, clean, fault
from benchmarks.zoo.vision_edits import TORCHVISION, fold, replace_one, source


@fault(
    "densenet",
    "densenet-nesterov-lost",
    Where("update", names=("*",)),
    source="https://proceedings.mlr.press/v28/sutskever13.html",
)
def densenet_nesterov_lost(built: Built) -> None:
    """The momentum is the plain one instead of Nesterov's."""
    for group in built.optimizer.param_groups:
        group["nesterov"] = False


@fault(
    "densenet",
    "densenet-transition-max-pool",
    Where("call", apis=("avg_pool2d", "max_pool2d"), modules=("features.transition1.pool", "features.transition1")),
    source="https://github.com/tdeboissiere/DeepLearningImplementations/issues/50",
)
def densenet_transition_max_pool(built: Built) -> None:
    """The first transition takes the maximum of four pixels instead of their mean."""
    import torch

    built.model.features.transition1.pool = torch.nn.MaxPool2d(kernel_size=2, stride=2)


@fault(
    "densenet",
    "densenet-recomputed-norms-updated-twice",
    Where("extra", apis=("batch_norm",), modules=("features.denseblock*.denselayer*.norm1",), phase="backward"),
    Where("extra", apis=("batch_norm",), modules=("features.denseblock*.denselayer*.norm1",)),
    Where("state", names=("*.norm1.running_mean", "*.norm1.running_var", "*.norm1.num_batches_tracked")),
    source="https://github.com/pytorch/pytorch/issues/62471",
)
def densenet_recomputed_norms_updated_twice(built: Built) -> None:
    """Layers are computed again in the backward pass, in which their norms update their statistics again."""
    for module in built.model.modules():
        if hasattr(module, "memory_efficient"):
            module.memory_efficient = True


@fault(
    "regnet",
    "regnet-evaluated-in-training-mode",
    Where("argument", apis=("batch_norm",), modules=("stem.1", "trunk_output.*")),
    source="https://github.com/pliang279/MultiBench/issues/26",
    before=source(TORCHVISION, "regnet_step", ("    built.model.eval()\n", "")),
)
def regnet_evaluated_in_training_mode(built: Built) -> None:
    """The model is evaluated without having been switched to evaluation."""


@fault(
    "regnet",
    "regnet-norms-missing-from-optimizer",
    Where("update", names=("*.1.weight", "*.bias")),
    source="https://github.com/zjunlp/HVPNeT/issues/5",
)
def regnet_norms_missing_from_optimizer(built: Built) -> None:
    """The group of norms and biases was not handed to the optimizer."""
    import torch

    values = [value for value in built.model.parameters() if value.ndim > 1]
    built.optimizer = torch.optim.SGD(values, lr=0.05, momentum=0.9, weight_decay=5e-4)


@fault(
    "regnet-inference",
    "regnet-inference-normalised-with-one-half",
    Where("argument", apis=("sub", "div", "normalize", "as_tensor"), modules=("",), calls=2),
    source="https://github.com/neptune-ai/open-solution-mapping-challenge/issues/77",
)
def regnet_inference_normalised_with_one_half(built: Built) -> None:
    """Pictures are normalised with the mean and deviation 0.5 of other weights."""
    built.options["prepare"].mean, built.options["prepare"].std = [0.5, 0.5, 0.5], [0.5, 0.5, 0.5]


@fault(
    "deeplab",
    "deeplab-align-corners",
    Where("argument", apis=("interpolate",), modules=("",)),
    source="https://github.com/pytorch/vision/issues/1708",
    before=source(
        "torchvision.models.segmentation._utils:_SimpleSegmentationModel",
        "forward",
        ("align_corners=False", "align_corners=True"),
        count=2,
    ),
)
def deeplab_align_corners(built: Built) -> None:
    """The predictions are enlarged with their corners aligned."""


@fault(
    "deeplab",
    "deeplab-rates-doubled",
    Where("argument", apis=("conv2d",), modules=("classifier.0.convs.[123].0",)),
    source="https://arxiv.org/abs/1706.05587",
)
def deeplab_rates_doubled(built: Built) -> None:
    """The rates of the dilated convolutions are those for features of twice the resolution."""
    for branch in built.model.classifier[0].convs[1:4]:
        branch[0].dilation = branch[0].padding = (2 * branch[0].dilation[0], 2 * branch[0].dilation[1])


@fault(
    "faster-rcnn",
    "faster-rcnn-clipped-after-step",
    Where("update", names=("*",)),
    source="https://github.com/awslabs/graphstorm/issues/1366",
    before=source(
        TORCHVISION,
        "detection_step",
        (
            "    torch.nn.utils.clip_grad_norm_(built.model.parameters(), 1.0)\n    built.optimizer.step()\n",
            "    built.optimizer.step()\n    torch.nn.utils.clip_grad_norm_(built.model.parameters(), 1.0)\n",
        ),
    ),
    dtypes=("float32",),
)
def faster_rcnn_clipped_after_step(built: Built) -> None:
    """The gradients are clipped after the optimizer has used them."""


@fault(
    "faster-rcnn",
    "faster-rcnn-proposals-not-detached",
    Where("missing", apis=("detach",), modules=("rpn",), phase="backward"),
    source="https://github.com/trzy/FasterRCNN/issues/8",
    before=source(
        "torchvision.models.detection.rpn:RegionProposalNetwork",
        "forward",
        ("pred_bbox_deltas.detach()", "pred_bbox_deltas"),
    ),
    dtypes=("float32",),
)
def faster_rcnn_proposals_not_detached(built: Built) -> None:
    """Gradients flow from the second stage through the boxes that the first one proposes."""


@fault(
    "faster-rcnn",
    "faster-rcnn-pyramid-bilinear",
    Where("argument", apis=("interpolate",), modules=("backbone.fpn",)),
    source="https://github.com/facebookresearch/maskrcnn-benchmark/issues/663",
    before=source(
        "torchvision.ops.feature_pyramid_network:FeaturePyramidNetwork",
        "forward",
        ('mode="nearest"', 'mode="bilinear"'),
    ),
    dtypes=("float32",),
)
def faster_rcnn_pyramid_bilinear(built: Built) -> None:
    """The pyramid enlarges its features linearly instead of repeating them."""


@fault(
    "retinanet",
    "retinanet-prior-bias-missing",
    Where("state", names=("head.classification_head.cls_logits.bias",)),
    source="https://github.com/kuangliu/pytorch-retinanet/issues/10",
    dtypes=("float32",),
)
def retinanet_prior_bias_missing(built: Built) -> None:
    """The last bias of the classes starts at zero instead of at what makes objects rare."""
    import torch

    torch.nn.init.zeros_(built.model.head.classification_head.cls_logits.bias)


@fault(
    "retinanet",
    "retinanet-colours-swapped",
    Where("argument", apis=("sub", "div", "as_tensor"), modules=("transform",), calls=2),
    source="https://github.com/ClementPinard/FlowNetPytorch/issues/80",
    dtypes=("float32",),
)
def retinanet_colours_swapped(built: Built) -> None:
    """The mean and deviation are those of blue, green and red for pictures in the opposite order."""
    transform = built.model.transform
    transform.image_mean, transform.image_std = transform.image_mean[::-1], transform.image_std[::-1]


@clean("regnet", "regnet-small-convolutions-by-einsum")
def regnet_small_convolutions_by_einsum(built: Built) -> None:
    """Convolutions of one pixel are products of matrices."""
    import torch

    def forward(self: Any, x: Any) -> Any:
        return torch.einsum("oi,bihw->bohw", self.weight[:, :, 0, 0], x)

    for module in built.model.trunk_output.modules():
        if not isinstance(module, torch.nn.Conv2d) or module.bias is not None:
            continue
        if module.kernel_size == module.stride == (1, 1):
            replace_one(module, "forward", forward)


@clean("regnet", "regnet-statistics-logged")
def regnet_statistics_logged(built: Built) -> None:
    """The size of what each layer gives is written down in each step."""
    sizes: list[float] = []
    for module in built.model.modules():
        module.register_forward_hook(lambda _module, _inputs, result: sizes.append(float(result.detach().norm())))


@clean("regnet-inference", "regnet-inference-norms-folded")
def regnet_inference_norms_folded(built: Built) -> None:
    """Each norm is folded into the convolution before it, as for deployment."""
    import torch

    for module in built.model.modules():
        if isinstance(module, torch.nn.Sequential) and len(module) > 1 and isinstance(module[1], torch.nn.BatchNorm2d):
            fold(module[0], module[1])


@clean(
    "deeplab",
    "deeplab-loss-picture-by-picture",
    before=source(
        TORCHVISION,
        "deeplab_loss",
        (
            "torch.nn.functional.cross_entropy(value, target, ignore_index=255)",
            "sum(torch.nn.functional.cross_entropy(one[None], wanted[None], ignore_index=255, reduction='sum')\n"
            "        for one, wanted in zip(value, target)) / (target != 255).sum()",
        ),
    ),
)
def deeplab_loss_picture_by_picture(built: Built) -> None:
    """The loss is added up picture by picture and divided by the number of all pixels that count."""


@clean("retinanet", "retinanet-fused-optimizer", dtypes=("float32",))
def retinanet_fused_optimizer(built: Built) -> None:
    """Adam as one fused call instead of one after the other."""
    import torch

    built.optimizer = torch.optim.Adam(built.model.parameters(), lr=1e-3, fused=True)
