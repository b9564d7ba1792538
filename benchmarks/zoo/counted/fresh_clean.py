"""The same in other code, written after the others, before looking at the diagnosis."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.decoders_edits import GEMMA2, LLAMA
from benchmarks.zoo.encoders_edits import modeling
from benchmarks.zoo.source import edit_function, imported
from benchmarks.zoo.spec import Built, clean
from benchmarks.zoo.training_edits import script
from benchmarks.zoo.various_edits import edit_step as edit_step_of


@clean("llama-long", "fresh-llama-long-native-norm")
def llama_long_native_norm(built: Built) -> None:
    """Norms by rms_norm in float32 instead of written out."""
    import torch

    def forward(self: Any, hidden_states: Any) -> Any:
        exact = torch.nn.functional.rms_norm(hidden_states.float(), self.weight.shape, None, self.variance_epsilon)
        return self.weight * exact.to(hidden_states.dtype)

    imported(LLAMA).LlamaRMSNorm.forward = forward


@clean("llama-long", "fresh-llama-long-checkpointed")
def llama_long_checkpointed(built: Built) -> None:
    """The layers are computed once more in the backward."""
    built.model.gradient_checkpointing_enable({"use_reentrant": False})


@clean("gemma2", "fresh-gemma2-cap-by-the-reciprocal")
def gemma2_cap_by_the_reciprocal(built: Built) -> None:
    """The soft cap of the attention multiplies by the reciprocal of the cap."""
    edit_function(
        imported(GEMMA2), "eager_attention_forward",
        ("attn_weights = attn_weights / softcap", "attn_weights = attn_weights * (1.0 / softcap)"),
    )  # fmt: skip


@clean("opt", "fresh-opt-written-out-attention")
def opt_written_out_attention(built: Built) -> None:
    """Attention written out instead of scaled_dot_product_attention."""
    built.model.set_attn_implementation("eager")


@clean("pythia", "fresh-pythia-written-out-attention")
def pythia_written_out_attention(built: Built) -> None:
    """Attention written out instead of scaled_dot_product_attention."""
    built.model.set_attn_implementation("eager")


@clean("electra", "fresh-electra-eval-watched")
def electra_eval_watched(built: Built) -> None:
    """The loop writes down the mean of the hidden states of all layers by hooks."""
    built.options["seen"] = []
    for layer in built.model.electra.encoder.layer:
        layer.register_forward_hook(
            lambda module, inputs, output: built.options["seen"].append(float((output[0]).detach().float().mean()))
        )


@clean("t5", "fresh-t5-loss-by-log-softmax")
def t5_loss_by_log_softmax(built: Built) -> None:
    """The loss is written as the entries of log_softmax at the labels, averaged over those that count."""

    def step(built: Built, index: int) -> Any:
        import torch

        built.optimizer.zero_grad()
        batch = built.batches[index]
        result = built.model(**batch)
        labels = batch["labels"]
        scores = torch.log_softmax(result.logits, dim=-1)
        keep = labels != -100
        chosen = scores.gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        loss = -(chosen * keep).sum() / keep.sum()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(built.model.parameters(), 1.0)
        built.optimizer.step()
        return {"loss": loss, "logits": result.logits, "gradient norm": norm}

    built.step = step


@clean("mixtral", "fresh-mixtral-norm-by-mean-square")
def mixtral_norm_by_mean_square(built: Built) -> None:
    """The norms divide by the root instead of multiplying by its reciprocal."""
    edit_function(
        modeling("mixtral").MixtralRMSNorm, "forward",
        ("hidden_states * torch.rsqrt(variance + self.variance_epsilon)",
         "hidden_states / torch.sqrt(variance + self.variance_epsilon)"),
    )  # fmt: skip


@clean("sd3", "fresh-sd3-fused-projections")
def sd3_fused_projections(built: Built) -> None:
    """The loss is mse_loss instead of written out."""
    edit_step_of(
        built,
        (
            "torch.mean(((predicted.float() - target.float()) ** 2).reshape(target.shape[0], -1), 1).mean()",
            "torch.nn.functional.mse_loss(predicted.float(), target.float())",
        ),
    )  # fmt: skip


@clean("vit", "fresh-vit-attention-fused")
def vit_attention_fused(built: Built) -> None:
    """Attention by scaled_dot_product_attention instead of written out."""
    for block in built.model.blocks:
        block.attn.fused_attn = True


@clean("convnext", "fresh-convnext-average-one-by-one")
def convnext_average_one_by_one(built: Built) -> None:
    """The average of the weights is updated parameter by parameter."""
    built.options["average"].foreach = False


@clean("swin", "fresh-swin-loss-written-out")
def swin_loss_written_out(built: Built) -> None:
    """The loss is written with softplus instead of by the function for logits."""

    def criterion(output: Any, target: Any) -> Any:
        import torch

        target = target * 0.9 + 0.05
        return (torch.nn.functional.softplus(output) - output * target).mean()

    smooth = built.options["criterion"]
    if getattr(smooth, "smooth_dense", False):
        built.options["criterion"] = criterion
    else:
        built.options["criterion"] = lambda output, target: (
            __import__("torch").nn.functional.softplus(output) - output * target
        ).mean()


@clean("seresnet", "fresh-seresnet-two-threads", threads=2)
def seresnet_two_threads(built: Built) -> None:
    """Two threads instead of one."""


@clean("roberta-trainer", "fresh-roberta-trainer-checkpointed")
def roberta_trainer_checkpointed(built: Built) -> None:
    """The layers are computed once more in the backward."""
    built.model.gradient_checkpointing_enable({"use_reentrant": False})


@clean(
    "llama-grpo", "fresh-llama-grpo-probabilities-by-cross-entropy",
    before=script(
        "grpo", "token_logps",
        ("return logits.log_softmax(-1).gather(-1, chosen).squeeze(-1)",
         'return -torch.nn.functional.cross_entropy(logits.transpose(1, 2), chosen.squeeze(-1), reduction="none")'),
    ),
)  # fmt: skip
def llama_grpo_probabilities_by_cross_entropy(built: Built) -> None:
    """The log probabilities of the tokens by cross_entropy without a reduction."""
