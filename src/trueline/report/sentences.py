"""Sentences that the diagnosis writes in English, as phrases, so that a page can say them in Chinese.

A sentence that is not known here stays the text that it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from trueline.report.phrases import Phrase, Phrases

_POSITIONAL = re.compile(r"(?:^|(?<=; ))args\.(\d+)(?=[:.])")
_NAMED = re.compile(r"(?:^|(?<=; ))kwargs\.(?=\S+: )")
_MORE = re.compile(r"(?P<name>.+) and (?P<n>[\d,]+) more")
_PRECISION = re.compile(r"works in (\S+) where the reference works in (\S+)")
_RANK = re.compile(r"rank (?P<rank>\d+): (?P<sentence>.+)")

Match = re.Match[str]


def asked(changes: str) -> str:
    """Changed arguments as a person writes them: ``eps: 1e-06 -> 0.001``, ``args[1]: 0.9 -> 0.8``."""
    return _NAMED.sub("", _POSITIONAL.sub(r"args[\1]", changes))


def precisions(text: str) -> tuple[str, str] | None:
    """What the candidate works in, and the reference."""
    found = _PRECISION.fullmatch(text)
    return None if found is None else (found[1], found[2])


def some(names: str) -> str:
    """``layers.0.weight and 3 more``."""
    found = _MORE.fullmatch(names)
    return names if found is None else Phrase("{name} and {n} more", name=found["name"], n=found["n"])


def as_phrase(text: str) -> str:
    """A sentence of the diagnosis with its template, where that is known."""
    if isinstance(text, Phrase | Phrases):
        return text
    if found := _RANK.fullmatch(text):
        return Phrase("rank {rank}: {sentence}", rank=found["rank"], sentence=as_phrase(found["sentence"]))
    for pattern, made in _KNOWN:
        if found := re.fullmatch(pattern, text):
            return made(found)
    return text


_HEADLINES: tuple[tuple[str, Callable[[Match], str]], ...] = (
    (
        "(.+): from there on only the (reference|candidate) follows gradients",
        lambda m: (
            Phrase("{cause}: from there on only the reference follows gradients", cause=as_phrase(m[1]))
            if m[2] == "reference"
            else Phrase("{cause}: from there on only the candidate follows gradients", cause=as_phrase(m[1]))
        ),
    ),
    (
        "the reference computes (.+), the candidate (.+)",
        lambda m: Phrase("the reference computes {one}, the candidate {other}", one=m[1], other=m[2]),
    ),
    ("only the reference computes (.+)", lambda m: Phrase("only the reference computes {one}", one=m[1])),
    ("only the candidate computes (.+)", lambda m: Phrase("only the candidate computes {one}", one=m[1])),
    ("a value is taken from another place", lambda m: Phrase("a value is taken from another place")),
    ("(.+) gets a gradient in the reference alone",
     lambda m: Phrase("only the reference gives {names} a gradient", names=some(m[1]))),
    ("(.+) gets a gradient in the candidate alone",
     lambda m: Phrase("only the candidate gives {names} a gradient", names=some(m[1]))),
    ("(.+) is updated in the reference alone",
     lambda m: Phrase("only the reference updates {names}", names=some(m[1]))),
    ("(.+) is updated in the candidate alone",
     lambda m: Phrase("only the candidate updates {names}", names=some(m[1]))),
    ("(.+) is there in the reference alone", lambda m: Phrase("only the reference has {names}", names=some(m[1]))),
    ("(.+) is there in the candidate alone", lambda m: Phrase("only the candidate has {names}", names=some(m[1]))),
    ("the gradient of (.+) is summed up otherwise",
     lambda m: Phrase("the gradient of {names} is summed up otherwise", names=some(m[1]))),
    ("the (?:loss loss|loss) differs", lambda m: Phrase("the loss differs")),
    ("the output (?:outputs?) differs", lambda m: Phrase("the output differs")),
    ("the gradient of (.+) differs", lambda m: Phrase("the gradient of {name} differs", name=m[1])),
    ("the output (?:of )?(.+) differs", lambda m: Phrase("the output {name} differs", name=m[1])),
    ("the loss (?:of )?(.+) differs", lambda m: Phrase("the loss {name} differs", name=m[1])),
    ("the buffer (?:of )?(.+) differs", lambda m: Phrase("the buffer {name} differs", name=m[1])),
    ("the gradient (.+) differs", lambda m: Phrase("the gradient of {name} differs", name=m[1])),
    ("the update (.+) differs", lambda m: Phrase("the update of {name} differs", name=m[1])),
    ("(.+) stays? as (?:they are|it is)(?: in the candidate)?",
     lambda m: Phrase("the candidate does not update {names}", names=some(m[1]))),
    ("(.+) moves? in the candidate alone", lambda m: Phrase("only the candidate updates {names}", names=some(m[1]))),
    ("updates are (.+) times as large: (.+)",
     lambda m: Phrase("the candidate's updates are {n} times as large: {names}", n=m[1], names=some(m[2]))),
    ("updates differ: (.+)", lambda m: Phrase("updates differ: {names}", names=some(m[1]))),
)  # fmt: skip

_REASONS: tuple[tuple[str, Callable[[Match], str]], ...] = (
    ("equal", lambda m: Phrase("equal")),
    ("within a few roundings", lambda m: Phrase("within a few roundings")),
    ("the origin itself", lambda m: Phrase("the origin itself")),
    ("follows from the origin", lambda m: Phrase("follows from the origin")),
    ("it was not measured", lambda m: Phrase("it was not measured")),
    ("only the reference has it", lambda m: Phrase("only the reference has it")),
    ("only the candidate has it", lambda m: Phrase("only the candidate has it")),
    ("what it was made from explains it", lambda m: Phrase("what it was made from explains it")),
    ("the same call made both, and was judged", lambda m: Phrase("the same call made both, and was judged")),
    ("what it was made from differs by rounding", lambda m: Phrase("what it was made from differs by rounding")),
    (
        "both sides compute the same, and differ by rounding",
        lambda m: Phrase("both sides compute the same, and differ by rounding"),
    ),
    (
        "it cancels: the difference is rounding beside the other gradients of its module",
        lambda m: Phrase("it cancels: the difference is rounding beside the other gradients of its module"),
    ),
    (
        "nothing that the programs give away could be measured on both sides",
        lambda m: Phrase("nothing that the programs give away could be measured on both sides"),
    ),
    (
        r"only (\S+) of (\S+) values that the programs give away were compared",
        lambda m: Phrase("only {n} of {all} values that the programs give away were compared", n=m[1], all=m[2]),
    ),
    (
        r"the two compute with tensors of other sizes: (\S+) of (\S+) values that they give away cannot be laid side "
        r"by side \((.+): (.+)\); the others agree",
        lambda m: Phrase(
            "the two compute with tensors of other sizes: {n} of {all} values that they give away cannot be laid side "
            "by side ({name}: {shapes}); the others agree",
            n=m[1], all=m[2], name=m[3], shapes=m[4],
        ),
    ),
    (
        r"only (\S+) of the calls could be laid side by side",
        lambda m: Phrase("only {share} of the calls could be laid side by side", share=m[1]),
    ),
    (
        r"the (reference|candidate) has no rank (.+); it was not compared",
        lambda m: (
            Phrase("the reference has no rank {ranks}; it was not compared", ranks=m[2])
            if m[1] == "reference"
            else Phrase("the candidate has no rank {ranks}; it was not compared", ranks=m[2])
        ),
    ),
)

_KNOWN = (*_HEADLINES, *_REASONS)
