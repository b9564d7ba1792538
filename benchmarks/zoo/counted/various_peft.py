"""Cases on adapters of peft."""

from __future__ import annotations

from benchmarks.zoo.source import edit_function, imported
from benchmarks.zoo.spec import Built, Setting, Where, clean, fault


@fault(
    "lora",
    "lora-one-adapter-not-loaded",
    Where("state", (), ("*",), ("*layers.1.self_attn.v_proj.lora_B*",)),
    Where("state", ("linear",), ("*layers.1.self_attn.v_proj.lora_B*",)),
    source="https://github.com/huggingface/transformers/pull/34068",
)
def one_adapter_not_loaded(built: Built) -> None:
    """One adapter keeps the zeros that it begins with, for its weights were missing in what was loaded."""
    import torch

    with torch.no_grad():
        built.model.base_model.model.model.layers[1].self_attn.v_proj.lora_B["default"].weight.zero_()


@fault(
    "lora",
    "lora-merged-and-active",
    Where("state", (), ("*",), ("*base_layer.weight",)),
    Where("state", ("linear",), ("*base_layer",)),
    source="https://github.com/huggingface/text-generation-inference/pull/2788",
)
def merged_and_active(built: Built) -> None:
    """The adapters were added to the weights of the model already, and are applied once more."""
    import torch

    with torch.no_grad():
        for module in built.model.modules():
            if hasattr(module, "lora_A"):
                module.base_layer.weight += module.get_delta_weight("default")


def _bias_not_scaled(setting: Setting) -> None:
    from benchmarks.zoo.torchvision_ops import prepare

    prepare()
    edit_function(
        imported("peft.tuners.ia3.layer").Linear,
        "forward",
        (
            "result = self.base_layer(x, *args, **kwargs)\n            result_dtype = result.dtype\n"
            "            result = (result * ia3_scaling).to(result_dtype)",
            "result = nn.functional.linear(x, self.base_layer.weight * ia3_scaling[:, None], self.base_layer.bias)",
        ),
    )


@fault(
    "ia3",
    "ia3-bias-not-scaled",
    Where("region", ("mul", "linear", "getitem", "to"), ("*.k_proj*", "*.v_proj*"), calls=3),
    source="https://github.com/huggingface/peft/pull/972",
    before=_bias_not_scaled,
)
def bias_not_scaled(built: Built) -> None:
    """The vectors that scale keys and values are multiplied with the weights but not with the biases."""


def _direct(setting: Setting) -> None:
    from benchmarks.zoo.torchvision_ops import prepare

    prepare()
    edit_function(
        imported("peft.tuners.lora.dora").DoraLinearLayer,
        "forward",
        (
            "result_dora = (mag_norm_scale - 1) * base_result + mag_norm_scale * lora_result * scaling",
            "result_dora = mag_norm_scale * (base_result + lora_result * scaling) - base_result",
        ),
    )


@clean("dora", "dora-sum-before-scale", before=_direct)
def sum_before_scale(built: Built) -> None:
    """The outputs of layer and adapter are added before they are scaled."""


def _out_of_place(setting: Setting) -> None:
    from benchmarks.zoo.torchvision_ops import prepare

    prepare()
    edit_function(
        imported("peft.tuners.ia3.layer").Linear,
        "forward",
        (
            "ia3_scaling *= self.ia3_l[active_adapter].flatten()",
            "ia3_scaling = self.ia3_l[active_adapter].reshape(-1).clone() * ia3_scaling",
        ),
    )


@clean("ia3", "ia3-scale-out-of-place", before=_out_of_place)
def scale_out_of_place(built: Built) -> None:
    """The scale of a layer is gathered in a copy."""
