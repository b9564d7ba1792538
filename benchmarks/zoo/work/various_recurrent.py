"""Cases on recurrent networks."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.source import edit_function, imported
from benchmarks.zoo.spec import Built, Setting, Where, clean, fault
from benchmarks.zoo.various_edits import edit_one, edit_step


@fault(
    "lstm-lm",
    "lstm-lm-state-reset",
    Where("data", (), ("*",), ("*hidden*", "*hx*", "*state*"), step=1),
    Where("data", ("detach", "lstm"), ("", "rnn"), step=1),
    source="https://github.com/nyu-mll/jiant/pull/345",
)
def state_reset(built: Built) -> None:
    """Every piece of the text begins with an empty state, though it continues the one before."""
    edit_step(built, ('    built.options["hidden"] = hidden\n', ""))


@fault(
    "lstm-lm",
    "lstm-lm-clip-each-parameter",
    Where("update", (), ("*",), ("*",)),
    Where("update", (), ("*",), ("*",), phase="backward"),
    Where("region", ("clip_grad_norm", "mul", "norm", "stack", "clamp", "add", "div"), ("",), phase="backward"),
    Where("region", ("clip_grad_norm", "mul", "norm", "stack", "clamp", "add", "div"), ("",)),
    source="https://github.com/carpedm20/MemN2N-tensorflow/issues/19",
)
def clip_each_parameter(built: Built) -> None:
    """Gradients are clipped one parameter at a time, not by the norm of all of them."""
    edit_step(
        built,
        (
            'torch.nn.utils.clip_grad_norm_(built.model.parameters(), built.options["max_norm"])',
            "for parameter in built.model.parameters():\n"
            '        torch.nn.utils.clip_grad_norm_(parameter, built.options["max_norm"])',
        ),
    )


@fault(
    "gru-tagger",
    "gru-tagger-not-packed",
    Where(
        "region",
        ("gru", "pack_padded_sequence", "_pack_padded_sequence", "pad_packed_sequence", "index_select", "sort", "to"),
        ("", "gru"),
        calls=12,
    ),
    Where("missing", ("pack_padded_sequence", "_pack_padded_sequence", "sort", "index_select"), ("",), calls=6),
    source="https://github.com/speechbrain/speechbrain/issues/501",
)
def not_packed(built: Built) -> None:
    """Sentences are not packed, so that the backward direction begins with the padding."""
    edit_one(
        built.model,
        "forward",
        ("states, _ = self.gru(packed)", "states, _ = self.gru(self.embedding(words))"),
        (
            "packed = nn.utils.rnn.pack_padded_sequence(\n"
            "        self.embedding(words), lengths, batch_first=True, enforce_sorted=False\n    )",
            "",
        ),
        (
            "states, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True, total_length=words.shape[1])",
            "",
        ),
    )


def _inside_root(setting: Setting) -> None:
    edit_function(
        imported("torch.optim.rmsprop"),
        "_single_tensor_rmsprop",
        ("avg = square_avg.sqrt()", "avg = square_avg.add(eps).sqrt()"),
        ("avg = avg.add_(eps)", "pass"),
    )


@fault(
    "gru-tagger",
    "gru-tagger-epsilon-inside-root",
    Where("update", (), ("*",), ("*",)),
    source="https://github.com/pytorch/pytorch/issues/23796",
    before=_inside_root,
)
def epsilon_inside_root(built: Built) -> None:
    """The optimizer adds its small number before the root is taken, as another library does."""


@fault(
    "gru-tagger",
    "gru-tagger-padding-in-loss",
    Where("data", (), ("*",), ("*tags*", "*target*", "*labels*")),
    Where("data", ("cross_entropy", "flatten"), ("",)),
    source="https://github.com/MaximumEntropy/Seq2Seq-PyTorch/issues/11",
)
def padding_in_loss(built: Built) -> None:
    """The padding has the first tag, and so counts in the loss."""
    built.batches = [(words, lengths, tags.clamp(min=0)) for words, lengths, tags in built.batches]


@fault(
    "gru-tagger",
    "gru-tagger-smoothing-missing",
    Where("argument", ("cross_entropy",), ("",)),
    source="https://github.com/omihub777/ViT-CIFAR/issues/2",
)
def smoothing_missing(built: Built) -> None:
    """The labels are not smoothed."""
    edit_step(built, (", label_smoothing=0.1", ""))


def _cells(rnn: Any, inputs: Any, hidden: Any) -> Any:
    """What an LSTM of two layers computes, one cell at a time."""
    import torch

    firsts, seconds = [], []
    for layer in range(2):
        h, c = hidden[0][layer], hidden[1][layer]
        outputs = []
        for at in inputs.unbind(0):
            gates = at @ getattr(rnn, f"weight_ih_l{layer}").T + getattr(rnn, f"bias_ih_l{layer}")
            gates = gates + h @ getattr(rnn, f"weight_hh_l{layer}").T + getattr(rnn, f"bias_hh_l{layer}")
            i, f, g, o = gates.chunk(4, dim=-1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            outputs.append(h)
        inputs = torch.stack(outputs)
        firsts.append(h)
        seconds.append(c)
    return inputs, (torch.stack(firsts), torch.stack(seconds))


@clean("lstm-lm", "lstm-lm-cells-written-out")
def cells_written_out(built: Built) -> None:
    """The cells of the network are written out."""
    rnn = built.model.rnn
    rnn.forward = lambda inputs, hidden: _cells(rnn, inputs, hidden)


@clean("lstm-lm", "lstm-lm-cross-entropy")
def cross_entropy(built: Built) -> None:
    """The loss is the cross-entropy of what the model gives, which are logarithms of chances already."""
    edit_step(built, ("functional.nll_loss(output, targets)", "functional.cross_entropy(output, targets)"))
