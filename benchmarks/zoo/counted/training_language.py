"""Cases of training scripts around language models."""

from __future__ import annotations

from benchmarks.zoo.source import imported
from benchmarks.zoo.spec import Built, clean, fault
from benchmarks.zoo.training_edits import kinds, library, script, several, updated

RESUMED = "t5-resume"


@fault(
    "gpt2-accumulate",
    "gpt2-accumulate-mean-of-micro-means",
    *kinds("argument", "region", "call", apis=("div", "sum", "mul", "ne", "cross_entropy"), modules=("",), calls=4),
    source="https://github.com/huggingface/transformers/pull/34191",
    before=script(
        "gpt2",
        "step",
        ('batch["labels"], items)', 'batch["labels"], (batch["labels"][:, 1:] != -100).sum() * len(batches))'),
    ),
)
def mean_of_micro_means(built: Built) -> None:
    """The loss is the mean of the means of the micro-batches instead of the mean over all tokens of the step."""


@fault(
    "gpt2-accumulate",
    "gpt2-accumulate-decay-on-every-parameter",
    *updated("*ln_*", "*bias"),
    source="https://github.com/ServiceNow/Fast-LLM/issues/542",
    before=script("gpt2", "make_optimizer", ('"weight_decay": 0.0', '"weight_decay": 0.1')),
    dtypes=("float32",),
)
def decay_on_every_parameter(built: Built) -> None:
    """Weight decay is applied to the norms and biases too."""


@fault(
    "gpt2-accumulate",
    "gpt2-accumulate-labels-shifted-twice",
    *kinds("data", names=("labels", "targets", "target")),
    *kinds("argument", "call", "region", apis=("cross_entropy", "getitem", "ne"), modules=("",)),
    source="https://github.com/huggingface/transformers/pull/44642",
    before=script(
        "gpt2",
        "collate",
        (
            'labels[index, len(row["prompt"]) : len(tokens)]',
            'labels[index, len(row["prompt"]) - 1 : len(tokens) - 1]',
        ),
    ),
)
def labels_shifted_twice(built: Built) -> None:
    """The collator shifts the labels by one although the loss shifts them again."""


@fault(
    "gpt2-accumulate",
    "gpt2-accumulate-left-in-evaluation-mode",
    *kinds(
        "argument",
        "randomness",
        "missing",
        "call",
        apis=("dropout",),
        modules=("transformer", "transformer.drop", "transformer.h.*"),
        step=1,
    ),
    source="https://github.com/shubhamagarwal92/mmd/issues/14",
    before=script("gpt2", "evaluate", ("    built.model.train()\n", "")),
)
def left_in_evaluation_mode(built: Built) -> None:
    """The model stays in evaluation mode after the first evaluation, so that dropout is off from then on."""


@fault(
    "roberta-trainer",
    "roberta-trainer-loss-divided-again",
    *kinds("extra", "call", "region", apis=("div",), modules=("",)),
    source="https://github.com/huggingface/transformers/issues/35203",
    before=library("transformers.trainer:Trainer", "training_step", ("if not loss_is_scaled_for_ga:", "if True:")),
)
def loss_divided_again(built: Built) -> None:
    """The loss, a mean over all micro-batches already, is divided by their number once more."""


@fault(
    "roberta-trainer",
    "roberta-trainer-smoother-per-micro-batch",
    *kinds("argument", "region", "call", apis=("div", "sub", "sum", "mul", "long", "to"), modules=("",), calls=4),
    source="https://github.com/huggingface/transformers/issues/37766",
    before=library(
        "transformers.trainer_pt_utils:LabelSmoother", "__call__", ("if num_items_in_batch is None:", "if True:")
    ),
)
def smoother_per_micro_batch(built: Built) -> None:
    """The loss with label smoothing is a mean over each micro-batch, and the means are added."""


@fault(
    "roberta-trainer",
    "roberta-trainer-random-words-rarely",
    *kinds("data", names=("input_ids",)),
    source="https://github.com/huggingface/transformers/pull/17377",
    before=script("trainer", "mask_tokens", ("torch.full(labels.shape, 0.5)", "torch.full(labels.shape, 0.1)")),
)
def random_words_rarely(built: Built) -> None:
    """One tenth instead of half of the chosen tokens that are not masked become random words."""


@fault(
    RESUMED,
    "t5-resume-optimizer-lost",
    *updated("*", step=2),
    *kinds("state", names=("*",), step=2),
    source="https://github.com/NVIDIA-NeMo/Automodel/issues/763",
    before=script("resume", "load", ('    built.optimizer.load_state_dict(checkpoint["optimizer"])\n', "")),
)
def optimizer_lost(built: Built) -> None:
    """The states of the optimizer are not loaded when the run is resumed."""


@fault(
    RESUMED,
    "t5-resume-prefix-not-stripped",
    *kinds("state", names=("*",), step=2),
    source="https://github.com/pytorch/examples/issues/1029",
    before=several(
        script(
            "resume",
            "save",
            ("built.model.state_dict()", '{f"module.{k}": v for k, v in built.model.state_dict().items()}'),
        ),
        script("resume", "load", ('checkpoint["model"])', 'checkpoint["model"], strict=False)')),
    ),
)
def prefix_not_stripped(built: Built) -> None:
    """The names in the checkpoint have a prefix, and as loading is not strict, no weight is loaded."""


@fault(
    "electra-accelerate",
    "electra-accelerate-every-piece-labelled",
    *kinds("data", names=("labels", "target", "targets")),
    *kinds("argument", "call", apis=("cross_entropy",), modules=("",)),
    source="https://github.com/huggingface/transformers/pull/14055",
    before=script("accelerate", "align", ("tags[word] if word != before else -100", "tags[word]")),
)
def every_piece_labelled(built: Built) -> None:
    """All pieces of a word carry its tag instead of only the first one."""


@fault(
    "electra-accelerate",
    "electra-accelerate-scheduler-per-micro-batch",
    *updated("*"),
    source="https://github.com/huggingface/accelerate/issues/963",
    before=script("accelerate", "step", ("built.scheduler.step()", "built.scheduler.scheduler.step()")),
)
def scheduler_per_micro_batch(built: Built) -> None:
    """The scheduler steps with each micro-batch instead of with each update."""


@fault(
    "pythia-autocast",
    "pythia-autocast-loss-in-bfloat16",
    *kinds(
        "precision",
        "missing",
        "argument",
        "call",
        apis=("to", "cross_entropy", "logsumexp", "flatten", "square"),
        modules=("",),
    ),
    source="https://github.com/Modalities/modalities/pull/464",
    before=script("autocast", "language_loss", ("upcast(logits[:, :-1])", "logits[:, :-1]")),
)
def loss_in_bfloat16(built: Built) -> None:
    """The loss is computed in bfloat16 because the logits are not cast up."""


@fault(
    "pythia-autocast",
    "pythia-autocast-positions-not-reset",
    *kinds("data", names=("position_ids",)),
    source="https://github.com/huggingface/nanoVLM/issues/201",
    before=script(
        "autocast",
        "pack",
        ("places += range(len(document))", "places += range(len(places), len(places) + len(document))"),
    ),
)
def positions_not_reset(built: Built) -> None:
    """The positions of packed documents go on over their boundaries instead of beginning at zero."""


@fault(
    "pythia-autocast",
    "pythia-autocast-z-loss-over-boundaries",
    *kinds("region", "missing", "call", apis=("mul", "sum", "div", "mean"), modules=("",), calls=4),
    source="https://github.com/arcee-ai/DAM/pull/16",
    before=script("autocast", "language_loss", ("(norms.square() * keep).sum() / keep.sum()", "norms.square().mean()")),
)
def z_loss_over_boundaries(built: Built) -> None:
    """The loss on the normaliser is a mean over all tokens, those without label too."""


@clean(
    "gpt2-accumulate",
    "gpt2-accumulate-loss-written-out",
    before=script(
        "gpt2",
        "token_loss",
        (
            "    loss = torch.nn.functional.cross_entropy(\n        shifted.reshape(-1, shifted.shape[-1]), "
            'targets.reshape(-1), ignore_index=-100, reduction="sum"\n    )\n',
            "    chosen = targets.clamp(min=0).unsqueeze(-1)\n"
            "    logps = torch.log_softmax(shifted, dim=-1).gather(-1, chosen).squeeze(-1)\n"
            "    loss = -torch.where(targets != -100, logps, torch.zeros_like(logps)).sum()\n",
        ),
    ),
)
def loss_written_out(built: Built) -> None:
    """The cross entropy is written out with log_softmax, gather and where."""


@clean("gpt2-accumulate", "gpt2-accumulate-fused-attention", before=script("gpt2", "make_model", ('"eager"', '"sdpa"')))
def fused_attention(built: Built) -> None:
    """Attention by scaled_dot_product_attention instead of written out."""


@clean(
    "gpt2-accumulate",
    "gpt2-accumulate-optimizer-fused",
    before=script("gpt2", "make_optimizer", ("betas=(0.9, 0.95))", "betas=(0.9, 0.95), fused=True)")),
)
def optimizer_fused(built: Built) -> None:
    """The fused AdamW instead of the loop over the parameters."""


@clean(
    "roberta-trainer",
    "roberta-trainer-clip-written-out",
    before=script(
        "trainer",
        "step",
        (
            "    norm = trainer.accelerator.clip_grad_norm_(built.model.parameters(), trainer.args.max_grad_norm)\n",
            "    gradients = [p.grad for p in built.model.parameters() if p.grad is not None]\n"
            "    norm = sum(gradient.square().sum() for gradient in gradients).sqrt()\n"
            "    for gradient in gradients:\n"
            "        gradient *= (trainer.args.max_grad_norm / (norm + 1e-6)).clamp(max=1.0)\n",
        ),
    ),
)
def clip_written_out(built: Built) -> None:
    """The clipping by the global norm is written out."""


@clean(
    "roberta-trainer",
    "roberta-trainer-unfused-adam",
    before=script("trainer", "make_arguments", ("adam_beta2", 'optim="adamw_torch",\n        adam_beta2')),
)
def unfused_adam(built: Built) -> None:
    """AdamW in a loop over the parameters instead of fused."""


@clean(
    RESUMED,
    "t5-resume-parameters-reordered",
    before=script("resume", "make_optimizer", ("model.parameters()", "list(model.parameters())[::-1]")),
)
def parameters_reordered(built: Built) -> None:
    """The optimizer is given the parameters in reversed order."""


@clean("electra-accelerate", "electra-accelerate-without-accelerate")
def without_accelerate(built: Built) -> None:
    """Accumulation, clipping and schedule in a plain loop instead of with accelerate."""
    built.step = imported("benchmarks.zoo.programs.training_accelerate").plain_step


@clean(
    "pythia-autocast",
    "pythia-autocast-no-autocast-cache",
    before=script("autocast", "step", ("dtype=torch.bfloat16)", "dtype=torch.bfloat16, cache_enabled=False)")),
)
def no_autocast_cache(built: Built) -> None:
    """Autocast without its cache of cast weights."""


@clean("pythia-autocast", "pythia-autocast-scaler-other-start")
def scaler_other_start(built: Built) -> None:
    """The scaler of the gradients begins with another power of two."""
    import torch

    built.options["scaler"] = torch.amp.GradScaler("cpu", init_scale=64.0)
