"""The same in other code, of models in ``programs/more_models.py`` and others."""

from __future__ import annotations

from benchmarks.zoo.encoders_edits import modeling
from benchmarks.zoo.source import edit_function
from benchmarks.zoo.spec import Built, clean


@clean("granite", "more-granite-sdpa")
def more_granite_sdpa(built: Built) -> None:
    """Attention by scaled_dot_product_attention instead of written out."""
    built.model.set_attn_implementation("sdpa")


@clean("nemotron", "more-nemotron-sdpa")
def more_nemotron_sdpa(built: Built) -> None:
    """Attention by scaled_dot_product_attention instead of written out."""
    built.model.set_attn_implementation("sdpa")


@clean("granite", "more-granite-optimizer-for-loop")
def more_granite_optimizer_for_loop(built: Built) -> None:
    """The optimizer goes through the parameters one by one."""
    for group in built.optimizer.param_groups:
        group["foreach"] = False


@clean("stablelm", "more-stablelm-optimizer-for-loop")
def more_stablelm_optimizer_for_loop(built: Built) -> None:
    """The optimizer goes through the parameters one by one."""
    for group in built.optimizer.param_groups:
        group["foreach"] = False


@clean("albert", "more-albert-optimizer-fused")
def more_albert_optimizer_fused(built: Built) -> None:
    """The optimizer is one fused function."""
    for group in built.optimizer.param_groups:
        group["fused"], group["foreach"] = True, False


@clean("granite", "more-granite-scaled-before-the-product")
def more_granite_scaled_before_the_product(built: Built) -> None:
    """The queries are scaled before the product with the keys, not the product."""
    edit_function(
        modeling("granite"), "eager_attention_forward",
        ("torch.matmul(query, key_states.transpose(2, 3)) * scaling",
         "torch.matmul(query * scaling, key_states.transpose(2, 3))"),
    )  # fmt: skip


@clean("granite", "more-granite-checkpointing")
def more_granite_checkpointing(built: Built) -> None:
    """The layers are computed again in the backward pass."""
    built.model.gradient_checkpointing_enable({"use_reentrant": False})


@clean("granite", "more-granite-scaled-in-the-branch")
def more_granite_scaled_in_the_branch(built: Built) -> None:
    """The weights of each branch's last product are scaled instead of what it gives."""
    edit_function(
        modeling("granite").GraniteMLP, "forward",
        ("down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))",
         "inner = self.act_fn(self.gate_proj(x)) * self.up_proj(x)\n"
         "    down_proj = torch.nn.functional.linear(inner, self.down_proj.weight * 0.5)"),
    )  # fmt: skip
    edit_function(
        modeling("granite").GraniteDecoderLayer, "forward",
        ("hidden_states = self.mlp(hidden_states)\n"
         "    hidden_states = residual + hidden_states * self.residual_multiplier",
         "hidden_states = self.mlp(hidden_states)\n    hidden_states = residual + hidden_states"),
    )  # fmt: skip


@clean("nemotron", "more-nemotron-optimizer-by-foreach-off")
def more_nemotron_optimizer_by_foreach_off(built: Built) -> None:
    """The optimizer goes through the parameters one by one."""
    for group in built.optimizer.param_groups:
        group["foreach"] = False


@clean("gptneo", "more-gptneo-filled-by-mask")
def more_gptneo_filled_by_mask(built: Built) -> None:
    """What lies outside of the window is filled in by masked_fill instead of where."""
    edit_function(
        modeling("gpt_neo").GPTNeoSelfAttention, "_attn",
        ("attn_weights = torch.where(causal_mask, attn_weights, mask_value)",
         "attn_weights = attn_weights.masked_fill(~causal_mask, torch.finfo(attn_weights.dtype).min)"),
    )  # fmt: skip


@clean("gptneo", "more-gptneo-checkpointing")
def more_gptneo_checkpointing(built: Built) -> None:
    """The layers are computed again in the backward pass."""
    built.model.gradient_checkpointing_enable({"use_reentrant": False})


@clean("stablelm", "more-stablelm-one-product-for-three")
def more_stablelm_one_product_for_three(built: Built) -> None:
    """Queries, keys and values come from one product over their joined weights."""
    edit_function(
        modeling("stablelm").StableLmAttention, "forward",
        ("    query_states = self.q_proj(hidden_states)\n    key_states = self.k_proj(hidden_states)\n"
         "    value_states = self.v_proj(hidden_states)\n",
         "    parts = (self.q_proj, self.k_proj, self.v_proj)\n"
         "    joined = torch.nn.functional.linear(\n"
         "        hidden_states, torch.cat([one.weight for one in parts]), torch.cat([one.bias for one in parts])\n"
         "    )\n"
         "    query_states, key_states, value_states = joined.split([one.weight.shape[0] for one in parts], dim=-1)\n"),
    )  # fmt: skip


@clean("albert", "more-albert-loss-by-log-softmax")
def more_albert_loss_by_log_softmax(built: Built) -> None:
    """The loss is the mean of the negative log softmax at the labels."""

    def step(built: Built, index: int) -> dict[str, object]:
        batch = built.batches[index]
        logits = built.model(**{name: value for name, value in batch.items() if name != "labels"}).logits
        chosen = batch["labels"] != -100
        chances = logits[chosen].log_softmax(-1)
        loss = -chances.gather(1, batch["labels"][chosen][:, None]).mean()
        built.optimizer.zero_grad()
        loss.backward()
        built.optimizer.step()
        return {"loss": loss, "logits": logits}

    built.step = step
