"""The cause of a divergence in words: in one line, with its numbers, and with its proof."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from trueline.records import Call, Origin
from trueline.report.phrases import Phrase, Phrases
from trueline.report.sentences import as_phrase, asked, precisions, some
from trueline.report.wording import module_of, name_and_module, number

SHOWN = 8
"""So many calls of a region, and so many names, are told one by one."""
_REGIONS = ("region", "missing", "extra")
_CALLS = ("call", "argument", "precision", "randomness", *_REGIONS)
_CHANGE = " -> "
_PARTED = re.compile(r"had parted before step (\d+)|differs before step (\d+)")
_REPLAYED = ("candidate_error", "reference_error", "candidate_honest")
_SEEDS = {"torch": "torch.manual_seed(0)", "paddle": "paddle.seed(0)"}


def is_of_calls(origin: Origin) -> bool:
    """Whether calls explain it, which can be looked at; else values do: those that a program begins with, is given, or
    updates."""
    if origin.kind == "call":
        return not origin.names
    return origin.kind in _CALLS or (origin.kind == "update" and _CHANGE in origin.headline)


def is_taken(origin: Origin) -> bool:
    """Whether values explain it of which a call is known that takes them."""
    return origin.kind in ("data", "state") and bool(origin.reference_calls or origin.candidate_calls)


def is_region(origin: Origin) -> bool:
    """Whether the calls of both sides are told as two lists."""
    return origin.kind in _REGIONS


def is_of_structure(origin: Origin) -> bool:
    """Whether one side of the call takes or gives a tensor that the other does not: no numbers have to prove it."""
    pair = origin.comparison
    lonely = any(one.reference is None or one.candidate is None for one in pair.tensors)
    return origin.kind == "call" and lonely and not pair.output_distance


def headline(origin: Origin) -> str:
    """The cause in one line, before any effect."""
    call, cause = origin.comparison.call, origin.headline
    if origin.kind in _REGIONS:
        return Phrase("{cause}, in {place}", cause=as_phrase(cause), place=place_of_region(origin))
    if origin.kind == "randomness":
        return Phrase(
            "random numbers differ from {call} on: nothing after it can be compared", call=name_and_module(call)
        )
    if origin.kind == "data":
        return Phrase(
            "the two programs are given other data: {names}, in step {step}", names=names_of(origin), step=call.step
        )
    if origin.kind == "state":
        return _of_state(origin)
    if origin.kind == "update":
        return _of_update(origin)
    if origin.kind == "precision":
        return _of_precision(origin)
    if not cause:
        return Phrase("{call} went wrong first", call=name_and_module(call))
    if not is_of_calls(origin):
        return Phrase("{cause}, in step {step}", cause=as_phrase(cause), step=call.step)
    if origin.kind == "call":
        return Phrase(
            "{cause}; no call stands out, {call} makes the most of what arrives at it",
            cause=as_phrase(cause),
            call=name_and_module(call),
        )
    return Phrase("{cause} in {call}", cause=as_phrase(asked(cause)), call=name_and_module(call))


def names_of(origin: Origin) -> str:
    """The values that it is about, in a few words."""
    names = origin.names or (origin.comparison.call.name,)
    return names[0] if len(names) == 1 else Phrase("{name} and {n} more", name=names[0], n=len(names) - 1)


def _of_precision(origin: Origin) -> str:
    call, found = name_and_module(origin.comparison.call), precisions(origin.headline)
    if found is None:
        return Phrase("{call} works in another precision", call=call)
    return Phrase("{call} works in {one}, the reference in {other}", call=call, one=found[0], other=found[1])


def _of_state(origin: Origin) -> str:
    names, step = names_of(origin), origin.comparison.call.step
    several = len(origin.names) > 1
    if found := _PARTED.search(f"{origin.headline} {origin.comparison.reason}"):
        return Phrase(
            "the Runs had parted before step {step}: record from the start ({which})",
            step=found[1] or found[2],
            which=Phrase("{names} differ", names=names) if several else Phrase("{name} differs", name=names),
        )
    if origin.headline.endswith(" differs from the start"):
        if several:
            return Phrase("{names} differ from the start", names=names)
        return Phrase("{name} differs from the start", name=names)
    if origin.headline.endswith(" differs"):
        return Phrase("the two programs hold other values: {names}, in step {step}", names=names, step=step)
    return Phrase("{cause}, in step {step}", cause=as_phrase(origin.headline), step=step)


def _of_update(origin: Origin) -> str:
    call, cause = origin.comparison.call, origin.headline
    if _CHANGE not in cause:
        return Phrase("{cause}, in step {step}", cause=as_phrase(cause), step=call.step)
    return Phrase(
        "{cause} in {call}: it updates {names} otherwise",
        cause=asked(cause),
        call=name_and_module(call),
        names=names_of(origin),
    )


def place_of_region(origin: Origin) -> str:
    """The module that all calls of a region lie in, else the line of the first."""
    calls = [*origin.reference_calls, *origin.candidate_calls] or [origin.comparison.call]
    modules = [call.module.split(".") if call.module else [] for call in calls]
    common = []
    for parts in zip(*modules, strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    if common:
        whole = ".".join(common)
        named = next((call for call in calls if call.module == whole), None)
        telling = any(letter.isalpha() for letter in whole)
        return whole if telling or named is None else module_of(named)
    return calls[0].source or calls[0].name


def calls_of(origin: Origin) -> tuple[Sequence[Call], Sequence[Call]]:
    """The calls of each side that explain it."""
    if origin.reference_calls or origin.candidate_calls:
        return origin.reference_calls, origin.candidate_calls
    if not is_of_calls(origin):
        return (), ()
    pair = origin.comparison
    return (pair.reference,) if pair.reference else (), (pair.candidate,) if pair.candidate else ()


def why(origin: Origin) -> str:
    """The explanation without what stands above it in every report: the name and place of the call, and the cause."""
    text = origin.explanation or origin.comparison.reason
    place, _, rest = text.partition(": ")
    text = rest if rest and place.startswith(origin.comparison.call.name) else text
    told = f"{origin.headline}; "
    return text[len(told) :] if origin.headline and text.startswith(told) else text


def finding(origin: Origin) -> str:
    """What the numbers say about an origin, of which ``why`` is the whole story in English."""
    return Phrases("; ", list(_findings(origin)))


def _findings(origin: Origin) -> Iterator[str]:
    pair, evidence = origin.comparison, origin.evidence
    if origin.kind not in _REGIONS and is_of_calls(origin):
        if pair.reference is None:
            yield Phrase("only the candidate makes this call")
        elif pair.candidate is None:
            yield Phrase("only the reference makes this call")
    alone = None in (pair.reference, pair.candidate) and origin.kind not in _REGIONS
    if pair.output_distance is not None and not alone:
        inputs, outputs = number(pair.input_distance), number(pair.output_distance)
        if is_of_calls(origin) and origin.kind != "update":
            yield Phrase("the inputs are {inputs} apart, the outputs {outputs}", inputs=inputs, outputs=outputs)
        elif pair.output_distance > 0:
            yield Phrase("the values are {distance} apart", distance=outputs)
    if pair.limit is not None and pair.limit > 0:
        yield Phrase("honest arithmetic explains {limit}", limit=number(pair.limit))
    if evidence.keys() >= set(_REPLAYED):
        yield _replay_said(*(number(evidence[name]) for name in _REPLAYED))


def _replay_said(candidate: str, reference: str, honest: str) -> str:
    return Phrase(
        "replayed in float64, the candidate is off by {candidate} and the reference by {reference}, where an honest "
        "implementation is off by {honest}",
        candidate=candidate,
        reference=reference,
        honest=honest,
    )


def confirmation(origin: Origin, mode: str, *, baseline: bool = False) -> str:
    """What proves it."""
    if baseline:
        return Phrase("the baseline does the same call with a smaller error against the gold")
    if origin.kind == "randomness":
        return Phrase("both calls have the same arguments and drew other numbers: there is nothing to replay")
    if not is_of_calls(origin) or origin.kind == "update":
        return Phrase("the values of both sides were compared themselves: no call has to be replayed")
    if origin.kind == "precision" and not origin.confirmed:
        return Phrase("the dtypes of both sides were recorded: there is nothing to replay")
    if origin.confirmed is None and is_of_structure(origin):
        return Phrase("one side takes or gives a tensor that the other does not: there is nothing to replay")
    if origin.kind in _REGIONS and origin.confirmed is not None:
        if origin.confirmed:
            return Phrase("confirmed by replaying the calls of both sides in float64 from the reference's values")
        return Phrase("not confirmed: replayed in float64 from the same values, both sides compute the same")
    if origin.confirmed:
        return Phrase("confirmed by replaying the call in float64 on its recorded inputs")
    if origin.confirmed is False:
        return Phrase("not confirmed: replayed in float64 on its recorded inputs, the call computes right")
    if origin.kind == "argument" and origin.evidence:
        return Phrase("replayed in float64, each side computes rightly what it was asked for: the arguments differ")
    if mode == "tensors":
        return Phrase("not confirmed by a replay")
    return Phrase("not confirmed: a replay needs the tensors, these Runs hold {mode}", mode=mode)


def advice(origin: Origin) -> str:
    """What to do before comparing again; empty where nothing is known that helps."""
    if origin.kind != "randomness":
        return ""
    pair = origin.comparison
    frameworks = {call.api.partition(".")[0] for call in (pair.reference, pair.candidate) if call is not None}
    devices = {
        record.device.partition(":")[0]
        for call in (pair.reference, pair.candidate)
        if call is not None
        for record in call.tensors
        if record.device
    }
    if len(frameworks) > 1 or len(devices) > 1:
        return Phrase(
            "the two draw from different generators, so that no seed makes them equal: switch off what is random "
            "(evaluation mode, a probability of 0), or give both the same numbers"
        )
    seed = " ".join(_SEEDS.get(name, "") for name in frameworks).strip() or "the framework's seed"
    return Phrase("seed both programs alike before the first step that is recorded: {seed}", seed=seed)


def short_names(origin: Origin) -> list[str]:
    """The names of the values that it is about, one by one, and how many more there are."""
    shown = [some(name) for name in origin.names[:SHOWN]]
    left = len(origin.names) - len(shown)
    return [*shown, Phrase("and {n} more", n=left)] if left > 0 else shown
