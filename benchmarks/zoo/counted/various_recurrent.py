"""Cases on recurrent networks."""

from __future__ import annotations

from benchmarks.zoo.spec import Built, Where, clean, fault
from benchmarks.zoo.various_edits import edit_step


@fault(
    "lstm-lm",
    "lstm-lm-gates-reordered",
    Where("state", (), ("*",), ("rnn.*_l1",)),
    Where("state", ("lstm",), ("rnn",)),
    source="https://github.com/CrispStrobe/CrispASR/pull/106",
)
def gates_reordered(built: Built) -> None:
    """The gates of the second layer lie in the order of another library."""
    import torch

    with torch.no_grad():
        for name, parameter in built.model.rnn.named_parameters():
            if name.endswith("_l1"):
                i, f, g, o = parameter.clone().chunk(4)
                parameter.copy_(torch.cat([i, o, f, g]))


@fault(
    "lstm-lm",
    "lstm-lm-not-tied",
    Where("state", (), ("*",), ("encoder.weight", "decoder.weight"), phase="backward"),
    Where("update", (), ("*",), ("encoder.weight", "decoder.weight"), phase="backward"),
    Where("state", (), ("*",), ("encoder.weight", "decoder.weight")),
    Where("update", (), ("*",), ("encoder.weight", "decoder.weight")),
    source="https://github.com/mosaicml/examples/pull/11",
)
def not_tied(built: Built) -> None:
    """The decoder has a copy of the weights of the encoder, so that the two are trained apart."""
    import torch

    built.model.decoder.weight = torch.nn.Parameter(built.model.decoder.weight.detach().clone())


@fault(
    "gru-tagger",
    "gru-tagger-decay-first",
    Where("update", (), ("*",), ("*",)),
    source="https://github.com/zju3dv/NeuralRecon/issues/51",
)
def decay_first(built: Built) -> None:
    """The learning rate decays before the first update."""
    edit_step(
        built,
        (
            "    built.optimizer.step()\n    built.scheduler.step()",
            "    built.scheduler.step()\n    built.optimizer.step()",
        ),
    )


@clean("gru-tagger", "gru-tagger-smoothing-written-out")
def smoothing_written_out(built: Built) -> None:
    """The loss with smoothed labels is written out."""
    edit_step(
        built,
        (
            "loss = torch.nn.functional.cross_entropy(\n"
            "        logits.flatten(0, 1), tags.flatten(), ignore_index=-100, label_smoothing=0.1\n    )",
            "chances, known = logits.log_softmax(dim=-1), tags != -100\n"
            "    wanted = chances.gather(-1, tags.clamp(min=0).unsqueeze(-1)).squeeze(-1)\n"
            "    smoothed = 0.9 * wanted + 0.1 * chances.mean(dim=-1)\n"
            "    loss = -smoothed[known].sum() / known.sum()",
        ),
    )
