"""The same in other code, written after the others, before looking at the diagnosis."""

from __future__ import annotations

from benchmarks.zoo.decoders_edits import COHERE, LLAMA
from benchmarks.zoo.encoders_edits import modeling
from benchmarks.zoo.source import edit_function, imported
from benchmarks.zoo.spec import Built, clean
from benchmarks.zoo.training_edits import script
from benchmarks.zoo.various_edits import edit_step as edit_step_of


@clean("qwen3", "fresh-qwen3-sdpa")
def qwen3_sdpa(built: Built) -> None:
    """Attention by scaled_dot_product_attention instead of written out."""
    built.model.set_attn_implementation("sdpa")


@clean("llama-finetune", "fresh-llama-finetune-gate-and-up-in-one")
def llama_finetune_gate_and_up_in_one(built: Built) -> None:
    """Gate and up come from one product over their joined weights."""
    edit_function(
        imported(LLAMA).LlamaMLP, "forward",
        (
            "down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))",
            "joined = torch.nn.functional.linear(x, torch.cat([self.gate_proj.weight, self.up_proj.weight]))\n"
            "    gate, up = joined.chunk(2, dim=-1)\n"
            "    down_proj = self.down_proj(self.act_fn(gate) * up)",
        ),
    )  # fmt: skip


@clean("olmo2", "fresh-olmo2-sdpa")
def olmo2_sdpa(built: Built) -> None:
    """Attention by scaled_dot_product_attention instead of written out."""
    built.model.set_attn_implementation("sdpa")


@clean("pythia", "fresh-pythia-adam-by-hand")
def pythia_adam_by_hand(built: Built) -> None:
    """Adam written out as in the paper instead of torch's own."""
    import torch

    class Adam(torch.optim.Optimizer):
        @torch.no_grad()
        def step(self) -> None:
            for group in self.param_groups:
                for value in group["params"]:
                    if value.grad is None:
                        continue
                    state = self.state[value]
                    if not state:
                        state.update(count=0, mean=torch.zeros_like(value), square=torch.zeros_like(value))
                    state["count"] += 1
                    state["mean"] = 0.9 * state["mean"] + 0.1 * value.grad
                    state["square"] = 0.95 * state["square"] + 0.05 * value.grad * value.grad
                    mean = state["mean"] / (1 - 0.9 ** state["count"])
                    square = state["square"] / (1 - 0.95 ** state["count"])
                    value -= group["lr"] * mean / (square.sqrt() + 1e-8)

    built.optimizer = Adam(built.model.parameters(), {"lr": 1e-3})


@clean("mistral", "fresh-mistral-momentum-by-hand")
def mistral_momentum_by_hand(built: Built) -> None:
    """SGD with Nesterov's momentum written out instead of torch's own."""
    import torch

    class Momentum(torch.optim.Optimizer):
        @torch.no_grad()
        def step(self) -> None:
            for group in self.param_groups:
                for value in group["params"]:
                    gradient = value.grad + 0.01 * value
                    buffer = self.state[value].get("buffer")
                    buffer = gradient.clone() if buffer is None else 0.9 * buffer + gradient
                    self.state[value]["buffer"] = buffer
                    value -= group["lr"] * (gradient + 0.9 * buffer)

    built.optimizer = Momentum(built.model.parameters(), {"lr": 0.05})


@clean("cohere", "fresh-cohere-cosines-doubled-by-stack")
def cohere_cosines_doubled_by_stack(built: Built) -> None:
    """The angles of pairs are doubled by stacking instead of repeat_interleave."""
    import torch

    edit_function(
        imported(COHERE).CohereRotaryEmbedding, "forward",
        ("torch.repeat_interleave(freqs, 2, dim=-1)", "torch.stack((freqs, freqs), dim=-1).flatten(-2)"),
    )  # fmt: skip
    rotary = imported(COHERE).CohereRotaryEmbedding
    rotary.forward = torch.no_grad()(rotary.forward)


@clean("electra", "fresh-electra-products-by-einsum")
def electra_products_by_einsum(built: Built) -> None:
    """The two products of the attention are written as einsum."""
    edit_function(
        modeling("electra"), "eager_attention_forward",
        ("torch.matmul(query, key.transpose(2, 3))", 'torch.einsum("bhqd,bhkd->bhqk", query, key)'),
        ("torch.matmul(attn_weights, value)", 'torch.einsum("bhqk,bhkd->bhqd", attn_weights, value)'),
    )  # fmt: skip


@clean("bart", "fresh-bart-sdpa")
def bart_sdpa(built: Built) -> None:
    """Attention by scaled_dot_product_attention instead of written out."""
    built.model.set_attn_implementation("sdpa")


@clean("olmoe", "fresh-olmoe-sdpa")
def olmoe_sdpa(built: Built) -> None:
    """Attention by scaled_dot_product_attention instead of written out."""
    built.model.set_attn_implementation("sdpa")


@clean("qwen2moe", "fresh-qwen2moe-experts-from-the-last")
def qwen2moe_experts_from_the_last(built: Built) -> None:
    """The experts are computed from the last to the first."""
    edit_function(
        modeling("qwen2_moe").Qwen2MoeExperts, "forward",
        ("for expert_idx in expert_hit:", "for expert_idx in expert_hit.flip(0):"),
    )  # fmt: skip


@clean("unet-condition", "fresh-unet-condition-written-out-attention")
def unet_condition_written_out_attention(built: Built) -> None:
    """Attention written out instead of scaled_dot_product_attention."""
    from diffusers.models.attention_processor import AttnProcessor

    built.model.set_attn_processor(AttnProcessor())


@clean("autoencoder-kl", "fresh-autoencoder-kl-l1-loss")
def autoencoder_kl_l1_loss(built: Built) -> None:
    """The distance of the pictures is l1_loss instead of written out."""
    edit_step_of(
        built, ("torch.abs(pictures - restored).mean()", "torch.nn.functional.l1_loss(restored, pictures)")
    )


@clean("unet-ddim", "fresh-unet-ddim-channels-last")
def unet_ddim_channels_last(built: Built) -> None:
    """The model works with the channels last in memory."""
    import torch

    built.model.to(memory_format=torch.channels_last)


@clean("vit", "fresh-vit-optimizer-at-once")
def vit_optimizer_at_once(built: Built) -> None:
    """The optimizer updates all parameters at once instead of one after another."""
    for group in built.optimizer.param_groups:
        group["foreach"] = True


@clean("dinov2", "fresh-dinov2-sdpa")
def dinov2_sdpa(built: Built) -> None:
    """Attention by scaled_dot_product_attention instead of written out."""
    built.model.set_attn_implementation("sdpa")


@clean(
    "gpt2-accumulate", "fresh-gpt2-accumulate-mean-times-share",
    before=script(
        "gpt2", "token_loss",
        ('ignore_index=-100, reduction="sum"\n    )\n    return loss / items',
         "ignore_index=-100\n    )\n    return loss * ((targets != -100).sum() / items)"),
    ),
)  # fmt: skip
def gpt2_accumulate_mean_times_share(built: Built) -> None:
    """The loss is the mean over the tokens of a batch times its share of the tokens of the step."""
