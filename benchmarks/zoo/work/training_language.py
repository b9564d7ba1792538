"""Cases of training scripts around language models."""

from __future__ import annotations

from benchmarks.zoo.spec import Built, clean, fault
from benchmarks.zoo.training_edits import kinds, library, script, several, updated

RESUMED = "t5-resume"


@fault(
    "gpt2-accumulate",
    "gpt2-accumulate-scheduler-before-optimizer",
    *updated("*"),
    source="https://github.com/facebookresearch/ParlAI/issues/2042",
    before=script(
        "gpt2",
        "update",
        (
            "    built.optimizer.step()\n    built.scheduler.step()\n",
            "    built.scheduler.step()\n    built.optimizer.step()\n",
        ),
    ),
)
def scheduler_before_optimizer(built: Built) -> None:
    """The scheduler steps before the optimizer, so that the warm-up is one step ahead."""


@fault(
    "gpt2-accumulate",
    "gpt2-accumulate-zero-grad-per-micro-batch",
    *updated("*"),
    *kinds("extra", "call", "region", apis=("zero_grad", "backward"), modules=("",), phase="backward"),
    *kinds("state", names=("*",), phase="backward"),
    source="https://github.com/gaozhihan/PreDiff/issues/32",
    before=script("gpt2", "step", ("loss.backward()", "built.optimizer.zero_grad()\n        loss.backward()")),
)
def zero_grad_per_micro_batch(built: Built) -> None:
    """The gradients are zeroed before each micro-batch, so that only the last one counts."""


@fault(
    "gpt2-accumulate",
    "gpt2-accumulate-head-untied",
    *kinds("state", names=("*wte.weight", "*lm_head.weight"), phase="backward"),
    *kinds("state", names=("*wte.weight", "*lm_head.weight")),
    *kinds(
        "call",
        "missing",
        "region",
        apis=("linear", "embedding"),
        modules=("lm_head", "transformer.wte", "", "transformer"),
        phase="backward",
    ),
    *updated("*wte.weight", "*lm_head.weight"),
    source="https://github.com/vllm-project/vllm/pull/51665",
    before=script(
        "gpt2",
        "make_optimizer",
        (
            "    decayed =",
            "    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())\n    decayed =",
        ),
    ),
)
def head_untied(built: Built) -> None:
    """The head is a copy of the embedding instead of the embedding itself, so that their gradients are not added."""


@fault(
    "gpt2-accumulate",
    "gpt2-accumulate-end-token-ignored",
    *kinds("data", names=("labels", "targets", "target")),
    *kinds("argument", "call", "region", apis=("cross_entropy", "ne", "sum", "getitem"), modules=("",)),
    source="https://github.com/huggingface/transformers/issues/23530",
    before=script(
        "gpt2", "collate", ('    return {"input_ids"', '    labels[input_ids == EOS] = -100\n    return {"input_ids"')
    ),
)
def end_token_ignored(built: Built) -> None:
    """The end token is ignored in the labels as if it were padding."""


@fault(
    "roberta-trainer",
    "roberta-trainer-padding-masked",
    *kinds("data", names=("input_ids", "labels")),
    *kinds("missing", apis=("masked_fill",), modules=("",)),
    source="https://github.com/huggingface/transformers/issues/11155",
    before=script("trainer", "mask_tokens", ("    chances.masked_fill_(input_ids == PAD, 0.0)\n", "")),
)
def padding_masked(built: Built) -> None:
    """The collator also masks padding tokens and asks for their prediction."""


@fault(
    "roberta-trainer",
    "roberta-trainer-head-norm-decayed",
    *updated("lm_head.layer_norm.weight"),
    source="https://github.com/huggingface/transformers/issues/16908",
    before=library(
        "transformers.trainer:Trainer",
        "get_decay_parameter_names",
        (
            "decay_parameters = get_parameter_names(model, [nn.LayerNorm], forbidden_name_patterns)",
            'decay_parameters = [name for name, _ in model.named_parameters() if "bias" not in name and '
            '"LayerNorm.weight" not in name]',
        ),
    ),
    dtypes=("float32",),
)
def head_norm_decayed(built: Built) -> None:
    """The norm of the head, which has another name than the other norms, is decayed."""


@fault(
    "roberta-trainer",
    "roberta-trainer-adam-epsilon-lost",
    *updated("*"),
    source="https://github.com/pytorch/pytorch/pull/22628",
    before=script("trainer", "make_arguments", ("        adam_epsilon=1e-6,\n", "")),
)
def adam_epsilon_lost(built: Built) -> None:
    """The epsilon of Adam is the default 1e-8 instead of 1e-6."""


@fault(
    RESUMED,
    "t5-resume-random-state-lost",
    *kinds("randomness", "call", apis=("dropout",), modules=("encoder*",), step=2),
    source="https://github.com/huggingface/transformers/issues/17032",
    before=script("resume", "load", ('    torch.set_rng_state(checkpoint["random"])\n', "")),
)
def random_state_lost(built: Built) -> None:
    """The state of the random numbers is not restored when the run is resumed."""


@fault(
    RESUMED,
    "t5-resume-scheduler-restarts",
    *updated("*", step=3),
    source="https://github.com/PolymathicAI/the_well/pull/63",
    before=script("resume", "load", ('    built.scheduler.load_state_dict(checkpoint["scheduler"])\n', "")),
)
def scheduler_restarts(built: Built) -> None:
    """The state of the scheduler is not loaded, so that the schedule begins anew after the first resumed step."""


@fault(
    RESUMED,
    "t5-resume-matrix-transposed",
    *kinds("state", names=("decoder.block.1.layer.0.SelfAttention.o.weight",), step=2),
    *kinds("extra", apis=("t",), modules=("",), step=2),
    source="https://github.com/huggingface/transformers/issues/4514",
    before=script(
        "resume",
        "load",
        (
            '    built.model.load_state_dict(checkpoint["model"])\n',
            '    name = "decoder.block.1.layer.0.SelfAttention.o.weight"\n'
            '    checkpoint["model"][name] = checkpoint["model"][name].t()\n'
            '    built.model.load_state_dict(checkpoint["model"])\n',
        ),
    ),
)
def matrix_transposed(built: Built) -> None:
    """One square matrix of the decoder is loaded transposed."""


@fault(
    "electra-accelerate",
    "electra-accelerate-accumulation-not-divided",
    *kinds("missing", "call", "region", "argument", apis=("div",), modules=("",)),
    *kinds("missing", "call", "region", "argument", apis=("div", "backward"), modules=("",), phase="backward"),
    source="https://github.com/agokrani/distillKitPlus/issues/5",
    before=library(
        "accelerate.accelerator:Accelerator", "backward", ("loss = loss / self.gradient_accumulation_steps", "pass")
    ),
)
def accumulation_not_divided(built: Built) -> None:
    """The loss of a micro-batch is not divided by the number of micro-batches before its backward pass."""


@fault(
    "electra-accelerate",
    "electra-accelerate-attention-mask-dropped",
    *kinds("data", names=("attention_mask",)),
    *kinds(
        "argument",
        "region",
        "missing",
        "call",
        apis=("scaled_dot_product_attention", "softmax", "add", "ones", "expand", "getitem", "to", "where"),
        modules=("electra", "electra.encoder*"),
        calls=4,
    ),
    source="https://github.com/oliverguhr/german-sentiment/issues/11",
    before=script("accelerate", "step", (', attention_mask=batch["attention_mask"]', "")),
)
def attention_mask_dropped(built: Built) -> None:
    """The attention mask is not handed to the model, so that padding is attended to."""


@fault(
    "pythia-autocast",
    "pythia-autocast-clip-before-unscale",
    *updated("*"),
    *kinds(
        "missing",
        "region",
        "call",
        apis=("unscale", "mul", "div", "clip_grad_norm", "norm", "reciprocal"),
        modules=("",),
        phase="backward",
    ),
    *kinds("missing", "region", apis=("unscale",), modules=("",)),
    source="https://github.com/pytorch/examples/issues/1196",
    before=script("autocast", "step", ("    scaler.unscale_(optimizer)\n", "")),
)
def clip_before_unscale(built: Built) -> None:
    """The gradients are clipped while they are still scaled for mixed precision."""


@clean(
    "gpt2-accumulate",
    "gpt2-accumulate-one-backward",
    before=script(
        "gpt2",
        "step",
        (
            "        loss.backward()\n        losses.append(loss.detach())\n",
            "        losses.append(loss)\n    sum(losses).backward()\n",
        ),
    ),
)
def one_backward(built: Built) -> None:
    """One backward pass of the sum of the losses instead of one of each micro-batch."""


@clean(
    "gpt2-accumulate",
    "gpt2-accumulate-gradients-zeroed-in-place",
    before=several(
        script("gpt2", "step", ("zero_grad()", "zero_grad(set_to_none=False)")),
        script(
            "gpt2",
            "update",
            ("    return norm", '    built.options["norm"] = norm.item()\n    return norm'),
        ),
    ),
)
def gradients_zeroed_in_place(built: Built) -> None:
    """The gradients are filled with zeros instead of dropped, and their norm is written down."""


@clean("roberta-trainer", "roberta-trainer-eager-attention")
def eager_attention(built: Built) -> None:
    """Attention written out instead of scaled_dot_product_attention."""
    built.model.set_attn_implementation("eager")


@clean(
    RESUMED,
    "t5-resume-without-interruption",
    before=script("resume", "step", ("    if index == 2:\n        load(built, save(built))\n", "")),
)
def without_interruption(built: Built) -> None:
    """The run goes on instead of being saved and loaded."""


@clean(
    "electra-accelerate",
    "electra-accelerate-labelled-tokens-only",
    before=script(
        "accelerate",
        "tagging_loss",
        (
            "    return torch",
            "    keep = labels != -100\n    logits, labels = logits[keep].unsqueeze(0), labels[keep]\n    return torch",
        ),
    ),
)
def labelled_tokens_only(built: Built) -> None:
    """The tokens with a label are picked before the loss instead of ignored in it."""
