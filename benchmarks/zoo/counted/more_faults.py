"""Mistakes that issue trackers report, of models in ``programs/more_models.py`` and others."""

from __future__ import annotations

from benchmarks.zoo.decoders_edits import updates
from benchmarks.zoo.encoders_edits import modeling
from benchmarks.zoo.source import edit_function
from benchmarks.zoo.spec import Built, Where, fault


@fault(
    "granite", "more-granite-branches-not-scaled",
    Where("argument", ("mul",), ("model.layers.*",)),
    source="https://github.com/OpenNMT/CTranslate2/pull/1882",
)  # fmt: skip
def more_granite_branches_not_scaled(built: Built) -> None:
    """What is added to the residual is not scaled."""
    for layer in built.model.model.layers:
        layer.residual_multiplier = 1.0


@fault(
    "granite", "more-granite-logits-multiplied",
    Where("region", ("div", "mul"), ("",)),
    Where("missing", ("div",), ("",)),
    Where("argument", ("div",), ("",)),
    source="https://github.com/unslothai/unsloth/pull/1218",
)  # fmt: skip
def more_granite_logits_multiplied(built: Built) -> None:
    """The logits are multiplied by their scale, as Cohere does, not divided by it."""
    built.model.config.logits_scaling = 1.0 / built.model.config.logits_scaling


@fault(
    "granite", "more-granite-scaled-by-the-head",
    Where("argument", ("mul",), ("model.layers.*.self_attn",)),
    source="https://github.com/turboderp-org/exllamav3/pull/218",
)  # fmt: skip
def more_granite_scaled_by_the_head(built: Built) -> None:
    """The products of queries and keys are scaled by the size of a head, not by the multiplier."""
    for layer in built.model.model.layers:
        layer.self_attn.scaling = layer.self_attn.head_dim**-0.5


@fault(
    "granite", "more-granite-second-branch-not-scaled",
    Where("missing", ("mul",), ("model.layers.*",)),
    source="https://github.com/ndif-team/nnterp/issues/54",
)  # fmt: skip
def more_granite_second_branch_not_scaled(built: Built) -> None:
    """The branch of the perceptron alone is added as it is."""
    edit_function(
        modeling("granite").GraniteDecoderLayer, "forward",
        ("hidden_states = self.mlp(hidden_states)\n"
         "    hidden_states = residual + hidden_states * self.residual_multiplier",
         "hidden_states = self.mlp(hidden_states)\n    hidden_states = residual + hidden_states"),
    )  # fmt: skip


@fault(
    "granite", "more-granite-decay-everywhere",
    *updates("*norm*"),
    source="https://github.com/huggingface/transformers/issues/4360",
)  # fmt: skip
def more_granite_decay_everywhere(built: Built) -> None:
    """The weights of the norms decay four times as fast as those of the matrices."""
    groups = built.optimizer.param_groups[0]
    norms = [one for one in groups["params"] if one.dim() == 1]
    groups["params"] = [one for one in groups["params"] if one.dim() > 1]
    built.optimizer.add_param_group({"params": norms, "weight_decay": 0.2})


@fault(
    "nemotron", "more-nemotron-relu-not-squared",
    Where("missing", ("square", "pow", "mul"), ("model.layers.*.mlp*",)),
    Where("region", ("square", "relu"), ("model.layers.*.mlp*",), calls=2),
    source="https://github.com/huggingface/transformers/pull/31699",
)  # fmt: skip
def more_nemotron_relu_not_squared(built: Built) -> None:
    """The rectified values are not squared."""
    import torch

    for layer in built.model.model.layers:
        layer.mlp.act_fn = torch.nn.ReLU()


@fault(
    "nemotron", "more-nemotron-scheduler-twice",
    *updates(step=1),
    source="https://github.com/huggingface/accelerate/issues/963",
)  # fmt: skip
def more_nemotron_scheduler_twice(built: Built) -> None:
    """The scheduler steps twice for each step of the optimizer."""
    step = built.step

    def twice(built: Built, index: int) -> object:
        given = step(built, index)
        built.scheduler.step()
        return given

    built.step = twice


@fault(
    "gptneo", "more-gptneo-scores-scaled",
    Where("extra", ("mul", "div"), ("transformer.h.*",)),
    source="https://github.com/huggingface/transformers/issues/20828",
)  # fmt: skip
def more_gptneo_scores_scaled(built: Built) -> None:
    """The products of queries and keys are scaled, which this model does not do."""
    edit_function(
        modeling("gpt_neo").GPTNeoSelfAttention, "_attn",
        ("attn_weights = torch.matmul(query, key.transpose(-1, -2))",
         "attn_weights = torch.matmul(query, key.transpose(-1, -2)) * self.head_dim**-0.5"),
    )  # fmt: skip


@fault(
    "gptneo", "more-gptneo-scores-in-half",
    Where("precision", ("matmul", "softmax", "where", "to"), ("transformer.h.*",)),
    Where("missing", ("to",), ("transformer.h.*",), calls=2),
    source="https://github.com/huggingface/transformers/pull/10848",
)  # fmt: skip
def more_gptneo_scores_in_half(built: Built) -> None:
    """The products of queries and keys and their softmax are computed in bfloat16."""
    edit_function(
        modeling("gpt_neo").GPTNeoSelfAttention, "_attn",
        ("query = query.to(torch.float32)", "query = query.to(torch.bfloat16)"),
        ("key = key.to(torch.float32)", "key = key.to(torch.bfloat16)"),
    )  # fmt: skip


@fault(
    "stablelm", "more-stablelm-gelu-for-silu",
    Where("call", ("silu", "gelu"), ("model.layers.*.mlp*",)),
    Where("region", ("silu", "gelu"), ("model.layers.*.mlp*",)),
    source="https://github.com/nurl-lang/nurl/pull/475",
)  # fmt: skip
def more_stablelm_gelu_for_silu(built: Built) -> None:
    """The gates are by gelu instead of silu."""
    import torch

    for layer in built.model.model.layers:
        layer.mlp.act_fn = torch.nn.GELU()


@fault(
    "lora", "more-lora-scaled-by-the-root",
    Where("argument", ("mul",), ("*",)),
    source="https://github.com/NVIDIA/TensorRT-LLM/issues/1668",
)  # fmt: skip
def more_lora_scaled_by_the_root(built: Built) -> None:
    """The adapters are scaled by the root of their rank instead of the rank."""
    for module in built.model.modules():
        scaling = getattr(module, "scaling", None)
        if isinstance(scaling, dict):
            for name in scaling:
                scaling[name] *= module.r[name] ** 0.5
