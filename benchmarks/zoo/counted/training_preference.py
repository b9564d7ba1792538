"""Cases of preferences, distillation and contrastive training."""

from __future__ import annotations

from benchmarks.zoo.spec import Built, clean, fault
from benchmarks.zoo.training_edits import kinds, script, updated


@fault(
    "qwen2-dpo",
    "qwen2-dpo-mean-logps",
    *kinds("extra", "region", "call", apis=("div", "sum"), modules=("",), calls=2),
    source="https://github.com/huggingface/trl/issues/789",
    before=script("dpo", "answer_logps", ("(logps * mask).sum(-1)", "(logps * mask).sum(-1) / mask.sum(-1)")),
)
def mean_logps(built: Built) -> None:
    """The probability of an answer is the mean over its tokens instead of the sum."""


@fault(
    "qwen2-dpo",
    "qwen2-dpo-reference-keeps-dropout",
    *kinds("argument", "randomness", "extra", "call", apis=("dropout",), modules=("reference.model.layers.*",)),
    source="https://github.com/huggingface/trl/issues/2042",
    before=script("dpo", "make_reference", ("copy.deepcopy(policy).eval()", "copy.deepcopy(policy)")),
)
def reference_keeps_dropout(built: Built) -> None:
    """The reference model is not put into evaluation mode and drops attention weights."""


@fault(
    "qwen2-dpo",
    "qwen2-dpo-reference-shares-storage",
    *kinds("state", names=("reference.*",)),
    *kinds("state", names=("reference.*",), step=1),
    *updated("reference.*"),
    source="https://github.com/Goekdeniz-Guelmez/mlx-lm-lora/issues/17",
    before=script(
        "dpo",
        "make_reference",
        (
            "reference = copy.deepcopy(policy).eval()",
            "reference = type(policy)(policy.config).to(policy.dtype).eval()\n"
            "    reference.load_state_dict(policy.state_dict(), assign=True)",
        ),
    ),
)
def reference_shares_storage(built: Built) -> None:
    """The reference model shares the memory of the policy's weights and so follows its updates."""


@fault(
    "qwen2-dpo",
    "qwen2-dpo-reference-in-bfloat16",
    *kinds("precision", modules=("reference", "reference.*")),
    *kinds("state", names=("reference.*",)),
    source="https://github.com/huggingface/transformers/issues/30709",
    dtypes=("float32",),
)
def reference_in_bfloat16(built: Built) -> None:
    """The reference model is in bfloat16, the policy is not."""
    import torch

    built.model["reference"].to(torch.bfloat16)


@fault(
    "llama-grpo",
    "llama-grpo-temperature-forgotten",
    *kinds("argument", "call", "missing", apis=("div",), modules=("",)),
    source="https://github.com/huggingface/trl/pull/3029",
    before=script("grpo", "step", ('(policy, rollout, options["temperature"])', "(policy, rollout, 1.0)")),
)
def temperature_forgotten(built: Built) -> None:
    """The policy's logits are not divided by the temperature with which the completions were sampled."""


@fault(
    "distilbert-distil",
    "distilbert-distil-first-layers",
    *kinds("state", names=("student.distilbert.transformer.layer.1.*",)),
    source="https://github.com/huggingface/transformers/issues/3585",
    before=script("distil", "initialise", ("enumerate((0, 2))", "enumerate((0, 1))")),
)
def first_layers(built: Built) -> None:
    """The student takes the first two layers of its teacher instead of every second one."""


@fault(
    "distilbert-distil",
    "distilbert-distil-input-not-in-logs",
    *kinds("call", "region", apis=("softmax", "log_softmax"), modules=("",)),
    source="https://github.com/microsoft/ProDA/issues/20",
    before=script("distil", "soft_loss", ("functional.log_softmax(student", "functional.softmax(student")),
)
def input_not_in_logs(built: Built) -> None:
    """The divergence is given the student's probabilities instead of their logarithms."""


@fault(
    "clip-contrastive",
    "clip-contrastive-scale-decayed",
    *updated("logit_scale"),
    source="https://github.com/EvolvingLMMs-Lab/OneVision-Encoder/pull/66",
    before=script("clip", "make_optimizer", ("ndim >= 2", "ndim != 1"), ("ndim < 2", "ndim == 1")),
    dtypes=("float32",),
)
def scale_decayed(built: Built) -> None:
    """Weight decay is applied to the scale of the logits too."""


@fault(
    "clip-contrastive",
    "clip-contrastive-loss-one-direction",
    *kinds("missing", "call", "argument", "region", apis=("t", "transpose", "cross_entropy"), modules=("",)),
    source="https://github.com/moein-shariatnia/OpenAI-CLIP/issues/16",
    before=script("clip", "contrastive_loss", ("cross_entropy(logits.t(), targets)", "cross_entropy(logits, targets)")),
)
def loss_one_direction(built: Built) -> None:
    """Both halves of the loss compare images with texts, none texts with images."""


@fault(
    "clip-contrastive",
    "clip-contrastive-epsilon-inside-root",
    *updated("*"),
    *kinds("region", "call", apis=("sqrt", "add", "div"), modules=("",), calls=3),
    *kinds("region", "call", apis=("sqrt", "add", "div"), modules=("",), calls=3, phase="backward"),
    source="https://github.com/goodfire-ai/spd/issues/602",
    before=script(
        "clip",
        "adam",
        ('(corrected_square.sqrt() + group["epsilon"])', '(corrected_square + group["epsilon"]).sqrt()'),
    ),
)
def epsilon_inside_root(built: Built) -> None:
    """The epsilon of Adam is added inside of the root."""


@fault(
    "clip-contrastive",
    "clip-contrastive-bias-correction-missing",
    *updated("*"),
    *kinds("missing", "call", "region", apis=("div", "sqrt"), modules=("",)),
    *kinds("missing", "call", "region", apis=("div", "sqrt"), modules=("",), phase="backward"),
    source="https://github.com/BVLC/caffe/issues/4224",
    before=script("clip", "adam", ("square / (1 - second**count)", "square")),
)
def bias_correction_missing(built: Built) -> None:
    """The second moment of Adam is used without its correction for the first steps."""


@fault(
    "clip-contrastive",
    "clip-contrastive-coupled-decay",
    *updated("*weight", "*embedding*", "*projection*"),
    *kinds("region", "missing", "extra", "call", apis=("mul", "add"), modules=("",), calls=2),
    *kinds("region", "missing", "extra", "call", apis=("mul", "add"), modules=("",), calls=2, phase="backward"),
    source="https://github.com/pytorch/pytorch/pull/4429",
    before=script(
        "clip",
        "adam",
        ('    parameter.mul_(1 - group["rate"] * group["decay"])\n', ""),
        (
            '    first, second = group["betas"]\n',
            '    first, second = group["betas"]\n    gradient = gradient + group["decay"] * parameter\n',
        ),
    ),
)
def coupled_decay(built: Built) -> None:
    """Weight decay is added to the gradients instead of applied to the parameters."""


@clean(
    "qwen2-dpo",
    "qwen2-dpo-logps-by-cross-entropy",
    before=script(
        "dpo",
        "answer_logps",
        (
            "torch.gather(logits.log_softmax(-1), dim=2, index=labels.unsqueeze(2)).squeeze(2)",
            '-torch.nn.functional.cross_entropy(logits.transpose(1, 2), labels, reduction="none")',
        ),
    ),
)
def logps_by_cross_entropy(built: Built) -> None:
    """The logarithms of the probabilities by cross_entropy without reduction instead of log_softmax and gather."""


@clean("llama-grpo", "llama-grpo-checkpointing")
def checkpointing(built: Built) -> None:
    """The layers of the policy are recomputed in the backward pass."""
    built.model["policy"].gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})


@clean(
    "distilbert-distil",
    "distilbert-distil-divergence-written-out",
    before=script(
        "distil",
        "soft_loss",
        (
            "    divergence = torch.nn.functional.kl_div(\n"
            "        torch.nn.functional.log_softmax(student / temperature, dim=-1),\n"
            "        torch.nn.functional.softmax(teacher / temperature, dim=-1),\n"
            '        reduction="batchmean",\n    )\n',
            "    ours = torch.log_softmax(student / temperature, dim=-1)\n"
            "    theirs = torch.log_softmax(teacher / temperature, dim=-1)\n"
            "    divergence = (theirs.exp() * (theirs - ours)).sum(-1).mean()\n",
        ),
    ),
)
def divergence_written_out(built: Built) -> None:
    """The divergence is written out with logarithms of both sides."""


@clean(
    "clip-contrastive",
    "clip-contrastive-einsum",
    before=script(
        "clip",
        "contrastive_loss",
        ("scale.exp() * images @ texts.t()", 'torch.einsum("id,td->it", images, texts) * scale.exp()'),
    ),
)
def einsum(built: Built) -> None:
    """The similarities by einsum, and the scale is applied to them instead of to the images."""
