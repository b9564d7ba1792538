"""The same in other code: encoders, encoders with decoders, mixtures of experts and models with states."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.encoders_edits import edit_function, modeling, of_type
from benchmarks.zoo.spec import Built, clean


@clean("bert", "bert-checkpointing")
def bert_checkpointing(built: Built) -> None:
    """Gradient checkpointing of all layers, of the kind that is not reentrant."""
    built.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})


@clean("bert", "bert-wrapped")
def bert_wrapped(built: Built) -> None:
    """The model is inside of another module, as parallel training has it, so that all paths have a prefix."""
    import torch

    class Wrapped(torch.nn.Module):
        def __init__(self, module: Any) -> None:
            super().__init__()
            self.module = module

        def forward(self, **batch: Any) -> Any:
            return self.module(**batch)

        def state_dict(self, *arguments: Any, **more: Any) -> Any:
            return self.module.state_dict(*arguments, **more)

    built.model = Wrapped(built.model)


@clean("roberta", "roberta-attention-eager")
def roberta_attention_eager(built: Built) -> None:
    """Attention written out instead of torch's scaled_dot_product_attention."""
    built.model.set_attn_implementation("eager")


@clean("roberta-eval", "roberta-eval-norm-written-out")
def roberta_eval_norm_written_out(built: Built) -> None:
    """The layer norms are written out as means and variances."""
    import torch

    class LayerNorm(torch.nn.LayerNorm):
        def forward(self, states: Any) -> Any:
            wide = states if states.dtype == torch.float64 else states.float()
            centred = wide - wide.mean(-1, keepdim=True)
            normed = centred * torch.rsqrt(centred.pow(2).mean(-1, keepdim=True) + self.eps)
            return (normed * self.weight + self.bias).to(states.dtype)

    for norm in of_type(built, "LayerNorm"):
        norm.__class__ = LayerNorm


@clean("deberta", "deberta-hidden-states")
def deberta_hidden_states(built: Built) -> None:
    """The model also gives all hidden states and attentions away."""
    for batch in built.batches:
        batch.update(output_hidden_states=True, output_attentions=True)


@clean("deberta", "deberta-einsum")
def deberta_einsum(built: Built) -> None:
    """The products of the attention are einsums."""
    edit_function(
        modeling("deberta_v2").DisentangledSelfAttention,
        "forward",
        (
            "torch.bmm(query_layer, key_layer.transpose(-1, -2) / scale.to(dtype=query_layer.dtype))",
            'torch.einsum("bqd,bkd->bqk", query_layer, key_layer / scale.to(dtype=query_layer.dtype))',
        ),
        (
            "torch.bmm(\n"
            "        attention_probs.view(-1, attention_probs.size(-2), attention_probs.size(-1)), value_layer\n"
            "    )",
            'torch.einsum(\n        "bqk,bkd->bqd", attention_probs.flatten(0, 1), value_layer\n    )',
        ),
    )


def summed_losses(built: Built, index: int) -> dict[str, Any]:
    import torch

    parts = built.options["accumulation"]
    given: dict[str, Any] = {}
    total = 0.0
    for part in range(parts):
        result = built.model(**built.batches[index * parts + part])
        total = total + result.loss
        given[f"loss {part}"] = result.loss
        given[f"logits {part}"] = result.logits
    (total / parts).backward()
    given["gradient norm"] = torch.nn.utils.clip_grad_norm_(built.model.parameters(), 0.5)
    built.optimizer.step()
    built.optimizer.zero_grad()
    return given


@clean("electra", "electra-losses-summed")
def electra_losses_summed(built: Built) -> None:
    """The losses of the batches of a step are summed and go through one backward pass."""
    built.step = summed_losses


@clean("electra", "electra-zero-grad-kept")
def electra_zero_grad_kept(built: Built) -> None:
    """Gradients are set to zero instead of being dropped."""
    optimizer = built.optimizer
    plain = optimizer.zero_grad
    optimizer.zero_grad = lambda: plain(set_to_none=False)


@clean("electra", "electra-gelu-written-out")
def electra_gelu_written_out(built: Built) -> None:
    """The exact gelu is written out with erf."""
    from transformers.activations import ACT2FN

    for part in of_type(built, "ElectraIntermediate"):
        part.intermediate_act_fn = ACT2FN["gelu_python"]


@clean("modernbert", "modernbert-glu-split")
def modernbert_glu_split(built: Built) -> None:
    """The two halves of the gated unit are two linear calls."""
    edit_function(
        modeling("modernbert").ModernBertMLP,
        "forward",
        (
            "input, gate = self.Wi(hidden_states).chunk(2, dim=-1)",
            "first, second = self.Wi.weight.chunk(2)\n"
            "    input = nn.functional.linear(hidden_states, first)\n"
            "    gate = nn.functional.linear(hidden_states, second)",
        ),
    )


@clean("t5", "t5-rms-norm")
def t5_rms_norm(built: Built) -> None:
    """The norms are torch's rms_norm."""
    import torch

    def forward(self: Any, hidden_states: Any) -> Any:
        return torch.nn.functional.rms_norm(hidden_states, self.weight.shape, self.weight, self.variance_epsilon)

    modeling("t5").T5LayerNorm.forward = forward


def torch_smoothing(built: Built, index: int) -> dict[str, Any]:
    import torch

    batch = built.batches[index]
    built.optimizer.zero_grad()
    result = built.model(**batch)
    logits = result.logits.flatten(0, 1)
    loss = torch.nn.functional.cross_entropy(
        logits, batch["labels"].flatten(), label_smoothing=built.options["smoothing"]
    )
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(built.model.parameters(), 1.0)
    built.optimizer.step()
    return {"loss": loss, "logits": result.logits, "gradient norm": norm}


@clean("bart", "bart-smoothing-by-torch")
def bart_smoothing_by_torch(built: Built) -> None:
    """The smoothed loss is that of torch's cross_entropy."""
    built.step = torch_smoothing


@clean("bart", "bart-decoder-inputs-given")
def bart_decoder_inputs_given(built: Built) -> None:
    """The inputs of the decoder are made where the batches are made."""
    for batch in built.batches:
        batch["decoder_input_ids"] = modeling("bart").shift_tokens_right(batch["labels"], 1, 2)


@clean("mixtral", "mixtral-softmax-after-choice")
def mixtral_softmax_after_choice(built: Built) -> None:
    """The softmax runs over the logits of the two chosen experts, which needs no normalisation."""
    edit_function(
        modeling("mixtral").MixtralTopKRouter,
        "forward",
        ("    router_probs = torch.nn.functional.softmax(router_logits.float(), dim=-1)\n", ""),
        ("torch.topk(router_probs, self.top_k, dim=-1)", "torch.topk(router_logits.float(), self.top_k, dim=-1)"),
        (
            "router_top_value /= router_top_value.sum(dim=-1, keepdim=True)",
            "router_top_value = torch.nn.functional.softmax(router_top_value, dim=-1)",
        ),
    )


@clean("qwen2moe", "qwen2moe-optimizer-for-loop")
def qwen2moe_optimizer_for_loop(built: Built) -> None:
    """SGD with a loop over the parameters."""
    for group in built.optimizer.param_groups:
        group["foreach"] = False


@clean("deepseek", "deepseek-keys-concatenated")
def deepseek_keys_concatenated(built: Built) -> None:
    """The two parts of the keys are concatenated instead of copied into an empty tensor."""
    edit_function(
        modeling("deepseek_v3").DeepseekV3Attention,
        "expand_kv",
        (
            "key_states = kv_nope.new_empty(*kv_nope.shape[:-1], self.qk_nope_head_dim + self.qk_rope_head_dim)\n",
            "key_states = torch.cat((k_nope, k_rot), dim=-1)\n",
        ),
        ("    key_states[..., : self.qk_nope_head_dim].copy_(k_nope)\n", ""),
        ("    key_states[..., self.qk_nope_head_dim :].copy_(k_rot)\n", ""),
    )


def chunked_loss(built: Built, index: int) -> dict[str, Any]:
    import torch

    batch = dict(built.batches[index])
    labels = torch.nn.functional.pad(batch.pop("labels")[:, 1:], (0, 1), value=-100)
    built.optimizer.zero_grad()
    result = built.model(**batch, output_router_logits=True)
    loss = 0.0
    for logits, wanted in zip(result.logits.split(5, dim=1), labels.split(5, dim=1), strict=True):
        part = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), wanted.flatten(), reduction="sum")
        loss = loss + part
    loss = loss / (labels != -100).sum() + built.model.router_aux_loss_coef * result.aux_loss
    loss = loss + built.options["z loss"] * torch.logsumexp(torch.cat(result.router_logits), dim=-1).pow(2).mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(built.model.parameters(), 1.0)
    built.optimizer.step()
    return {"loss": loss, "balance": result.aux_loss, "logits": result.logits}


@clean("olmoe", "olmoe-loss-chunked")
def olmoe_loss_chunked(built: Built) -> None:
    """The loss is summed over chunks of five tokens outside of the model."""
    built.step = chunked_loss


@clean("olmoe", "olmoe-parameters-reversed")
def olmoe_parameters_reversed(built: Built) -> None:
    """The optimizer has the parameters in reverse order."""
    import torch

    parameters = list(built.model.parameters())[::-1]
    built.optimizer = torch.optim.AdamW(parameters, lr=4e-4, betas=(0.9, 0.95), weight_decay=0.1)


@clean("mamba", "mamba-checkpointing")
def mamba_checkpointing(built: Built) -> None:
    """Gradient checkpointing of all layers, of the kind that is not reentrant."""
    built.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})


@clean("mamba2", "mamba2-contractions-as-matmul")
def mamba2_contractions_as_matmul(built: Built) -> None:
    """The contractions of B, C and the states within a chunk are matrix products."""
    edit_function(
        modeling("mamba2"),
        "mamba2_chunk_scan",
        (
            'G = torch.einsum("bclhn,bcshn->bclsh", C, B)',
            "G = (C.permute(0, 1, 3, 2, 4) @ B.permute(0, 1, 3, 4, 2)).permute(0, 1, 3, 4, 2)",
        ),
        (
            'Y_diag = torch.einsum("bclsh,bcshp->bclhp", M, hidden_states)',
            "Y_diag = (M.permute(0, 1, 4, 2, 3) @ hidden_states.permute(0, 1, 3, 2, 4)).permute(0, 1, 3, 2, 4)",
        ),
    )


@clean("falconmamba", "falconmamba-norms-by-torch")
def falconmamba_norms_by_torch(built: Built) -> None:
    """The norms are torch's rms_norm."""
    import torch

    def forward(self: Any, hidden_states: Any) -> Any:
        wide = torch.nn.functional.rms_norm(hidden_states.float(), self.weight.shape, None, self.variance_epsilon)
        return self.weight * wide.to(hidden_states.dtype)

    def weightless(self: Any, x: Any) -> Any:
        return torch.nn.functional.rms_norm(x.float(), (x.shape[-1],), None, self.eps).type_as(x)

    modeling("falcon_mamba").FalconMambaRMSNorm.forward = forward
    modeling("falcon_mamba").FalconMambaWeightlessRMSNorm.forward = weightless
