"""The same in other code: encoders, encoders with decoders, mixtures of experts and models with states."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.encoders_edits import edit_function, modeling, of_type
from benchmarks.zoo.programs.encoders_bert import decayed_groups
from benchmarks.zoo.spec import Built, clean


@clean("bert", "bert-optimizer-fused")
def bert_optimizer_fused(built: Built) -> None:
    """The fused AdamW."""
    import torch

    built.optimizer = torch.optim.AdamW(decayed_groups(built.model, 0.05), lr=2e-3, eps=1e-6, fused=True)
    built.scheduler = torch.optim.lr_scheduler.LambdaLR(built.optimizer, built.scheduler.lr_lambdas[0])


@clean("bert", "bert-evaluation-between")
def bert_evaluation_between(built: Built) -> None:
    """Before each step the model is evaluated on another batch, without gradients and in evaluation mode."""
    import torch

    train = built.step

    def step(built: Built, index: int) -> Any:
        built.model.eval()
        with torch.no_grad():
            built.model(**built.batches[index - 1])
        built.model.train()
        return train(built, index)

    built.step = step


@clean("bert", "bert-loss-log-softmax")
def bert_loss_log_softmax(built: Built) -> None:
    """The loss is log_softmax and nll_loss instead of cross_entropy."""
    edit_function(
        modeling("bert").BertForMaskedLM,
        "forward",
        (
            "loss_fct(prediction_scores.view(-1, self.config.vocab_size), labels.view(-1))",
            "nn.functional.nll_loss("
            "nn.functional.log_softmax(prediction_scores.view(-1, self.config.vocab_size), dim=-1), labels.view(-1))",
        ),
    )


@clean("roberta", "roberta-positions-given")
def roberta_positions_given(built: Built) -> None:
    """The positions are computed where the batches are made and handed to the model."""
    for batch in built.batches:
        mask = batch["attention_mask"]
        batch["position_ids"] = mask.cumsum(1) * mask + 1


@clean("roberta", "roberta-qkv-fused")
def roberta_qkv_fused(built: Built) -> None:
    """Queries, keys and values come from one linear call over their joined weights."""
    edit_function(
        modeling("roberta").RobertaSelfAttention,
        "forward",
        (
            "query_layer = self.query(hidden_states).view(*hidden_shape).transpose(1, 2)\n",
            "weight = torch.cat([self.query.weight, self.key.weight, self.value.weight])\n"
            "    bias = torch.cat([self.query.bias, self.key.bias, self.value.bias])\n"
            "    joined = nn.functional.linear(hidden_states, weight, bias).chunk(3, dim=-1)\n"
            "    query_layer, key_layer, value_layer = (part.view(*hidden_shape).transpose(1, 2) for part in joined)\n",
        ),
        ("    key_layer = self.key(hidden_states).view(*hidden_shape).transpose(1, 2)\n", ""),
        ("    value_layer = self.value(hidden_states).view(*hidden_shape).transpose(1, 2)\n", ""),
    )


@clean("roberta", "roberta-threads", threads=2)
def roberta_threads(built: Built) -> None:
    """Two threads instead of one."""


@clean("roberta-eval", "roberta-eval-padded-more")
def roberta_eval_padded_more(built: Built) -> None:
    """The batches are padded to a multiple of eight."""
    import torch

    for index, batch in enumerate(built.batches):
        missing = -batch["input_ids"].shape[1] % 8
        built.batches[index] = {
            "input_ids": torch.nn.functional.pad(batch["input_ids"], (0, missing), value=1),
            "attention_mask": torch.nn.functional.pad(batch["attention_mask"], (0, missing)),
        }


@clean("deberta", "deberta-conv-as-matmul")
def deberta_conv_as_matmul(built: Built) -> None:
    """The convolution is a matrix product over windows of three tokens."""
    edit_function(
        modeling("deberta_v2").ConvLayer,
        "forward",
        (
            "out = self.conv(hidden_states.permute(0, 2, 1).contiguous()).permute(0, 2, 1).contiguous()\n",
            "length = hidden_states.size(1)\n"
            "    padded = nn.functional.pad(hidden_states, (0, 0, 1, 1))\n"
            "    windows = torch.cat([padded[:, tap : tap + length] for tap in range(3)], dim=-1)\n"
            "    weight = self.conv.weight.permute(0, 2, 1).flatten(1)\n"
            "    out = nn.functional.linear(windows, weight, self.conv.bias)\n",
        ),
    )


@clean("electra", "electra-feed-forward-chunked")
def electra_feed_forward_chunked(built: Built) -> None:
    """The feed forward layers run over four tokens at a time."""
    for layer in of_type(built, "ElectraLayer"):
        layer.chunk_size_feed_forward = 4


@clean("modernbert", "modernbert-sdpa")
def modernbert_sdpa(built: Built) -> None:
    """Attention by torch's scaled_dot_product_attention."""
    built.model.set_attn_implementation("sdpa")


@clean("t5", "t5-padded-more")
def t5_padded_more(built: Built) -> None:
    """The sources are padded by five more tokens."""
    import torch

    for batch in built.batches:
        for name in ("input_ids", "attention_mask"):
            batch[name] = torch.nn.functional.pad(batch[name], (0, 5))


@clean("bart", "bart-optimizer-for-loop")
def bart_optimizer_for_loop(built: Built) -> None:
    """AdamW with a loop over the parameters."""
    for group in built.optimizer.param_groups:
        group["foreach"] = False


def translate_without_cache(built: Built, index: int) -> dict[str, Any]:
    import torch

    batch, model = built.batches[index], built.model
    tokens = torch.full_like(batch["input_ids"][:, :1], model.config.decoder_start_token_id)
    given: dict[str, Any] = {}
    with torch.no_grad():
        encoded = model.get_encoder()(**batch)
        for position in range(built.options["length"]):
            result = model(
                encoder_outputs=encoded,
                attention_mask=batch["attention_mask"],
                decoder_input_ids=tokens,
                use_cache=False,
            )
            scores = result.logits[:, -1]
            scores[:, model.config.pad_token_id] = float("-inf")
            tokens = torch.cat([tokens, scores.argmax(-1, keepdim=True)], dim=1)
            given[f"probabilities {position}"] = torch.softmax(scores.float(), dim=-1)
    return given


@clean("marian", "marian-without-cache")
def marian_without_cache(built: Built) -> None:
    """Each step of the translation computes all of the translation again, without a cache."""
    built.step = translate_without_cache


@clean("mixtral", "mixtral-experts-batched")
def mixtral_experts_batched(built: Built) -> None:
    """The experts run as one batched product over gathered weights instead of in a loop."""
    built.model.set_experts_implementation("batched_mm")


@clean("mixtral", "mixtral-repeat-interleave")
def mixtral_repeat_interleave(built: Built) -> None:
    """Keys and values are repeated by repeat_interleave."""
    edit_function(
        modeling("mixtral"),
        "repeat_kv",
        (
            "    hidden_states = hidden_states[:, :, None, :, :]"
            ".expand(batch, num_key_value_heads, n_rep, slen, head_dim)\n",
            "",
        ),
        (
            "return hidden_states.reshape(batch, num_key_value_heads * n_rep, slen, head_dim)",
            "return torch.repeat_interleave(hidden_states, n_rep, dim=1)",
        ),
    )


@clean("mixtral", "mixtral-sdpa")
def mixtral_sdpa(built: Built) -> None:
    """Attention by torch's scaled_dot_product_attention."""
    built.model.set_attn_implementation("sdpa")


@clean("qwen2moe", "qwen2moe-gate-up-split")
def qwen2moe_gate_up_split(built: Built) -> None:
    """Gate and up projection of the experts are two linear calls."""
    edit_function(
        modeling("qwen2_moe").Qwen2MoeExperts,
        "forward",
        (
            "gate, up = nn.functional.linear(current_state, self.gate_up_proj[expert_idx]).chunk(2, dim=-1)",
            "first, second = self.gate_up_proj[expert_idx].chunk(2)\n"
            "        gate = nn.functional.linear(current_state, first)\n"
            "        up = nn.functional.linear(current_state, second)",
        ),
    )


@clean("deepseek", "deepseek-checkpointing")
def deepseek_checkpointing(built: Built) -> None:
    """Gradient checkpointing of all layers, of the reentrant kind."""
    built.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})


@clean("deepseek", "deepseek-rope-complex", dtypes=("float32",))
def deepseek_rope_complex(built: Built) -> None:
    """The rotation is a product of complex numbers."""
    edit_function(
        modeling("deepseek_v3"),
        "apply_rotary_pos_emb_interleave",
        ("    q1, q2 = q[..., 0::2], q[..., 1::2]\n", ""),
        ("    k1, k2 = k[..., 0::2], k[..., 1::2]\n", ""),
        (
            "    q_embed = torch.cat([q1 * cos - q2 * sin, q2 * cos + q1 * sin], dim=-1)\n",
            "    wide = torch.float64 if q.dtype == torch.float64 else torch.float32\n"
            "    turn = torch.complex(cos.to(wide), sin.to(wide))\n"
            "    q_turned = torch.view_as_complex(q.to(wide).unflatten(-1, (-1, 2)).contiguous()) * turn\n"
            "    k_turned = torch.view_as_complex(k.to(wide).unflatten(-1, (-1, 2)).contiguous()) * turn\n"
            "    q_embed = torch.cat([q_turned.real, q_turned.imag], dim=-1).to(q.dtype)\n",
        ),
        (
            "    k_embed = torch.cat([k1 * cos - k2 * sin, k2 * cos + k1 * sin], dim=-1)\n",
            "    k_embed = torch.cat([k_turned.real, k_turned.imag], dim=-1).to(k.dtype)\n",
        ),
    )


@clean("mamba", "mamba-conv-as-sum")
def mamba_conv_as_sum(built: Built) -> None:
    """The convolution is a sum of shifted products."""
    edit_function(
        modeling("mamba"),
        "causal_conv1d_fn",
        (
            "out = F.conv1d(\n"
            "        hidden_states.to(weight.dtype),\n"
            "        weight=weight.unsqueeze(1),\n"
            "        bias=bias,\n"
            "        padding=padding,\n"
            "        groups=hidden_size,\n"
            "    )[:, :, :seq_len]\n",
            "padded = F.pad(hidden_states.to(weight.dtype), (padding, 0))\n"
            "    out = bias[:, None]\n"
            "    for tap in range(weight.shape[-1]):\n"
            "        out = out + weight[:, tap, None] * padded[:, :, tap : tap + seq_len]\n",
        ),
    )


@clean("mamba", "mamba-softplus-written-out")
def mamba_softplus_written_out(built: Built) -> None:
    """The softplus of the time steps is written out."""
    edit_function(modeling("mamba"), "mamba_selective_scan", ("F.softplus(dt)", "torch.log1p(torch.exp(dt))"))


@clean("mamba2", "mamba2-other-chunks")
def mamba2_other_chunks(built: Built) -> None:
    """The scan runs in chunks of five instead of eight tokens."""
    for mixer in of_type(built, "Mamba2Mixer"):
        mixer.chunk_size = 5


def plain_linear_attention(
    time_decay: Any, time_first: Any, key: Any, value: Any, state: Any = None, return_state: bool = False
) -> tuple[Any, Any]:
    """The attention of RWKV without the running maximum that keeps its exponentials small."""
    import torch

    assert state is None and not return_state
    decay = torch.exp(-torch.exp(time_decay))
    above = torch.zeros_like(key[:, 0], dtype=torch.float32)
    below = torch.zeros_like(above)
    outputs = []
    for index in range(key.size(1)):
        weight = torch.exp(key[:, index].float())
        now = weight * torch.exp(time_first)
        outputs.append(((above + now * value[:, index]) / (below + now)).to(key.dtype))
        above = decay * above + weight * value[:, index]
        below = decay * below + weight
    return torch.stack(outputs, dim=1), None


@clean("rwkv", "rwkv-plain-exponentials")
def rwkv_plain_exponentials(built: Built) -> None:
    """The sums of the attention are kept as they are instead of relative to a running maximum."""
    modeling("rwkv").rwkv_linear_attention_cpu = plain_linear_attention


@clean("rwkv", "rwkv-shift-by-cat")
def rwkv_shift_by_cat(built: Built) -> None:
    """The shift by one token joins a zero and the tokens but the last, instead of padding by minus one."""
    shifted = "torch.cat([torch.zeros_like(hidden[:, :1]), hidden[:, :-1]], dim=1)"
    edit_function(modeling("rwkv").RwkvSelfAttention, "extract_key_value", ("self.time_shift(hidden)", shifted))
    edit_function(modeling("rwkv").RwkvFeedForward, "forward", ("self.time_shift(hidden)", shifted))


@clean("rwkv", "rwkv-square-as-product")
def rwkv_square_as_product(built: Built) -> None:
    """The square of the relu is its product with itself."""
    edit_function(
        modeling("rwkv").RwkvFeedForward,
        "forward",
        ("key = torch.square(torch.relu(self.key(key)))", "key = torch.relu(self.key(key))\n    key = key * key"),
    )
