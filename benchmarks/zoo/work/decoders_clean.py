"""The same decoder language models, computed in another way."""

from __future__ import annotations

from benchmarks.zoo.decoders_edits import (
    BLOOM,
    COHERE,
    GEMMA2,
    PHI,
    PROGRAMS,
    edit_step,
    method,
)  # fmt: skip
from benchmarks.zoo.source import edit_function, imported
from benchmarks.zoo.spec import Built, clean


@clean("mistral", "mistral-checkpointed-reentrant")
def mistral_checkpointed_reentrant(built: Built) -> None:
    """The layers are computed once more in the backward, in the reentrant way."""
    built.model.gradient_checkpointing_enable({"use_reentrant": True})
    built.model.enable_input_require_grads()


@clean("llama-finetune", "llama-finetune-optimizer-foreach")
def llama_finetune_optimizer_foreach(built: Built) -> None:
    """The optimizer updates all parameters at once instead of one after another."""
    for group in built.optimizer.param_groups:
        group["foreach"] = True


@clean("qwen3", "qwen3-optimizer-fused")
def qwen3_optimizer_fused(built: Built) -> None:
    """The optimizer is the fused one."""
    import torch

    groups = imported(PROGRAMS).decay_groups(built.model, 0.1)
    built.optimizer = torch.optim.AdamW(groups, lr=2e-3, betas=(0.9, 0.95), fused=True)
    built.scheduler = torch.optim.lr_scheduler.LambdaLR(built.optimizer, lambda step: min(1.0, (step + 1) / 3))


@clean("qwen3", "qwen3-loss-written-out")
def qwen3_loss_written_out(built: Built) -> None:
    """The loss by log_softmax and the entries of the labels instead of cross_entropy."""
    import torch

    def loss(logits, labels):  # type: ignore[no-untyped-def]
        scores = torch.log_softmax(logits[:, :-1].float(), dim=-1)
        return -scores.gather(-1, labels[:, 1:].unsqueeze(-1)).mean()

    built.options["loss"] = loss


@clean("cohere", "cohere-loss-in-chunks")
def cohere_loss_in_chunks(built: Built) -> None:
    """The loss is summed over pieces of the rows and divided by the number of tokens at the end."""
    import torch

    def loss(logits, labels):  # type: ignore[no-untyped-def]
        logits, labels = logits[:, :-1].float(), labels[:, 1:]
        pieces = zip(logits.split(7, dim=1), labels.split(7, dim=1), strict=True)
        total = sum(
            torch.nn.functional.cross_entropy(some.flatten(0, 1), wanted.flatten(), reduction="sum")
            for some, wanted in pieces
        )
        return total / labels.numel()

    built.options["loss"] = loss


@clean("qwen3", "qwen3-looks-in-between")
def qwen3_looks_in_between(built: Built) -> None:
    """The loop evaluates another batch between its steps and keeps the norms of weights for its log."""
    import torch

    step = built.step

    def with_look(built, index):  # type: ignore[no-untyped-def]
        given = step(built, index)
        built.model.eval()
        with torch.no_grad():
            other = built.model(input_ids=built.batches[0]["input_ids"], use_cache=False).logits
            built.options["log"] = [float(other.mean()), *(float(p.norm()) for p in built.model.parameters())]
        built.model.train()
        return given

    built.step = with_look


@clean("qwen3-dpo", "qwen3-dpo-answers-apart")
def qwen3_dpo_answers_apart(built: Built) -> None:
    """The preferred and the rejected answers go through the models one after the other, not in one batch."""
    edit_step(
        built, "prefer",
        (
            "policy = score(built.model(**batch, use_cache=False).logits, labels)",
            "halves = [{name: value[start::2] for name, value in batch.items()} for start in (0, 1)]\n"
            "    policy = torch.empty(labels.shape[0])\n"
            "    for start, half in enumerate(halves):\n"
            "        policy[start::2] = score(built.model(**half, use_cache=False).logits, labels[start::2])",
        ),
    )  # fmt: skip


@clean("llama-reward", "llama-reward-padded-more")
def llama_reward_padded_more(built: Built) -> None:
    """The rows are padded to a greater length."""
    import torch

    for batch in built.batches:
        batch["input_ids"] = torch.nn.functional.pad(batch["input_ids"], (0, 4), value=0)
        batch["attention_mask"] = torch.nn.functional.pad(batch["attention_mask"], (0, 4), value=0)


@clean("gpt2", "gpt2-plain-linear")
def gpt2_plain_linear(built: Built) -> None:
    """The projections by linear with the transposed weight instead of addmm."""
    import torch

    @method(imported("transformers.pytorch_utils").Conv1D, "forward")
    def forward(self, x):  # type: ignore[no-untyped-def]
        return torch.nn.functional.linear(x, self.weight.t(), self.bias)


@clean("gpt2", "gpt2-native-gelu")
def gpt2_native_gelu(built: Built) -> None:
    """The approximation of gelu by tanh is torch's own instead of written out."""
    import torch

    for block in built.model.transformer.h:
        block.mlp.act = torch.nn.GELU(approximate="tanh")


@clean("gpt2-generate", "gpt2-generate-no-cache")
def gpt2_generate_no_cache(built: Built) -> None:
    """The whole text is computed anew for each token instead of kept in a cache."""
    edit_step(
        built, "generate",
        (
            '"][:, index - 1 : index]\n',
            '"][:, index - 1 : index]\n            ids = torch.cat([state["ids"], ids], dim=-1)\n',
        ),
        ("torch.ones_like(ids)", "torch.ones_like(ids[:, -1:])"),
        ("mask.sum(-1, keepdim=True) - 1", "(mask.cumsum(-1) - 1).clamp(min=0)"),
        ("use_cache=True", "use_cache=False"),
        ('state["mask"] = result.past_key_values, mask', 'state["mask"], state["ids"] = None, mask, ids'),
    )  # fmt: skip


@clean("gpt2-generate", "gpt2-generate-padded-more")
def gpt2_generate_padded_more(built: Built) -> None:
    """The prompts are padded on the left to a greater length."""
    import torch

    batch = built.batches[0]
    for name in ("input_ids", "attention_mask"):
        batch[name] = torch.nn.functional.pad(batch[name], (3, 0), value=0)


@clean("gemma2", "gemma2-scaled-query")
def gemma2_scaled_query(built: Built) -> None:
    """The queries are scaled before the product with the keys instead of the product after it."""
    edit_function(
        imported(GEMMA2), "eager_attention_forward",
        ("torch.matmul(query, key_states.transpose(2, 3)) * scaling", "(query * scaling) @ key_states.mT"),
    )  # fmt: skip


@clean("gemma3-generate", "gemma3-generate-one-large-cache")
def gemma3_generate_one_large_cache(built: Built) -> None:
    """The cache keeps all tokens also for the layers with a window, whose mask hides the older ones."""
    edit_step(
        built, "generate",
        (
            'state["cache"] = None',
            'from transformers import DynamicCache\n\n            state["cache"] = DynamicCache()',
        ),
    )  # fmt: skip


@clean("mistral-generate", "mistral-generate-grouped-keys")
def mistral_generate_grouped_keys(built: Built) -> None:
    """The attention is told of the groups of heads instead of getting the keys and values repeated."""
    imported("transformers.integrations.sdpa_attention").use_gqa_in_sdpa = lambda *_: True


@clean("phi", "phi-sum-in-other-order")
def phi_sum_in_other_order(built: Built) -> None:
    """The residual is added first and the perceptron last."""
    edit_function(
        imported(PHI).PhiDecoderLayer, "forward",
        (
            "attn_outputs + feed_forward_hidden_states + residual",
            "residual + attn_outputs + feed_forward_hidden_states",
        ),
    )  # fmt: skip


@clean("phi", "phi-watched")
def phi_watched(built: Built) -> None:
    """Hooks keep statistics of what each module gives and of the gradients of each parameter."""
    built.options["seen"] = {}

    def watch(name):  # type: ignore[no-untyped-def]
        def see(module, inputs, output):  # type: ignore[no-untyped-def]
            if hasattr(output, "detach"):
                built.options["seen"][name] = (float(output.detach().abs().mean()), float(output.detach().std()))

        return see

    for name, module in built.model.named_modules():
        module.register_forward_hook(watch(name))
    for name, parameter in built.model.named_parameters():
        parameter.register_hook(lambda found, name=name: built.options["seen"].update({name: float(found.norm())}))


@clean("bloom", "bloom-bias-added-after")
def bloom_bias_added_after(built: Built) -> None:
    """The linear biases are added to the scaled product instead of by baddbmm."""
    edit_function(
        imported(BLOOM).BloomAttention, "forward",
        (
            "alibi.baddbmm(\n        batch1=query_layer,\n        batch2=key_layer,\n        beta=self.beta,\n"
            "        alpha=self.inv_norm_factor,\n    )",
            "torch.bmm(query_layer, key_layer) * self.inv_norm_factor + alibi",
        ),
    )  # fmt: skip


@clean("falcon-generate", "falcon-generate-sdpa")
def falcon_generate_sdpa(built: Built) -> None:
    """Attention by scaled_dot_product_attention instead of written out."""
    built.model.config._attn_implementation = "sdpa"


@clean("cohere", "cohere-complex-rotation")
def cohere_complex_rotation(built: Built) -> None:
    """The pairs of a head are complex numbers, turned by a product."""
    import torch

    @method(imported(COHERE), "apply_rotary_pos_emb")
    def apply(q, k, cos, sin, unsqueeze_dim=1):  # type: ignore[no-untyped-def]
        turn = torch.complex(cos[..., ::2].float(), sin[..., ::2].float()).unsqueeze(unsqueeze_dim)

        def turned(values):  # type: ignore[no-untyped-def]
            pairs = torch.view_as_complex(values.float().unflatten(-1, (-1, 2)).contiguous())
            return torch.view_as_real(pairs * turn).flatten(-2).to(values.dtype)

        return turned(q), turned(k)


@clean("cohere", "cohere-native-norm")
def cohere_native_norm(built: Built) -> None:
    """Norms by layer_norm instead of written out, but those of queries and keys."""
    import torch

    for name, module in built.model.named_modules():
        if name.endswith(("layernorm", "model.norm")):
            own = type("CohereLayerNorm", (type(module),), {"__module__": COHERE})

            @method(own, "forward")
            def forward(self, hidden_states):  # type: ignore[no-untyped-def]
                exact = hidden_states.float()
                shape, weight = exact.shape[-1:], self.weight.float()
                return torch.nn.functional.layer_norm(exact, shape, weight, None, self.variance_epsilon).to(
                    hidden_states.dtype
                )

            module.__class__ = own


@clean("olmo2", "olmo2-one-normaliser")
def olmo2_one_normaliser(built: Built) -> None:
    """The loss and the extra loss on the normaliser share one logsumexp."""

    def loss(logits, labels):  # type: ignore[no-untyped-def]
        logits, labels = logits[:, :-1].float(), labels[:, 1:]
        normaliser = logits.logsumexp(-1)
        wanted = logits.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
        return (normaliser - wanted).mean() + 1e-3 * (normaliser**2).mean()

    built.options["loss"] = loss


@clean("pythia", "pythia-gradients-kept-as-zeros")
def pythia_gradients_kept_as_zeros(built: Built) -> None:
    """The gradients are filled with zeros before each backward instead of dropped."""
    edit_step(built, "pretrain", ("zero_grad(set_to_none=True)", "zero_grad(set_to_none=False)"))
