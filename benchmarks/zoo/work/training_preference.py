"""Cases of preferences, distillation and contrastive training."""

from __future__ import annotations

from benchmarks.zoo.spec import Built, clean, fault
from benchmarks.zoo.training_edits import kinds, script


@fault(
    "qwen2-dpo",
    "qwen2-dpo-not-shifted",
    *kinds("argument", "call", "region", apis=("getitem",), modules=("",)),
    source="https://github.com/huggingface/trl/issues/1172",
    before=script("dpo", "answer_logps", ("logits[:, :-1]", "logits[:, 1:]")),
)
def not_shifted(built: Built) -> None:
    """The logits of a token are used for this token instead of the next one."""


@fault(
    "llama-grpo",
    "llama-grpo-mean-over-all-tokens",
    *kinds("region", "call", "missing", "argument", apis=("sum", "div", "mean"), modules=("",), calls=4),
    source="https://github.com/huggingface/trl/issues/2995",
    before=script(
        "grpo",
        "policy_loss",
        (
            "((per_token * mask).sum(dim=1) / mask.sum(dim=1)).mean()",
            "(per_token * mask).sum() / mask.sum()",
        ),
    ),
)
def mean_over_all_tokens(built: Built) -> None:
    """The loss is a mean over all tokens of the batch instead of over each completion."""


@fault(
    "llama-grpo",
    "llama-grpo-advantages-over-batch",
    *kinds(
        "region",
        "argument",
        "missing",
        "call",
        apis=("mean", "std", "repeat_interleave", "view", "sub", "add", "div"),
        modules=("",),
        calls=7,
    ),
    source="https://github.com/XU-YIJIE/grpo-flat/issues/2",
    before=script(
        "grpo",
        "make_advantages",
        ("grouped.mean(dim=1).repeat_interleave(GROUP)", "rewards.mean()"),
        ("grouped.std(dim=1).repeat_interleave(GROUP)", "rewards.std()"),
    ),
)
def advantages_over_batch(built: Built) -> None:
    """The rewards are normalised over the batch instead of over each prompt's group."""


@fault(
    "llama-grpo",
    "llama-grpo-ratio-detached",
    *kinds("extra", "call", "region", apis=("detach", "sub", "exp", "no_grad"), modules=("",), phase="backward"),
    source="https://github.com/thu-ml/tianshou/issues/742",
    before=script("grpo", "policy_loss", ("torch.exp(logps - old)", "torch.exp(logps.detach() - old)")),
)
def ratio_detached(built: Built) -> None:
    """The ratio of the probabilities carries no gradient, so that only the divergence is trained."""


@fault(
    "llama-grpo",
    "llama-grpo-divergence-reversed",
    *kinds("argument", "call", "region", apis=("sub", "exp"), modules=("",), step=1),
    source="https://github.com/qiancheng0/ToolRL/issues/52",
    before=script("grpo", "policy_loss", ("apart = reference - logps", "apart = logps - reference")),
)
def divergence_reversed(built: Built) -> None:
    """The difference to the reference has the wrong sign in the estimate of the divergence."""


@fault(
    "llama-grpo",
    "llama-grpo-maximum-for-minimum",
    *kinds("call", "region", apis=("min", "max", "minimum", "maximum"), modules=("",)),
    source="https://github.com/openai/spinningup/pull/315",
    before=script("grpo", "policy_loss", ("torch.min(", "torch.max(")),
)
def maximum_for_minimum(built: Built) -> None:
    """The larger instead of the smaller of the clipped and the unclipped gain is taken."""


@fault(
    "llama-grpo",
    "llama-grpo-rotary-frequencies-in-bfloat16",
    *kinds("state", names=("*inv_freq",)),
    *kinds("precision", "call", apis=("matmul", "cos", "sin", "expand", "float", "to"), modules=("*rotary_emb",)),
    source="https://github.com/huggingface/transformers/issues/25681",
    dtypes=("float32",),
)
def rotary_frequencies_in_bfloat16(built: Built) -> None:
    """The frequencies of the rotary embedding of the policy went through bfloat16."""
    import torch

    rotary = built.model["policy"].model.rotary_emb
    rotary.inv_freq = rotary.inv_freq.to(torch.bfloat16).to(rotary.inv_freq.dtype)


@fault(
    "distilbert-distil",
    "distilbert-distil-temperature-not-squared",
    *kinds("missing", "call", "region", apis=("mul",), modules=("",)),
    source="https://arxiv.org/abs/1503.02531 (section 2: multiply by the square of the temperature)",
    before=script("distil", "soft_loss", ("return divergence * temperature**2", "return divergence")),
)
def temperature_not_squared(built: Built) -> None:
    """The divergence is not multiplied by the square of the temperature."""


@fault(
    "distilbert-distil",
    "distilbert-distil-mean-over-vocabulary",
    *kinds("argument", "call", apis=("kl_div",), modules=("",)),
    source="https://github.com/haitongli/knowledge-distillation-pytorch/issues/48",
    before=script("distil", "soft_loss", ('reduction="batchmean"', 'reduction="mean"')),
)
def mean_over_vocabulary(built: Built) -> None:
    """The divergence is also averaged over the vocabulary."""


@fault(
    "distilbert-distil",
    "distilbert-distil-teacher-in-training-mode",
    *kinds("argument", "randomness", "extra", "call", apis=("dropout",), modules=("teacher.bert.*",)),
    source="https://github.com/yxuansu/TaCL/issues/11",
)
def teacher_in_training_mode(built: Built) -> None:
    """The teacher is in training mode, so that its dropout is on."""
    built.model["teacher"].train()


@fault(
    "distilbert-distil",
    "distilbert-distil-head-norm-not-loaded",
    *kinds("state", names=("student.vocab_layer_norm.*",)),
    source="https://github.com/pytorch/examples/issues/1029",
    before=script("distil", "initialise", ('f"vocab_layer_norm.{kind}"', 'f"vocab_layernorm.{kind}"')),
)
def head_norm_not_loaded(built: Built) -> None:
    """The norm of the student's head has another name in the checkpoint and is not loaded."""


@fault(
    "clip-contrastive",
    "clip-contrastive-texts-not-normalised",
    *kinds("missing", "call", "region", apis=("normalize", "norm", "vector_norm", "div", "t"), modules=("",), calls=4),
    source="https://github.com/google-research/big_vision/issues/115",
    before=script("clip", "contrastive_loss", ("    texts = torch.nn.functional.normalize(texts, dim=-1)\n", "")),
)
def texts_not_normalised(built: Built) -> None:
    """The features of the texts are not normalised before they are compared."""


@clean(
    "qwen2-dpo",
    "qwen2-dpo-two-forwards",
    before=script(
        "dpo",
        "step",
        (
            "policy_logps = answer_logps(policy, batch)",
            "halves = [{key: value.chunk(2)[side] for key, value in batch.items()} for side in (0, 1)]\n"
            "    policy_logps = torch.cat([answer_logps(policy, half) for half in halves])",
        ),
    ),
)
def two_forwards(built: Built) -> None:
    """Chosen and rejected answers go through the policy one after another instead of in one batch."""


@clean(
    "qwen2-dpo",
    "qwen2-dpo-policy-before-reference",
    before=script(
        "dpo",
        "step",
        (
            "    with torch.no_grad():\n        reference_logps = answer_logps(reference, batch)\n"
            "    policy_logps = answer_logps(policy, batch)\n",
            "    policy_logps = answer_logps(policy, batch)\n"
            "    with torch.no_grad():\n        reference_logps = answer_logps(reference, batch)\n",
        ),
    ),
)
def policy_before_reference(built: Built) -> None:
    """The policy runs before the reference model instead of after it."""


@clean(
    "llama-grpo",
    "llama-grpo-logsumexp",
    before=script(
        "grpo",
        "token_logps",
        (
            "logits.log_softmax(-1).gather(-1, chosen).squeeze(-1)",
            "logits.gather(-1, chosen).squeeze(-1) - torch.logsumexp(logits, dim=-1)",
        ),
    ),
)
def logsumexp(built: Built) -> None:
    """The logarithms of the probabilities as the chosen logit less logsumexp."""


@clean(
    "distilbert-distil",
    "distilbert-distil-masked-sums",
    before=script(
        "distil",
        "cosine_loss",
        (
            "    student, teacher = student[mask], teacher[mask]\n"
            "    return torch.nn.functional.cosine_embedding_loss(student, teacher, torch.ones(len(student)), "
            'reduction="mean")\n',
            "    apart = 1 - torch.nn.functional.cosine_similarity(student, teacher, dim=-1)\n"
            "    return (apart * mask).sum() / mask.sum()\n",
        ),
    ),
)
def masked_sums(built: Built) -> None:
    """The loss on the angles is summed under a mask instead of over picked tokens."""


@clean("clip-contrastive", "clip-contrastive-adam-of-torch")
def adam_of_torch(built: Built) -> None:
    """AdamW of torch instead of the one written by hand."""
    import torch

    groups = [{"params": group["params"], "weight_decay": group["decay"]} for group in built.optimizer.param_groups]
    built.optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.98), eps=1e-6)
