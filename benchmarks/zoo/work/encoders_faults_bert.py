"""Faults of encoders: BERT, RoBERTa, DeBERTa, ELECTRA and ModernBERT."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.encoders_edits import (
    adam_without_correction,
    at,
    edit_function,
    edit_one,
    edit_static,
    modeling,
    of_type,
    without,
)
from benchmarks.zoo.programs.encoders_bert import decayed_groups
from benchmarks.zoo.spec import Built, Where, fault

SELF = ("bert.encoder.layer.*.attention.self", "bert.encoder.layer.*.attention")
NORMS = ("bert.embeddings*", "bert.encoder.layer.*output*", "cls*")


@fault(
    "bert",
    "bert-layernorm-eps",
    Where("argument", ("layer_norm",), NORMS),
    source="https://github.com/keras-team/keras-hub/issues/642",
    dtypes=("float32",),
)
def bert_layernorm_eps(built: Built) -> None:
    """All layer norms use the default epsilon of 1e-5 instead of the 1e-12 of the config."""
    for norm in of_type(built, "LayerNorm"):
        norm.eps = 1e-5


@fault(
    "bert",
    "bert-mask-not-passed",
    Where("missing", ("add",), SELF),
    Where("region", ("add", "softmax"), SELF, calls=2),
    Where("missing", (), ("bert",)),
    Where("data", names=("attention_mask",)),
    source="https://github.com/huggingface/transformers/issues/278",
)
def bert_mask_not_passed(built: Built) -> None:
    """The attention mask is not handed to the model, so that padding is attended to."""
    built.batches[:] = without(built.batches, "attention_mask")


@fault(
    "bert",
    "bert-labels-include-padding",
    Where("data", names=("labels",)),
    source="https://github.com/huggingface/transformers/issues/11155",
)
def bert_labels_include_padding(built: Built) -> None:
    """The labels of the padding are the padding token instead of -100, so that it is predicted too."""
    for batch in built.batches:
        batch["labels"] = batch["labels"].masked_fill(batch["attention_mask"] == 0, 0)


@fault(
    "bert",
    "bert-decay-on-norms",
    Where("update", names=("*LayerNorm.weight",)),
    source="https://github.com/huggingface/transformers/issues/16908",
    dtypes=("float32",),
)
def bert_decay_on_norms(built: Built) -> None:
    """The list of parameters without decay names layer_norm, while those of this model are called LayerNorm."""
    import torch

    groups = decayed_groups(built.model, 0.05, ("bias", "layer_norm.weight"))
    built.optimizer = torch.optim.AdamW(groups, lr=2e-3, eps=1e-6)
    built.scheduler = torch.optim.lr_scheduler.LambdaLR(built.optimizer, built.scheduler.lr_lambdas[0])


def clip_after_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    result = built.model(**built.batches[index])
    result.loss.backward()
    built.optimizer.step()
    norm = torch.nn.utils.clip_grad_norm_(built.model.parameters(), built.options["max_norm"])
    built.scheduler.step()
    built.optimizer.zero_grad()
    return {"loss": result.loss, "logits": result.logits, "gradient norm": norm}


@fault(
    "bert",
    "bert-clip-after-step",
    Where("update", names=("*",)),
    Where("update", names=("*",), step=1),
    Where("missing", (), ("",)),
    Where("region", (), ("",), calls=8),
    Where("missing", (), ("",), phase="backward"),
    source="https://github.com/awslabs/graphstorm/issues/1366",
)
def bert_clip_after_step(built: Built) -> None:
    """The gradients are clipped only after the optimizer has used them."""
    built.step = clip_after_step


@fault(
    "roberta",
    "roberta-positions-from-zero",
    Where(
        "region",
        ("ne", "int", "cumsum", "type_as", "mul", "add", "long", "arange", "expand", "embedding"),
        ("roberta.embeddings", "roberta.embeddings.position_embeddings"),
        calls=8,
    ),
    Where("missing", ("ne", "int", "cumsum", "type_as", "mul", "add", "long"), ("roberta.embeddings",), calls=8),
    source="https://github.com/facebookresearch/fairseq/issues/1187",
)
def roberta_positions_from_zero(built: Built) -> None:
    """Positions count from zero through the padding instead of from behind the padding index."""
    edit_static(
        modeling("roberta").RobertaEmbeddings,
        "create_position_ids_from_input_ids",
        ("    mask = input_ids.ne(padding_idx).int()\n", ""),
        (
            "    incremental_indices = (torch.cumsum(mask, dim=1).type_as(mask) + past_key_values_length) * mask\n",
            "",
        ),
        (
            "return incremental_indices.long() + padding_idx",
            "return torch.arange(input_ids.size(1), device=input_ids.device).expand(input_ids.shape)",
        ),
    )


@fault(
    "roberta",
    "roberta-regression-broadcast",
    Where("missing", ("squeeze",), ("",), calls=2),
    Where("argument", ("mse_loss",), ("",)),
    Where("region", ("squeeze", "mse_loss"), ("",), calls=3),
    source="https://github.com/MAGICS-LAB/DNABERT_2/issues/119",
)
def roberta_regression_broadcast(built: Built) -> None:
    """The predictions keep their last dimension, so that the loss compares each with the labels of all sentences."""
    edit_function(
        modeling("roberta").RobertaForSequenceClassification,
        "forward",
        ("loss = loss_fct(logits.squeeze(), labels.squeeze())", "loss = loss_fct(logits, labels)"),
    )


@fault(
    "roberta",
    "roberta-query-transposed",
    Where("state", names=("roberta.encoder.layer.1.attention.self.query.weight",)),
    source="https://github.com/huggingface/transformers/pull/3257",
)
def roberta_query_transposed(built: Built) -> None:
    """The query weight of the second layer was converted from a checkpoint without transposing it."""
    import torch

    with torch.no_grad():
        weight = at(built, "roberta.encoder.layer.1.attention.self.query").weight
        weight.copy_(weight.T.clone())


def mean_over_all(built: Built, index: int) -> dict[str, Any]:
    import torch

    batch = built.batches[index]
    with torch.no_grad():
        mean = built.model(**batch).last_hidden_state.mean(1)
        sentence = torch.nn.functional.normalize(mean, dim=-1)
    return {"embeddings": sentence, "similarities": sentence @ sentence.T}


@fault(
    "roberta-eval",
    "roberta-eval-mean-over-padding",
    Where("region", ("mean", "sum", "mul", "div", "truediv", "unsqueeze", "to"), ("",), calls=6),
    source="https://github.com/huggingface/transformers/issues/17463",
)
def roberta_eval_mean_over_padding(built: Built) -> None:
    """The sentence embedding is the mean over all positions, padding included."""
    built.step = mean_over_all


@fault(
    "roberta-eval",
    "roberta-eval-one-weight-corrupted",
    Where("state", names=("encoder.layer.0.intermediate.dense.weight",)),
    source="https://arxiv.org/abs/2102.11245",
)
def roberta_eval_one_weight_corrupted(built: Built) -> None:
    """One bit of the exponent of one weight flipped, which made it sixteen times as large."""
    import torch

    with torch.no_grad():
        weight = at(built, "encoder.layer.0.intermediate.dense").weight
        weight[17, 5] *= 16


@fault(
    "deberta",
    "deberta-scale-without-factor",
    Where("missing", ("mul",), ("deberta.encoder.layer.*.attention.self",)),
    Where("region", ("mul", "sqrt", "tensor"), ("deberta.encoder.layer.*.attention.self",), calls=2),
    source="https://github.com/keras-team/keras-hub/pull/435",
)
def deberta_scale_without_factor(built: Built) -> None:
    """Scores are divided by the root of the head's width alone, without the factor for the three kinds of score."""
    edit_function(
        modeling("deberta_v2"),
        "scaled_size_sqrt",
        (
            "torch.sqrt(torch.tensor(query_layer.size(-1), dtype=torch.float) * scale_factor)",
            "torch.sqrt(torch.tensor(query_layer.size(-1), dtype=torch.float))",
        ),
    )


@fault(
    "deberta",
    "deberta-relative-norm-missing",
    Where("missing", ("layer_norm",), ("deberta.encoder", "deberta.encoder.LayerNorm")),
    source="https://github.com/huggingface/transformers/pull/10018",
)
def deberta_relative_norm_missing(built: Built) -> None:
    """The embeddings of the relative positions are used without their layer norm."""
    at(built, "deberta.encoder").norm_rel_ebd = ["none"]


@fault(
    "electra",
    "electra-accumulation-not-divided",
    Where("missing", ("div", "truediv"), ("",)),
    Where("missing", ("div", "truediv"), ("",), phase="backward"),
    source="https://github.com/karpathy/nanoGPT/issues/206",
)
def electra_accumulation_not_divided(built: Built) -> None:
    """The losses of the batches of one step are not divided by their number."""
    from benchmarks.zoo.programs import encoders_bert

    edit_function(encoders_bert, "electra_step", ("loss = result.loss / parts", "loss = result.loss"))
    built.step = encoders_bert.electra_step


@fault(
    "modernbert",
    "modernbert-window-off-by-one",
    Where("argument", (), ("model",)),
    Where("region", (), ("model",), calls=3),
    source="https://github.com/huggingface/transformers/issues/39408",
)
def modernbert_window_off_by_one(built: Built) -> None:
    """The local layers see one token further to both sides than they were trained to."""
    built.model.config.sliding_window += 1


@fault(
    "modernbert",
    "modernbert-softmax-bf16",
    Where("precision", ("softmax", "to", "bfloat16"), ("model.layers.1.attn",)),
    source="https://github.com/huggingface/transformers/pull/17437",
    dtypes=("float32",),
)
def modernbert_softmax_bf16(built: Built) -> None:
    """The softmax of one layer is computed in bfloat16."""
    space = modeling("modernbert")
    plain = space.eager_attention_forward
    edit_function(
        space,
        "eager_attention_forward",
        (
            "nn.functional.softmax(attn_weights, dim=-1, dtype=torch.float32).to(query.dtype)",
            "nn.functional.softmax(attn_weights, dim=-1, dtype=torch.bfloat16).to(query.dtype)",
        ),
    )
    space.low_attention_forward, space.eager_attention_forward = space.eager_attention_forward, plain
    edit_one(at(built, "model.layers.1.attn"), "forward", ("eager_attention_forward", "low_attention_forward"))


@fault(
    "bert",
    "bert-bias-correction",
    Where("update", names=("*",)),
    source="https://github.com/dmlc/gluon-nlp/pull/499",
)
def bert_bias_correction(built: Built) -> None:
    """The optimizer does not correct the averages of AdamW for their start at zero."""
    import torch

    built.optimizer = adam_without_correction(decayed_groups(built.model, 0.05), 2e-3, 1e-6)
    built.scheduler = torch.optim.lr_scheduler.LambdaLR(built.optimizer, built.scheduler.lr_lambdas[0])


@fault(
    "deberta",
    "deberta-buckets-swapped",
    Where("argument", (), ("deberta.encoder",)),
    Where("region", (), ("deberta.encoder",), calls=8),
    source="https://github.com/huggingface/transformers/pull/15732",
)
def deberta_buckets_swapped(built: Built) -> None:
    """The number of buckets and the largest position change places where the relative positions are built."""
    edit_function(
        modeling("deberta_v2").DebertaV2Encoder,
        "get_rel_pos",
        ("bucket_size=self.position_buckets", "bucket_size=self.max_relative_positions"),
        ("max_position=self.max_relative_positions", "max_position=self.position_buckets"),
        count=2,
    )
