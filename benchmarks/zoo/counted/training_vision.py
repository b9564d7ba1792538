"""Cases of training scripts around image models."""

from __future__ import annotations

from benchmarks.zoo.spec import Built, clean, fault
from benchmarks.zoo.training_edits import kinds, script, updated


@fault(
    "vit-recipe",
    "vit-recipe-average-before-step",
    *kinds("state", names=("average.module.*",)),
    *updated("average.module.*"),
    *kinds("call", "region", "argument", apis=("lerp", "foreach_lerp", "update", "step"), modules=("", "average")),
    *kinds(
        "call",
        "region",
        "argument",
        apis=("lerp", "foreach_lerp", "update", "step"),
        modules=("", "average"),
        phase="backward",
    ),
    source="https://github.com/NVIDIA-NeMo/Speech/pull/5169",
    before=script(
        "vit",
        "step",
        (
            "    built.optimizer.step()\n    average.update(model)\n",
            "    average.update(model)\n    built.optimizer.step()\n",
        ),
    ),
)
def average_before_step(built: Built) -> None:
    """The moving average is updated before the optimizer has stepped, and so is one step late."""


@fault(
    "vit-recipe",
    "vit-recipe-channels-reversed",
    *kinds("data", names=("x", "images", "image", "input", "pixel_values")),
    source="https://github.com/ClementPinard/FlowNetPytorch/issues/80",
    before=script("vit", "normalise", ("return (images - ", "return (images.flip(1) - ")),
)
def channels_reversed(built: Built) -> None:
    """The images are read as blue, green, red and normalised as if red came first."""


@fault(
    "resnet-sgd",
    "resnet-sgd-nesterov-lost",
    *updated("model.*"),
    source="https://proceedings.mlr.press/v28/sutskever13.html",
    before=script("resnet", "make_optimizer", (", nesterov=True", "")),
)
def nesterov_lost(built: Built) -> None:
    """The optimizer uses plain instead of Nesterov momentum."""


@fault(
    "resnet-sgd",
    "resnet-sgd-not-back-to-training",
    *kinds("argument", "call", apis=("batch_norm",), modules=("model.bn1", "model.*"), step=1),
    source="https://github.com/tk-rusch/coRNN/issues/1",
    before=script("resnet", "step", ("    model.train()\n", "")),
)
def not_back_to_training(built: Built) -> None:
    """The model stays in evaluation mode after the first evaluation, so that it trains with running statistics."""


@fault(
    "resnet-sgd",
    "resnet-sgd-flip-upside-down",
    *kinds("argument", "call", apis=("flip", "where"), modules=("",)),
    *kinds("data", names=("x", "images", "image", "input")),
    source="https://github.com/lavi135246/pytorch-Learning-to-See-in-the-Dark/issues/11",
    before=script("resnet", "augment", ("images.flip(-1)", "images.flip(-2)")),
)
def flip_upside_down(built: Built) -> None:
    """The images are mirrored upside down instead of left to right."""


@fault(
    "resnet-sgd",
    "resnet-sgd-momentum-not-cycled",
    *updated("model.*"),
    source="https://github.com/open-mmlab/mmcv/issues/2645",
    before=script("resnet", "make_scheduler", ("pct_start=0.4", "pct_start=0.4, cycle_momentum=False")),
)
def momentum_not_cycled(built: Built) -> None:
    """The momentum stays as it is instead of falling while the learning rate rises."""


@fault(
    "convnext-focal",
    "convnext-focal-betas-swapped",
    *updated("stages.*", "head.*"),
    *updated("stages.*", "head.*", step=1),
    *kinds("state", names=("*",)),
    source="https://github.com/kozistr/pytorch_optimizer/pull/135",
    before=script("focal", "make_optimizer", ("betas=(0.9, 0.99)", "betas=(0.99, 0.9)")),
)
def betas_swapped(built: Built) -> None:
    """The two coefficients of Lion are swapped."""


@fault(
    "convnext-focal",
    "convnext-focal-weights-broadcast",
    *kinds("argument", "region", "call", "extra", apis=("mul", "unsqueeze", "sum", "view"), modules=("",), calls=2),
    source="https://github.com/pytorch/pytorch/issues/19699",
    before=script(
        "focal", "focal_loss", ("weights = weights.to(logits.dtype)", "weights = weights.to(logits.dtype).unsqueeze(1)")
    ),
)
def weights_broadcast(built: Built) -> None:
    """The weights of the images are a column, so that each image's loss is multiplied by the weights of all."""


@fault(
    "convnext-focal",
    "convnext-focal-stem-not-frozen",
    *updated("stem.*"),
    *kinds("state", names=("stem.*",), phase="backward"),
    *kinds("state", names=("stem.*",)),
    *kinds("call", "extra", apis=("conv2d", "layer_norm"), modules=("stem.*",), phase="backward"),
    source="https://github.com/CSCYQJ/MICCAI23-ProtoContra-SFDA/issues/18",
    before=script("focal", "split", ('startswith("stem.")', 'startswith("backbone.stem.")'), count=2),
)
def stem_not_frozen(built: Built) -> None:
    """The stem is looked for under another name and so is trained instead of frozen."""


@clean("vit-recipe", "vit-recipe-checkpointing")
def checkpointing(built: Built) -> None:
    """The blocks are recomputed in the backward pass."""
    built.model["model"].set_grad_checkpointing(True)


@clean("vit-recipe", "vit-recipe-average-loop")
def average_loop(built: Built) -> None:
    """The moving average in a loop over the parameters instead of in one call."""
    built.model["average"].foreach = False


@clean(
    "resnet-sgd",
    "resnet-sgd-clip-of-torch",
    before=script(
        "resnet",
        "clip",
        (
            "    for gradient in gradients:\n        gradient.mul_(factor)\n",
            "    torch.nn.utils.clip_grad_norm_(model.parameters(), limit)\n",
        ),
        ("    total = torch.stack([gradient.norm() for gradient in gradients]).norm()\n", ""),
        ("    factor = (limit / (total + 1e-6)).clamp(max=1.0)\n", ""),
        ("    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]\n", ""),
    ),
)
def clip_of_torch(built: Built) -> None:
    """Clipping by torch's own function instead of written by hand."""


@clean(
    "resnet-sgd",
    "resnet-sgd-optimizer-foreach",
    before=script("resnet", "make_optimizer", ("nesterov=True", "nesterov=True, foreach=True")),
)
def optimizer_foreach(built: Built) -> None:
    """SGD with one call for many parameters instead of a loop."""


@clean(
    "convnext-focal",
    "convnext-focal-foreach",
    before=script("focal", "make_optimizer", ("foreach=False", "foreach=True")),
)
def lion_foreach(built: Built) -> None:
    """Lion with one call for many parameters instead of a loop."""
