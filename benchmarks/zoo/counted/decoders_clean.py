"""The same decoder language models, computed in another way."""

from __future__ import annotations

from benchmarks.zoo.decoders_edits import (
    BLOOM,
    FALCON,
    GEMMA2,
    LLAMA,
    MISTRAL,
    OPT,
    edit_step,
    method,
)  # fmt: skip
from benchmarks.zoo.source import edit_function, imported
from benchmarks.zoo.spec import Built, clean


@clean("llama", "llama-sdpa")
def llama_sdpa(built: Built) -> None:
    """Attention by scaled_dot_product_attention instead of written out."""
    built.model.set_attn_implementation("sdpa")


@clean("llama", "llama-native-norm")
def llama_native_norm(built: Built) -> None:
    """Norms by rms_norm instead of written out."""
    import torch

    @method(imported(LLAMA).LlamaRMSNorm, "forward")
    def forward(self, hidden_states):  # type: ignore[no-untyped-def]
        exact = torch.nn.functional.rms_norm(hidden_states.float(), hidden_states.shape[-1:], eps=self.variance_epsilon)
        return self.weight * exact.to(hidden_states.dtype)


@clean("llama", "llama-heads-interleaved-by-torch")
def llama_heads_interleaved_by_torch(built: Built) -> None:
    """The heads of keys and values are repeated by repeat_interleave instead of expand and reshape."""
    import torch

    imported(LLAMA).repeat_kv = lambda hidden_states, n_rep: torch.repeat_interleave(hidden_states, n_rep, dim=1)


@clean("llama", "llama-joint-projection")
def llama_joint_projection(built: Built) -> None:
    """One multiplication by the joined weights of queries, keys and values, split afterwards."""
    edit_function(
        imported(LLAMA).LlamaAttention, "forward",
        (
            "query_states = self.q_proj(hidden_states).view(hidden_shape).transpose(1, 2)",
            "joined = torch.cat([self.q_proj.weight, self.k_proj.weight, self.v_proj.weight])\n"
            "    sizes = [part.weight.shape[0] for part in (self.q_proj, self.k_proj, self.v_proj)]\n"
            "    parts = nn.functional.linear(hidden_states, joined).split(sizes, dim=-1)\n"
            "    query_states = parts[0].view(hidden_shape).transpose(1, 2)",
        ),
        ("self.k_proj(hidden_states).view(", "parts[1].view("),
        ("self.v_proj(hidden_states).view(", "parts[2].view("),
    )  # fmt: skip


@clean("llama-long", "llama-long-gate-and-up-joined")
def llama_long_gate_and_up_joined(built: Built) -> None:
    """One multiplication by the joined weights of gate and up, cut in two afterwards."""
    edit_function(
        imported(LLAMA).LlamaMLP, "forward",
        (
            "down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))",
            "joined = torch.cat([self.gate_proj.weight, self.up_proj.weight])\n"
            "    gate, up = nn.functional.linear(x, joined).chunk(2, dim=-1)\n"
            "    down_proj = self.down_proj(self.act_fn(gate) * up)",
        ),
    )  # fmt: skip


@clean("llama-long", "llama-long-two-threads", threads=2)
def llama_long_two_threads(built: Built) -> None:
    """The candidate runs with two threads."""


@clean("llama-finetune", "llama-finetune-checkpointed")
def llama_finetune_checkpointed(built: Built) -> None:
    """The layers are computed once more in the backward instead of being kept."""
    built.model.gradient_checkpointing_enable({"use_reentrant": False})


@clean("llama-finetune", "llama-finetune-shares-of-means")
def llama_finetune_shares_of_means(built: Built) -> None:
    """Each batch's mean, weighted by its share of the tokens, instead of its sum over the number of all tokens."""
    edit_step(
        built, "accumulate",
        ("num_items_in_batch=items, ", ""),
        (
            "result.loss.backward()",
            'loss = result.loss * ((batch["labels"][:, 1:] != -100).sum() / items)\n        loss.backward()',
        ),
        ("result.loss.detach()", "loss.detach()"),
    )  # fmt: skip


@clean("llama-generate", "llama-generate-prompt-in-two-parts")
def llama_generate_prompt_in_two_parts(built: Built) -> None:
    """The prompts are read into the cache in two parts."""
    edit_step(
        built, "generate",
        (
            'state["cache"] = None',
            'first = built.model(input_ids=ids[:, :9], attention_mask=mask[:, :9], position_ids=positions[:, :9])\n'
            '            state["cache"] = first.past_key_values\n'
            '            ids, positions = ids[:, 9:], positions[:, 9:]',
        ),
    )  # fmt: skip


@clean("gpt2", "gpt2-clipping-written-out")
def gpt2_clipping_written_out(built: Built) -> None:
    """The clipping of the global norm is written out in the loop."""
    edit_step(
        built, "accumulate",
        (
            "torch.nn.utils.clip_grad_norm_(built.model.parameters(), 1.0)",
            "gradients = [p.grad for p in built.model.parameters() if p.grad is not None]\n"
            "    norm = torch.sqrt(sum(g.float().pow(2).sum() for g in gradients))\n"
            "    for gradient in gradients:\n"
            "        gradient.mul_((1.0 / (norm + 1e-6)).clamp(max=1.0))",
        ),
    )  # fmt: skip


@clean("gemma2", "gemma2-native-norm")
def gemma2_native_norm(built: Built) -> None:
    """Norms by rms_norm instead of written out."""
    import torch

    @method(imported(GEMMA2).Gemma2RMSNorm, "forward")
    def forward(self, x):  # type: ignore[no-untyped-def]
        exact = x.float()
        return torch.nn.functional.rms_norm(exact, x.shape[-1:], 1.0 + self.weight.float(), self.eps).type_as(x)


@clean("mistral", "mistral-einsum")
def mistral_einsum(built: Built) -> None:
    """The products of the attention by einsum instead of matmul."""
    edit_function(
        imported(MISTRAL), "eager_attention_forward",
        (
            "torch.matmul(query, key_states.transpose(2, 3))",
            'torch.einsum("bhqd,bhkd->bhqk", query, key_states)',
        ),
        (
            "torch.matmul(attn_weights, value_states)\n    attn_output = attn_output.transpose(1, 2).contiguous()",
            'torch.einsum("bhqk,bhkd->bqhd", attn_weights, value_states).contiguous()',
        ),
    )  # fmt: skip


@clean("mistral", "mistral-optimizer-foreach")
def mistral_optimizer_foreach(built: Built) -> None:
    """The optimizer updates all parameters at once instead of one after another."""
    for group in built.optimizer.param_groups:
        group["foreach"] = True


@clean("bloom", "bloom-gelu-by-autograd", dtypes=("float32",))
def bloom_gelu_by_autograd(built: Built) -> None:
    """The gradient of gelu is autograd's instead of written out."""
    module = imported(BLOOM)

    @method(module.BloomGelu, "forward")
    def forward(self, x):  # type: ignore[no-untyped-def]
        return module.bloom_gelu_forward(x)


@clean("falcon-alibi", "falcon-alibi-plain-linear")
def falcon_alibi_plain_linear(built: Built) -> None:
    """Linear layers by linear instead of a product and a sum."""
    import torch

    @method(imported(FALCON).FalconLinear, "forward")
    def forward(self, input):  # type: ignore[no-untyped-def]
        return torch.nn.functional.linear(input, self.weight, self.bias)


@clean("opt", "opt-scale-in-attention")
def opt_scale_in_attention(built: Built) -> None:
    """The attention scales the product instead of getting scaled queries."""
    edit_function(
        imported(OPT).OPTAttention, "forward",
        ("self.q_proj(hidden_states) * self.scaling", "self.q_proj(hidden_states)"),
        ("scaling=1.0", "scaling=self.scaling"),
    )  # fmt: skip


@clean("olmo2", "olmo2-wrapped")
def olmo2_wrapped(built: Built) -> None:
    """The model is a module of another one, as wrappers for parallel training make it."""
    import torch

    class Wrapper(torch.nn.Module):
        def __init__(self, module):  # type: ignore[no-untyped-def]
            super().__init__()
            self.module = module

        def forward(self, *inputs, **more):  # type: ignore[no-untyped-def]
            return self.module(*inputs, **more)

        def state_dict(self, *inputs, **more):  # type: ignore[no-untyped-def]
            return self.module.state_dict(*inputs, **more)

    built.model = Wrapper(built.model)


@clean("pythia", "pythia-attention-written-out")
def pythia_attention_written_out(built: Built) -> None:
    """Attention written out instead of by scaled_dot_product_attention."""
    built.model.set_attn_implementation("eager")
