"""Faults of encoders: BERT, RoBERTa, DeBERTa, ELECTRA and ModernBERT."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.encoders_edits import at, edit_function, edit_static, modeling, of_type
from benchmarks.zoo.programs.encoders_bert import decayed_groups, layerwise_groups
from benchmarks.zoo.spec import Built, Setting, Where, fault

TIED = ("cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight")


@fault(
    "bert",
    "bert-decoder-untied",
    Where("state", names=TIED, phase="backward"),
    Where("missing", (), ("cls*", "bert.embeddings*", ""), phase="backward"),
    Where("region", (), ("cls*", "bert.embeddings*", ""), phase="backward", calls=2),
    Where("update", names=TIED),
    source="https://github.com/huggingface/transformers/pull/18855",
)
def bert_decoder_untied(built: Built) -> None:
    """The decoder's weight is no longer that of the word embeddings but a copy, trained for itself."""
    import torch

    decoder = at(built, "cls.predictions.decoder")
    decoder.weight = torch.nn.Parameter(decoder.weight.detach().clone())
    built.optimizer = torch.optim.AdamW(decayed_groups(built.model, 0.05), lr=2e-3, eps=1e-6)
    built.scheduler = torch.optim.lr_scheduler.LambdaLR(built.optimizer, built.scheduler.lr_lambdas[0])


@fault(
    "bert",
    "bert-gelu-tanh",
    Where(
        "region",
        ("gelu", "mul", "add", "pow", "tanh"),
        ("bert.encoder.layer.*.intermediate*", "cls.predictions.transform*"),
        calls=9,
    ),
    source="https://github.com/CyberZHG/keras-bert/issues/129",
    dtypes=("float32",),
)
def bert_gelu_tanh(built: Built) -> None:
    """The activation is the approximation of gelu by tanh, written out, instead of the exact one."""
    from transformers.activations import ACT2FN

    for part in of_type(built, "BertIntermediate"):
        part.intermediate_act_fn = ACT2FN["gelu_new"]
    at(built, "cls.predictions.transform").transform_act_fn = ACT2FN["gelu_new"]


@fault(
    "bert",
    "bert-positions-from-one",
    Where(
        "argument",
        ("getitem", "embedding"),
        ("bert.embeddings", "bert.embeddings.position_embeddings"),
    ),
    source="https://github.com/huggingface/transformers/issues/11242",
)
def bert_positions_from_one(built: Built) -> None:
    """The positions start at one instead of zero."""
    edit_function(
        modeling("bert").BertEmbeddings,
        "forward",
        (
            "past_key_values_length : seq_length + past_key_values_length",
            "past_key_values_length + 1 : seq_length + past_key_values_length + 1",
        ),
    )


def schedule_first(built: Built, index: int) -> dict[str, Any]:
    import torch

    result = built.model(**built.batches[index])
    result.loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(built.model.parameters(), built.options["max_norm"])
    built.scheduler.step()
    built.optimizer.step()
    built.optimizer.zero_grad()
    return {"loss": result.loss, "logits": result.logits, "gradient norm": norm}


@fault(
    "bert",
    "bert-scheduler-first",
    Where("update", names=("*",)),
    source="https://github.com/ildoonet/pytorch-gradual-warmup-lr/issues/8",
)
def bert_scheduler_first(built: Built) -> None:
    """The schedule takes its step before the optimizer does, so that the first rate is skipped."""
    built.step = schedule_first


@fault(
    "bert",
    "bert-token-types-zero",
    Where("data", names=("token_type_ids",)),
    source="https://github.com/huggingface/transformers/issues/263",
)
def bert_token_types_zero(built: Built) -> None:
    """The second sentence of a pair has the token type of the first."""
    for batch in built.batches:
        batch["token_type_ids"] = batch["token_type_ids"] * 0


@fault(
    "roberta",
    "roberta-classifier-not-loaded",
    Where("state", names=("classifier.*",)),
    source="https://github.com/huggingface/transformers/issues/29321",
)
def roberta_classifier_not_loaded(built: Built) -> None:
    """The head's weights are called otherwise in the checkpoint and stay as they were initialised."""
    for layer in (at(built, "classifier.dense"), at(built, "classifier.out_proj")):
        layer.reset_parameters()


@fault(
    "roberta-eval",
    "roberta-eval-in-train-mode",
    Where("randomness", ("dropout",), ("*",)),
    Where("argument", ("dropout",), ("embeddings*", "encoder.layer.*")),
    Where("extra", ("dropout",), ("embeddings*", "encoder.layer.*")),
    source="https://github.com/oliverguhr/german-sentiment/issues/5",
)
def roberta_eval_in_train_mode(built: Built) -> None:
    """The model is still in training mode when it is only run, so that its dropout is on."""
    built.model.train()


@fault(
    "deberta",
    "deberta-p2c-not-negated",
    Where("missing", ("neg",), ("deberta.encoder.layer.*.attention.self",)),
    Where("region", ("neg", "add", "clamp"), ("deberta.encoder.layer.*.attention.self",), calls=3),
    source="https://github.com/microsoft/DeBERTa/issues/47",
)
def deberta_p2c_not_negated(built: Built) -> None:
    """The scores of positions against content are gathered at the relative position instead of its negative."""
    edit_function(
        modeling("deberta_v2").DisentangledSelfAttention,
        "disentangled_attention_bias",
        ("torch.clamp(-r_pos + att_span,", "torch.clamp(r_pos + att_span,"),
    )


@fault(
    "electra",
    "electra-adam-eps",
    Where("update", names=("*",)),
    source="https://github.com/dmlc/gluon-nlp/pull/601",
    dtypes=("float32",),
)
def electra_adam_eps(built: Built) -> None:
    """The epsilon of Adam is torch's 1e-8 instead of 1e-6."""
    for group in built.optimizer.param_groups:
        group["eps"] = 1e-8


def clip_each_batch(built: Built, index: int) -> dict[str, Any]:
    import torch

    parts = built.options["accumulation"]
    given: dict[str, Any] = {}
    for part in range(parts):
        result = built.model(**built.batches[index * parts + part])
        loss = result.loss / parts
        loss.backward()
        given["gradient norm"] = torch.nn.utils.clip_grad_norm_(built.model.parameters(), 0.5)
        given[f"loss {part}"] = result.loss
        given[f"logits {part}"] = result.logits
    built.optimizer.step()
    built.optimizer.zero_grad()
    return given


@fault(
    "electra",
    "electra-clip-each-batch",
    Where("extra", (), ("",), calls=12),
    Where("region", (), ("",), calls=12),
    Where("extra", (), ("",), phase="backward", calls=12),
    Where("update", names=("*",)),
    source="https://github.com/huggingface/transformers/issues/1563",
)
def electra_clip_each_batch(built: Built) -> None:
    """The gradients are clipped after each batch instead of once when all batches of the step are in."""
    built.step = clip_each_batch


@fault(
    "electra",
    "electra-layer-decay-off-by-one",
    Where("update", names=("electra.*",)),
    source="https://github.com/google-research/electra/issues/51",
)
def electra_layer_decay_off_by_one(built: Built) -> None:
    """The head counts as two layers above the last one, so that all layers below it learn too slowly."""
    import torch

    built.optimizer = torch.optim.Adam(layerwise_groups(built.model, 1e-3, 0.7, last=5), eps=1e-6)


@fault(
    "electra",
    "electra-loss-over-padding",
    Where("missing", ("view", "eq", "getitem"), ("",), calls=5),
    Where("region", ("view", "eq", "getitem", "binary_cross_entropy_with_logits", "float"), ("",), calls=6),
    source="https://github.com/huggingface/transformers/pull/251",
)
def electra_loss_over_padding(built: Built) -> None:
    """The loss is the mean over all positions, padding included."""
    edit_function(
        modeling("electra").ElectraForPreTraining, "forward", ("if attention_mask is not None:", "if False:")
    )


@fault(
    "modernbert",
    "modernbert-gelu-tanh",
    Where("argument", ("gelu",), ("model.layers.*.mlp*", "head*")),
    source="https://github.com/Blaizzy/mlx-embeddings/issues/81",
    dtypes=("float32",),
)
def modernbert_gelu_tanh(built: Built) -> None:
    """The gelu of the layers is the approximation by tanh instead of the exact one."""
    from transformers.activations import ACT2FN

    for part in of_type(built, "ModernBertMLP"):
        part.act = ACT2FN["gelu_pytorch_tanh"]


@fault(
    "modernbert",
    "modernbert-glu-halves-swapped",
    Where("argument", ("gelu", "mul", "chunk"), ("model.layers.*.mlp*",)),
    Where("region", ("gelu", "mul", "chunk"), ("model.layers.*.mlp*",), calls=3),
    source="https://github.com/ollama/ollama/pull/13691",
)
def modernbert_glu_halves_swapped(built: Built) -> None:
    """The activation is put on the second half of the gated unit instead of the first."""
    edit_function(
        modeling("modernbert").ModernBertMLP,
        "forward",
        ("input, gate = self.Wi", "gate, input = self.Wi"),
    )


def one_theta(setting: Setting) -> None:
    edit_static(
        modeling("modernbert").ModernBertRotaryEmbedding,
        "compute_default_rope_parameters",
        ('config.rope_parameters[layer_type]["rope_theta"]', 'config.rope_parameters["full_attention"]["rope_theta"]'),
    )


@fault(
    "modernbert",
    "modernbert-local-theta",
    Where("state", names=("model.rotary_emb.sliding_attention_*inv_freq",)),
    Where("argument", ("mul", "to"), ("model.rotary_emb",)),
    source="https://github.com/NVIDIA/TensorRT-Model-Connect/pull/692",
    before=one_theta,
)
def modernbert_local_theta(built: Built) -> None:
    """The local layers rotate with the base of the global ones."""
