"""What rounding, and the differences of its inputs, can do to an output.

An output of a numerically sound operator is what exact arithmetic would make of slightly different inputs. So one set
of numbers says both how rounding and how a difference of the inputs shows: the *amplifications*, relative change of
the output per relative change of an input (in the L2 norm, for changes without a common direction). They are estimated
from the magnitudes of the tensors alone; where large terms cancel, the small output shows it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from trueline.judge.evidence import CallEvidence, Floats, OutputColumns, TensorEvidence
from trueline.ops.facts import Kind
from trueline.records import Phase

_ACCUMULATOR = 2.0**-24
"""Half precision is summed in single precision by every sound kernel."""
_TENSOR_FLOAT = 2.0**-11
"""What float32 factors are rounded to in TF32."""
_OUTPUT_SINGLE, _OUTPUT_HALF = 8.0, 1.5
"""Roundings of the output that are allowed: functions differ by a few units between libraries, but in half precision
they are computed in single and rounded once."""
_SUMMATION = 4.0
_FREEDOM = 4.0
"""How much larger than estimated the effect of an input's difference may be."""
_SKETCH_FLOOR = 3e-6
"""Below this, a distance estimated from sketches is noise of the sketches."""
_KINK = 3.0
_PEAK = 16.0
"""How much larger than the limit the error of a single element may be, in units of the largest one."""
_LOSSES = frozenset(
    {"nll_loss", "cross_entropy", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div", "ctc_loss"}
)
_MEANS = _LOSSES | frozenset(
    {"mean", "nanmean", "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d"}
    | {"adaptive_avg_pool3d", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "interpolate", "upsample"}
    | {"grid_sample", "logsumexp"}
)
"""Reductions whose output is of the size of their inputs."""

_MILD = {"div": ("args.0", "kwargs.input"), "addcdiv": ("args.0", "args.1", "kwargs.input")}
"""Arguments in which a steep operator is not steep: numerators."""


@dataclass(slots=True)
class Effect:
    """The effect of one input on one output: ``amplification`` for small changes, ``growth`` of rounding inside,
    ``kinked`` where a change of size d flips a share d of the elements, which shows as its square root, and
    ``coarse_sums`` where libraries are known to sum half precision in half precision."""

    tensor: TensorEvidence
    amplification: float
    growth: float = 1.0
    kinked: bool = False
    coarse_sums: bool = False


@dataclass(slots=True)
class Limit:
    """The largest distance (and peak) that is explained: by rounding alone, and with the inputs' differences."""

    rounding: float
    inherited: float
    inherited_peak: float

    @property
    def total(self) -> float:
        return self.rounding + self.inherited

    @property
    def peak(self) -> float:
        return _PEAK * (self.rounding + self.inherited_peak)


def limit_of(evidence: CallEvidence, output: TensorEvidence) -> Limit:
    """What honest arithmetic explains of the difference of one output."""
    effects = effects_on(evidence, output)
    unit = output.roundoff
    if unit and evidence.facts.composite:
        unit = max(unit, evidence.autocast)
    rounding = (_OUTPUT_HALF if unit > 1e-4 else _OUTPUT_SINGLE) * unit
    inherited = peak = 0.0
    for effect in effects:
        tensor = effect.tensor
        summed_in = unit if effect.coarse_sums else min(unit, _ACCUMULATOR)
        step = summed_in * _SUMMATION * effect.growth + _input_rounding(evidence, tensor, unit)
        rounding += _times(effect.amplification, step)
        distance = tensor.distance if tensor.measured else 0.0
        if distance > 0.0:
            kink = _KINK * math.sqrt(distance) if effect.kinked else 0.0
            inherited += _FREEDOM * _times(effect.amplification, distance) + kink
            tip = max(distance, tensor.peak if tensor.peak == tensor.peak else distance)
            peak += _FREEDOM * _times(effect.amplification, tip) + (1.0 if effect.kinked else 0.0)
        if tensor.reference_dtype.is_exact and distance > 0.0:
            inherited = peak = math.inf  # other indices or masks: anything may follow
    if output.estimated:
        rounding = max(rounding, _SKETCH_FLOOR)
    return Limit(rounding, inherited, max(peak, inherited))


def carried(evidence: CallEvidence, output: TensorEvidence) -> float:
    """How far an output of one program lies from exact arithmetic where each input is off by its ``distance``: what
    arrives, as it spreads, and this call's own rounding. Independent errors add up as squares; nothing is allowed on
    top, so that it may be asked for a whole chain of calls."""
    unit = output.roundoff
    if unit and evidence.facts.composite:
        unit = max(unit, evidence.autocast)
    own = (_OUTPUT_HALF if unit > 1e-4 else 1.0) * unit
    squares = kinks = 0.0
    for effect in effects_on(evidence, output):
        distance = effect.tensor.distance
        summed_in = unit if effect.coarse_sums else min(unit, _ACCUMULATOR)
        step = summed_in * effect.growth + _input_rounding(evidence, effect.tensor, unit)
        squares += _times(effect.amplification, step) ** 2
        if distance > 0.0 and effect.tensor.reference_dtype.is_exact:
            return math.inf  # other indices or masks: anything may follow
        if distance > 0.0:
            squares += _times(effect.amplification, distance) ** 2
            kinks += _KINK * math.sqrt(distance) if effect.kinked else 0.0
    return own + math.sqrt(squares) + kinks if math.isfinite(squares) else math.inf


def least_limits(columns: OutputColumns) -> Floats:
    """What every limit of ``limit_of`` is at least, for many outputs at once; negative for exact types
    and where an element spikes."""
    least = np.where(columns.roundoff > 1e-4, _OUTPUT_HALF, _OUTPUT_SINGLE) * columns.roundoff
    least = np.where(columns.estimated, np.maximum(least, _SKETCH_FLOOR), least)
    return np.where((columns.peak > _PEAK * least) | (columns.roundoff == 0.0), -1.0, least)


def _input_rounding(evidence: CallEvidence, tensor: TensorEvidence, unit: float) -> float:
    """Rounding of an input on the way in: autocast, or TF32."""
    if not tensor.reference_dtype.digits:
        return 0.0
    contracts = evidence.facts.kind in (Kind.CONTRACTION, Kind.ATTENTION)
    if evidence.reduced_precision and contracts and unit <= _ACCUMULATOR:
        return _TENSOR_FLOAT
    finest = min(tensor.reference_dtype.epsilon, tensor.candidate_dtype.epsilon) / 2
    return unit if finest < unit else 0.0


def effects_on(evidence: CallEvidence, output: TensorEvidence) -> list[Effect]:
    """The effects of all inputs (of a backward call also of what its forward call had) on one output."""
    inputs = [tensor for tensor in related(evidence.inputs, output) if tensor.count and not tensor.only]
    kind = evidence.facts.kind
    if evidence.phase is Phase.BACKWARD:
        saved = [tensor for tensor in evidence.saved if tensor.count and not tensor.only]
        return _BACKWARD.get(kind, _other_backward)(evidence, inputs, saved, output)
    return _FORWARD.get(kind, _other)(evidence, inputs, output)


def related(inputs: list[TensorEvidence], output: TensorEvidence) -> list[TensorEvidence]:
    """The inputs that one output depends on: calls over lists of tensors do the same to each place of the lists."""
    if len(inputs) < 12:
        return inputs
    place = output.path.rpartition(".")[2]
    lists = [tensor for tensor in inputs if tensor.path.count(".") >= 2]
    if not place.isdigit() or len(lists) < len(inputs) // 2:
        return inputs
    return [t for t in inputs if t.path.count(".") < 2 or t.path.rpartition(".")[2] == place]


def _times(amplification: float, value: float) -> float:
    return amplification * value if value else 0.0


def _ratio(above: float, below: float) -> float:
    return above / below if below > 0.0 else (math.inf if above > 0.0 else 0.0)


def _scale(tensor: TensorEvidence, output: TensorEvidence) -> float:
    """The amplification of an operator that does not stretch distances."""
    return _ratio(tensor.rms, output.rms) * max(1.0, math.sqrt(tensor.count / max(output.count, 1)))


def _spread(tensor: TensorEvidence) -> float:
    """Root mean square over standard deviation: what subtracting the mean costs."""
    variance = tensor.rms**2 - tensor.mean**2
    return min(_ratio(tensor.rms, math.sqrt(variance)) if variance > 0.0 else 1e4, 1e4)


def _length(first: TensorEvidence, second: TensorEvidence, output: TensorEvidence) -> float:
    """How many products go into one element, from the sizes: exact for matrices, near for the rest."""
    return max(1.0, math.sqrt(first.count * second.count / max(output.count, 1)))


def _plain(evidence: CallEvidence, inputs: list[TensorEvidence], output: TensorEvidence) -> list[Effect]:
    return [Effect(tensor, _scale(tensor, output)) for tensor in inputs]


def _product(evidence: CallEvidence, inputs: list[TensorEvidence], output: TensorEvidence) -> list[Effect]:
    size = math.prod(tensor.rms for tensor in inputs if tensor.rms > 0.0)
    return [Effect(tensor, max(1.0, _ratio(size, output.rms))) for tensor in inputs]


def _singular(evidence: CallEvidence, inputs: list[TensorEvidence], output: TensorEvidence) -> list[Effect]:
    """Steep for changes of what is divided by, but equal inputs give results that are right to a few roundings each."""
    mild = _MILD.get(evidence.facts.name, ())
    effects = []
    for tensor in inputs:
        amplification = max(1.0, _scale(tensor, output))
        if tensor.path.startswith(mild):
            effects.append(Effect(tensor, amplification, 0.0))
        else:
            steep = 1.0 if evidence.facts.name == "sqrt" else _ratio(tensor.rms, tensor.smallest)
            effects.append(Effect(tensor, max(amplification, steep), 0.0, kinked=True))
    return effects


def _contraction(evidence: CallEvidence, inputs: list[TensorEvidence], output: TensorEvidence) -> list[Effect]:
    factors = sorted((t for t in inputs if len(t.shape) > 1), key=lambda t: -t.count)[:2]
    effects = [Effect(tensor, max(1.0, _scale(tensor, output))) for tensor in inputs if tensor not in factors]
    if len(factors) < 2:
        return [*effects, *(Effect(tensor, 8.0, math.sqrt(tensor.count)) for tensor in factors)]
    length = _length(factors[0], factors[1], output)
    amplification = max(1.0, _ratio(math.sqrt(length) * factors[0].rms * factors[1].rms, output.rms))
    return [*effects, *(Effect(tensor, amplification, math.sqrt(length)) for tensor in factors)]


def _attention(evidence: CallEvidence, inputs: list[TensorEvidence], output: TensorEvidence) -> list[Effect]:
    """An average of the values, whose weights change by as much as the scores do."""
    value = max(1.0, _ratio(inputs[2].rms, output.rms)) if len(inputs) > 2 else 4.0
    scores = inputs[0].rms * inputs[1].rms if len(inputs) > 1 else 1.0
    weights = 2.0 * max(1.0, scores) * value
    growth = math.sqrt(max(output.shape[-2:], default=1))
    return [Effect(tensor, weights if number < 2 else value, growth) for number, tensor in enumerate(inputs)]


def _reduction(evidence: CallEvidence, inputs: list[TensorEvidence], output: TensorEvidence) -> list[Effect]:
    effects = []
    for tensor in inputs:
        length = max(1.0, tensor.count / max(output.count, 1))
        stretch = 2.0 if evidence.facts.name in _LOSSES else 1.0 if evidence.facts.name in _MEANS else math.sqrt(length)
        effects.append(Effect(tensor, max(1.0, stretch * _ratio(tensor.rms, output.rms)), math.sqrt(length)))
    return effects


def _exponential(evidence: CallEvidence, inputs: list[TensorEvidence], output: TensorEvidence) -> list[Effect]:
    return [Effect(tensor, 2.0 * max(1.0, tensor.rms, _ratio(tensor.rms, output.rms)), 4.0) for tensor in inputs]


def _normalization(evidence: CallEvidence, inputs: list[TensorEvidence], output: TensorEvidence) -> list[Effect]:
    effects = []
    for tensor in inputs:
        amplification = max(1.0, _scale(tensor, output))
        if tensor is inputs[0]:
            amplification = _spread(tensor)
            if not output.path.startswith("out"):  # running statistics: means of the input, and of its square
                amplification = max(amplification, _ratio(max(tensor.rms, tensor.rms**2), output.rms))
        effects.append(Effect(tensor, amplification, 4.0))
    return effects


def _other(evidence: CallEvidence, inputs: list[TensorEvidence], output: TensorEvidence) -> list[Effect]:
    return [Effect(tensor, 8.0 + _scale(tensor, output), 8.0) for tensor in inputs]


def _sum_backward(
    evidence: CallEvidence, inputs: list[TensorEvidence], saved: list[TensorEvidence], output: TensorEvidence
) -> list[Effect]:
    """Gradients of what was broadcast, repeated or picked several times are sums."""
    effects = []
    for tensor in inputs:
        length = max(1.0, tensor.count / max(output.count, 1))
        shrink = math.sqrt(tensor.count / max(output.count, 1))
        ratio = _ratio(tensor.rms, output.rms)
        effects.append(Effect(tensor, max(shrink, math.sqrt(length)) * ratio, math.sqrt(length)))
    return effects


def _select_backward(
    evidence: CallEvidence, inputs: list[TensorEvidence], saved: list[TensorEvidence], output: TensorEvidence
) -> list[Effect]:
    effects = _sum_backward(evidence, inputs, saved, output)
    return effects + [Effect(tensor, 0.0, kinked=True) for tensor in saved]


def _product_backward(
    evidence: CallEvidence, inputs: list[TensorEvidence], saved: list[TensorEvidence], output: TensorEvidence
) -> list[Effect]:
    others = [tensor for tensor in saved if not tensor.path.startswith("out")]
    factor = max((tensor.rms for tensor in others if tensor.path != output.path), default=1.0)
    effects = []
    for tensor in inputs:
        length = max(1.0, tensor.count / max(output.count, 1))
        amplification = max(1.0, math.sqrt(length) * _ratio(tensor.rms * max(factor, 1e-30), output.rms))
        effects.append(Effect(tensor, amplification, math.sqrt(length)))
        effects += [Effect(other, amplification) for other in others]
    return effects


def _contraction_backward(
    evidence: CallEvidence, inputs: list[TensorEvidence], saved: list[TensorEvidence], output: TensorEvidence
) -> list[Effect]:
    others = [t for t in saved if t.path != output.path and len(t.shape) > 1 and not t.path.startswith("out")]
    effects = []
    for tensor in inputs:
        length = max(1.0, tensor.count / max(output.count, 1))
        best, growth = (
            max(1.0, math.sqrt(length) * _ratio(tensor.rms, output.rms)) if len(output.shape) < 2 else 1.0,
            length,
        )
        for other in others:
            terms = _length(tensor, other, output)
            best = max(best, math.sqrt(terms) * _ratio(tensor.rms * other.rms, output.rms))
            growth = max(growth, terms)
        effects.append(Effect(tensor, best, math.sqrt(growth)))
        effects += [Effect(other, best) for other in others]
    return effects


def _smooth_backward(
    evidence: CallEvidence, inputs: list[TensorEvidence], saved: list[TensorEvidence], output: TensorEvidence
) -> list[Effect]:
    effects = _sum_backward(evidence, inputs, saved, output)
    slope = max((effect.amplification for effect in effects), default=1.0)
    return effects + [Effect(tensor, 2.0 * slope * max(1.0, tensor.rms)) for tensor in saved]


def _reduction_backward(
    evidence: CallEvidence, inputs: list[TensorEvidence], saved: list[TensorEvidence], output: TensorEvidence
) -> list[Effect]:
    steep = 2.0 if evidence.facts.name in _LOSSES else 8.0
    effects = [Effect(tensor, 2.0) for tensor in inputs]
    return effects + [Effect(tensor, steep * max(1.0, tensor.rms), 4.0) for tensor in saved]


def _exponential_backward(
    evidence: CallEvidence, inputs: list[TensorEvidence], saved: list[TensorEvidence], output: TensorEvidence
) -> list[Effect]:
    result = max((tensor.rms for tensor in saved if tensor.path.startswith("out")), default=1.0)
    effects = []
    for tensor in inputs:
        size = tensor.rms * (min(result, 1.0) if evidence.facts.name == "softmax" else 1.0)
        best = 2.0 * max(1.0, _ratio(size, output.rms))
        effects.append(Effect(tensor, best, 4.0))
        effects += [Effect(other, best * max(1.0, other.rms), 1.0) for other in saved]
    return effects


def _normalization_backward(
    evidence: CallEvidence, inputs: list[TensorEvidence], saved: list[TensorEvidence], output: TensorEvidence
) -> list[Effect]:
    normalized = next((tensor for tensor in saved if not tensor.path.startswith("out")), None)
    spread = _spread(normalized) if normalized is not None else 4.0
    deviation = normalized.rms / spread if normalized is not None and normalized.rms > 0.0 else 1.0
    weights = [t.rms for t in saved if t is not normalized and len(t.shape) == 1 and t.rms > 0.0]
    effects = []
    for tensor in inputs:
        if len(output.shape) <= 1:  # weight and bias: sums over everything else
            length = max(1.0, tensor.count / max(output.count, 1))
            best = max(1.0, 2.0 * math.sqrt(length) * _ratio(tensor.rms, output.rms))
        else:
            length = 16.0
            best = max(1.0, _ratio(tensor.rms * max(weights, default=1.0) / deviation, output.rms))
        effects.append(Effect(tensor, best, math.sqrt(length), coarse_sums=len(output.shape) <= 1))
        effects += [Effect(other, best * (spread if other is normalized else 1.0)) for other in saved]
    return effects


def _singular_backward(
    evidence: CallEvidence, inputs: list[TensorEvidence], saved: list[TensorEvidence], output: TensorEvidence
) -> list[Effect]:
    effects = [Effect(tensor, max(8.0, _scale(tensor, output)), kinked=True) for tensor in inputs]
    return effects + [Effect(tensor, max(8.0, _ratio(tensor.rms, tensor.smallest)), kinked=True) for tensor in saved]


def _other_backward(
    evidence: CallEvidence, inputs: list[TensorEvidence], saved: list[TensorEvidence], output: TensorEvidence
) -> list[Effect]:
    return [Effect(tensor, 16.0 + _scale(tensor, output), 8.0, kinked=True) for tensor in [*inputs, *saved]]


_Forward = Callable[[CallEvidence, list[TensorEvidence], TensorEvidence], list[Effect]]
_Backward = Callable[[CallEvidence, list[TensorEvidence], list[TensorEvidence], TensorEvidence], list[Effect]]

_FORWARD: dict[Kind, _Forward] = {
    Kind.MOVE: _plain,
    Kind.SELECT: _plain,
    Kind.DISCRETE: _plain,
    Kind.SUM: _plain,
    Kind.SMOOTH: _plain,
    Kind.COLLECTIVE: _plain,
    Kind.RANDOM: _plain,
    Kind.PRODUCT: _product,
    Kind.SINGULAR: _singular,
    Kind.CONTRACTION: _contraction,
    Kind.ATTENTION: _attention,
    Kind.REDUCTION: _reduction,
    Kind.EXPONENTIAL: _exponential,
    Kind.NORMALIZATION: _normalization,
}
_BACKWARD: dict[Kind, _Backward] = {
    Kind.MOVE: _sum_backward,
    Kind.SUM: _sum_backward,
    Kind.RANDOM: _sum_backward,
    Kind.SELECT: _select_backward,
    Kind.PRODUCT: _product_backward,
    Kind.CONTRACTION: _contraction_backward,
    Kind.ATTENTION: _contraction_backward,
    Kind.SMOOTH: _smooth_backward,
    Kind.REDUCTION: _reduction_backward,
    Kind.EXPONENTIAL: _exponential_backward,
    Kind.NORMALIZATION: _normalization_backward,
    Kind.SINGULAR: _singular_backward,
}
