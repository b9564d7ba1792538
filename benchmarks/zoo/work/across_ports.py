"""Honest ports between torch and Paddle."""

from __future__ import annotations

from benchmarks.zoo.across_edits import (
    DTYPES,
    back,
    pair,
)
from benchmarks.zoo.programs.across_port import written
from benchmarks.zoo.spec import Built, Change, clean


@clean(pair("squeezenet"), "across-squeezenet-ported", dtypes=DTYPES)
def squeezenet_ported(built: Built) -> None:
    """The same SqueezeNet, with what Paddle's library does otherwise set to what torchvision does."""


@clean(pair("encoder"), "across-encoder-ported", dtypes=DTYPES)
def encoder_ported(built: Built) -> None:
    """The same encoder in both frameworks: packed and split projections, masks of the opposite meaning."""


@clean(back("encoder"), "across-encoder-parameter-by-parameter", dtypes=DTYPES)
def encoder_parameter_by_parameter(built: Built) -> None:
    """A port to torch, whose optimizer goes from parameter to parameter."""
    for group in built.optimizer.param_groups:
        group["foreach"] = False


@clean(pair("seq2seq"), "across-seq2seq-ported", dtypes=DTYPES)
def seq2seq_ported(built: Built) -> None:
    """The same Transformer in both frameworks, its smoothed loss written out in Paddle."""


@clean(back("seq2seq"), "across-seq2seq-two-threads", threads=2, dtypes=DTYPES)
def seq2seq_two_threads(built: Built) -> None:
    """A port to torch, that computes with two threads."""


@clean(
    pair("gru"),
    "across-gru-cells",
    before=written(
        "across_gru",
        "paddle_model",
        (
            "            _, last = self.gru(x, sequence_length=lengths)\n"
            "            return self.head(self.norm(last[-1]))\n",
            "            inside = (paddle.arange(x.shape[1]) < lengths.unsqueeze(1)).astype(x.dtype)\n"
            "            for layer in self.gru:\n"
            "                state, states = paddle.zeros([x.shape[0], 32], dtype=x.dtype), []\n"
            "                for place in range(x.shape[1]):\n"
            "                    after, _ = layer.cell(x[:, place], state)\n"
            "                    share = inside[:, place].unsqueeze(1)\n"
            "                    state = share * after + (1 - share) * state\n"
            "                    states.append(state)\n"
            "                x = paddle.stack(states, axis=1)\n"
            "            return self.head(self.norm(state))\n",
        ),
        ("    from paddle import nn\n", "    import paddle\n    from paddle import nn\n"),
    ),
    dtypes=DTYPES,
)
def gru_cells(built: Built) -> None:
    """The port steps from word to word with the cells of the GRU, and holds the state where a sentence has ended."""


@clean(
    pair("bert"),
    "across-bert-sdpa",
    reference_change=Change(before=written("across_bert", "torch_config", ('"eager"', '"sdpa"'))),
    dtypes=DTYPES,
)
def bert_sdpa(built: Built) -> None:
    """The attention of the original is torch's fused one, that of the port is written out."""


@clean(
    pair("unet"),
    "across-unet-classes-last",
    before=written(
        "across_unet",
        "paddle_step",
        (
            "F.cross_entropy(logits, labels, ignore_index=UNKNOWN, axis=1)",
            "F.cross_entropy(logits.transpose([0, 2, 3, 1]), labels, ignore_index=UNKNOWN)",
        ),
    ),
    dtypes=DTYPES,
)
def unet_classes_last(built: Built) -> None:
    """The main loss of the port is computed with the classes last."""
