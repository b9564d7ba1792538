"""Mistakes that issue trackers report, written after the others, before looking at the diagnosis."""

from __future__ import annotations

from benchmarks.zoo.encoders_edits import of_type
from benchmarks.zoo.spec import Built, Where, fault


@fault(
    "bloom", "fresh-bloom-scaled-twice",
    Where("argument", ("baddbmm",), ("transformer.h.*.self_attention",)),
    source="https://github.com/FrancescoSaverioZuppichini/ViT/issues/1",
)  # fmt: skip
def bloom_scaled_twice(built: Built) -> None:
    """The products of queries and keys are divided by the size of a head instead of by its root."""
    for block in built.model.transformer.h:
        block.self_attention.inv_norm_factor = block.self_attention.inv_norm_factor**2


@fault(
    "t5", "fresh-t5-scaled-attention",
    Where("argument", ("mul",), ("encoder.block.*", "decoder.block.*")),
    Where("extra", ("mul",), ("encoder.block.*", "decoder.block.*")),
    source="https://github.com/FrancescoSaverioZuppichini/ViT/issues/1",
)  # fmt: skip
def t5_scaled_attention(built: Built) -> None:
    """The products of queries and keys are scaled by the size of a head, which T5 has in its weights already."""
    for module in of_type(built, "T5Attention"):
        module.scaling = module.key_value_proj_dim**-0.5


@fault(
    "marian", "fresh-marian-bias-of-the-scores-lost",
    Where("state", names=("final_logits_bias",)),
    source="https://github.com/Lightning-AI/litgpt/issues/662",
)  # fmt: skip
def marian_bias_of_the_scores_lost(built: Built) -> None:
    """The bias of the scores was not among the weights that were loaded."""
    built.model.final_logits_bias.zero_()
