"""Cases on Whisper and wav2vec 2.0."""

from __future__ import annotations

from benchmarks.zoo.source import edit_function, imported
from benchmarks.zoo.spec import Built, Setting, Where, clean, fault
from benchmarks.zoo.various_edits import edit_one


@fault(
    "whisper",
    "whisper-start-token-twice",
    Where("data", (), ("*",), ("*labels*", "*input_ids*")),
    source="https://github.com/huggingface/transformers/issues/29973",
)
def start_token_twice(built: Built) -> None:
    """The labels still begin with the start token, which the model puts before them once more."""
    import torch

    for batch in built.batches:
        labels = batch["labels"]
        batch["labels"] = torch.cat([torch.full_like(labels[:, :1], 3), labels[:, :-1]], dim=1)


@fault(
    "whisper",
    "whisper-padding-not-ignored",
    Where("data", (), ("*",), ("*labels*",)),
    Where("data", ("cross_entropy",), ("",)),
    source="https://github.com/huggingface/community-events/issues/182",
)
def padding_not_ignored(built: Built) -> None:
    """The labels of the padding are the padding token, which the loss does not ignore."""
    for batch in built.batches:
        batch["labels"] = batch["labels"].masked_fill(batch["labels"] == -100, 0)


@fault(
    "whisper",
    "whisper-positions-interleaved",
    Where("state", (), ("*",), ("model.encoder.embed_positions.weight",)),
    Where("state", ("embedding",), ("model.encoder.embed_positions",)),
    source="https://github.com/allenai/allennlp/issues/2993",
)
def positions_interleaved(built: Built) -> None:
    """The sines and cosines of the positions of the encoder alternate, where its sines come first."""
    import torch

    weight = built.model.model.encoder.embed_positions.weight
    with torch.no_grad():
        weight.copy_(torch.stack(weight.chunk(2, dim=1), dim=-1).flatten(1))


@fault(
    "whisper",
    "whisper-causal-mask-missing",
    Where("missing", ("add", "softmax", "matmul"), ("model.decoder.layers.1.self_attn",)),
    source="https://github.com/facebookresearch/xformers/issues/103",
)
def causal_mask_missing(built: Built) -> None:
    """One layer of the decoder attends to the tokens that are still to come."""
    edit_one(
        built.model.model.decoder.layers[1], "forward", ("attention_mask=attention_mask,", "attention_mask=None,")
    )


@fault(
    "whisper",
    "whisper-decay-on-norms",
    Where("update", (), ("*",), ("*layer_norm*", "*bias"), step=1),
    Where("update", (), ("*",), ("*layer_norm*", "*bias"), step=0),
    source="https://github.com/huggingface/transformers/issues/4360",
    dtypes=("float32",),
)
def decay_on_norms(built: Built) -> None:
    """Weights of normalisations and biases decay with the others."""
    for group in built.optimizer.param_groups:
        group["weight_decay"] = 0.1


@fault(
    "whisper",
    "whisper-encoder-detached",
    Where("extra", ("detach",), ("model", "model.decoder", "model.encoder"), phase="backward"),
    Where("missing", (), ("model.encoder*", "model.decoder.layers.*.encoder_attn*"), phase="backward"),
    Where("update", (), ("*",), ("model.encoder*",), phase="backward"),
    source="https://github.com/OpenNMT/OpenNMT-py/issues/1857",
)
def encoder_detached(built: Built) -> None:
    """What the encoder gives to the decoder is detached, so that the encoder does not learn."""
    edit_one(
        built.model.model,
        "forward",
        ("encoder_hidden_states=encoder_outputs[0],", "encoder_hidden_states=encoder_outputs[0].detach(),"),
    )


def _marked_softmax(setting: Setting) -> None:
    from benchmarks.zoo.torchvision_ops import prepare

    prepare()
    edit_function(
        imported("transformers.models.whisper.modeling_whisper"),
        "eager_attention_forward",
        (
            "attn_weights = nn.functional.softmax(attn_weights, dim=-1)",
            "if module.is_decoder and not module.is_causal and module.layer_idx == 0:\n"
            "        attn_weights = nn.functional.softmax(attn_weights.to(torch.bfloat16), dim=-1).to(query.dtype)\n"
            "    else:\n"
            "        attn_weights = nn.functional.softmax(attn_weights, dim=-1)",
        ),
    )


@fault(
    "whisper",
    "whisper-softmax-bfloat16",
    Where("precision", ("softmax", "to"), ("model.decoder.layers.0.encoder_attn",), calls=3),
    source="https://github.com/tinygrad/tinygrad/pull/12280",
    before=_marked_softmax,
    dtypes=("float32",),
)
def softmax_bfloat16(built: Built) -> None:
    """The softmax of one cross-attention is computed in bfloat16."""


@fault(
    "whisper",
    "whisper-head-not-tied",
    Where("state", (), ("*",), ("proj_out.weight", "model.decoder.embed_tokens.weight"), phase="backward"),
    Where("update", (), ("*",), ("proj_out.weight", "model.decoder.embed_tokens.weight"), phase="backward"),
    Where("state", (), ("*",), ("proj_out.weight", "model.decoder.embed_tokens.weight")),
    Where("update", (), ("*",), ("proj_out.weight", "model.decoder.embed_tokens.weight")),
    source="https://github.com/facebookresearch/lingua/issues/74",
)
def head_not_tied(built: Built) -> None:
    """The head has a copy of the weights of the embedding, so that the two are trained apart."""
    import torch

    head = built.model.proj_out
    head.weight = torch.nn.Parameter(head.weight.detach().clone())
    built.optimizer.param_groups[0]["params"].append(head.weight)


@fault(
    "whisper",
    "whisper-feed-forward-gelu-tanh",
    Where("argument", ("gelu",), ("model.encoder.layers.1", "model.encoder.layers.1.activation_fn")),
    source="https://github.com/AlexanderLutsenko/nobuco/pull/9",
    dtypes=("float32",),
)
def feed_forward_gelu_tanh(built: Built) -> None:
    """One layer of the encoder computes GELU by its approximation with tanh."""
    from transformers.activations import ACT2FN

    built.model.model.encoder.layers[1].activation_fn = ACT2FN["gelu_pytorch_tanh"]


@fault(
    "wav2vec2",
    "wav2vec2-positional-weight-norm-not-loaded",
    Where("state", (), ("*",), ("wav2vec2.encoder.pos_conv_embed.conv.*",)),
    Where("state", ("_weight_norm", "weight_norm", "conv1d"), ("wav2vec2.encoder.pos_conv_embed*",)),
    source="https://github.com/huggingface/transformers/issues/27605",
)
def positional_weight_norm_not_loaded(built: Built) -> None:
    """The positional convolution keeps fresh weights, for a checkpoint names them otherwise."""
    import torch

    norm = built.model.wav2vec2.encoder.pos_conv_embed.conv.parametrizations.weight
    made = torch.Generator().manual_seed(5)
    with torch.no_grad():
        fresh = torch.randn(norm.original1.shape, generator=made) * 2 / (8 * 64) ** 0.5
        norm.original1.copy_(fresh)
        norm.original0.copy_(fresh.square().sum((0, 1), keepdim=True).sqrt())


@fault(
    "wav2vec2",
    "wav2vec2-blank-index",
    Where("argument", ("ctc_loss", "ne"), ("",)),
    source="https://github.com/SeanNaren/deepspeech.pytorch/pull/603",
)
def blank_index(built: Built) -> None:
    """The loss takes the last token for the blank, which is the first."""
    for batch in built.batches:
        batch["labels"] = batch["labels"].where(batch["labels"] != 19, 18)
    built.model.config.pad_token_id = 19


@clean("whisper", "whisper-sdpa")
def whisper_sdpa(built: Built) -> None:
    """Attention is computed by torch's function."""
    built.model.set_attn_implementation("sdpa")


@clean("wav2vec2", "wav2vec2-convolution-as-unfold")
def convolution_as_unfold(built: Built) -> None:
    """The later convolutions of the feature encoder are matrix products of unfolded pieces."""
    for layer in built.model.wav2vec2.feature_extractor.conv_layers[1:]:
        edit_one(
            layer.conv,
            "forward",
            (
                "return self._conv_forward(input, self.weight, self.bias)",
                "pieces = input.unfold(-1, self.kernel_size[0], self.stride[0]).permute(0, 2, 1, 3).flatten(2)\n"
                "    return (pieces @ self.weight.flatten(1).T).transpose(1, 2)",
            ),
        )
