"""The same in other code, written after the others, before looking at the diagnosis."""

from __future__ import annotations

from benchmarks.zoo.decoders_edits import edit_step
from benchmarks.zoo.spec import Built, clean
from benchmarks.zoo.training_edits import script


@clean(
    "clip-contrastive", "fresh-clip-contrastive-loss-by-logsumexp",
    before=script(
        "clip", "contrastive_loss",
        ("by_image = torch.nn.functional.cross_entropy(logits, targets)",
         "by_image = (logits.logsumexp(1) - logits.diagonal()).mean()"),
        ("by_text = torch.nn.functional.cross_entropy(logits.t(), targets)",
         "by_text = (logits.logsumexp(0) - logits.diagonal()).mean()"),
    ),
)  # fmt: skip
def clip_contrastive_loss_by_logsumexp(built: Built) -> None:
    """Both directions of the loss by logsumexp and the diagonal instead of cross_entropy."""


@clean(
    "distilbert-distil", "fresh-distilbert-distil-divergence-written-out",
    before=script(
        "distil", "soft_loss",
        ("    divergence = torch.nn.functional.kl_div(\n"
         "        torch.nn.functional.log_softmax(student / temperature, dim=-1),\n"
         "        torch.nn.functional.softmax(teacher / temperature, dim=-1),\n"
         '        reduction="batchmean",\n    )\n',
         "    ours = torch.log_softmax(student / temperature, dim=-1)\n"
         "    theirs = torch.log_softmax(teacher / temperature, dim=-1)\n"
         "    divergence = (theirs.exp() * (theirs - ours)).sum(-1).mean()\n"),
    ),
)  # fmt: skip
def distilbert_distil_divergence_written_out(built: Built) -> None:
    """The divergence of the distributions is written out instead of kl_div."""


@clean("qwen3-dpo", "fresh-qwen3-dpo-frozen-first")
def qwen3_dpo_frozen_first(built: Built) -> None:
    """The frozen model runs before the one that is tuned."""
    edit_step(
        built, "prefer",
        ("    policy = score(built.model(**batch, use_cache=False).logits, labels)\n", ""),
        ("    ratio = policy - frozen\n",
         "    policy = score(built.model(**batch, use_cache=False).logits, labels)\n    ratio = policy - frozen\n"),
    )  # fmt: skip


@clean("phi", "fresh-phi-clipped-one-by-one")
def phi_clipped_one_by_one(built: Built) -> None:
    """The norm of the gradients is taken and applied in a loop written by hand."""
    edit_step(
        built, "train",
        (
            'torch.nn.utils.clip_grad_norm_(built.model.parameters(), built.options.get("clip", 1.0))',
            "found = [value.grad for value in built.model.parameters() if value.grad is not None]\n"
            "    total = torch.sqrt(sum((one.float() ** 2).sum() for one in found))\n"
            "    share = (1.0 / (total + 1e-6)).clamp(max=1.0)\n"
            "    for one in found:\n"
            "        one.mul_(share.to(one.dtype))",
        ),
    )  # fmt: skip


@clean("pythia-autocast", "fresh-pythia-autocast-other-scale")
def pythia_autocast_other_scale(built: Built) -> None:
    """The scale of the loss is 64 instead of 1024; it goes out again before anything is used."""
    import torch

    built.options["scaler"] = torch.amp.GradScaler("cpu", init_scale=64.0)


@clean("deepseek", "fresh-deepseek-sdpa")
def deepseek_sdpa(built: Built) -> None:
    """Attention by scaled_dot_product_attention instead of written out."""
    built.model.set_attn_implementation("sdpa")
