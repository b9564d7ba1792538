"""Pairs that compute the same: eager and compiled, and compiled in two ways."""

from __future__ import annotations

from typing import Any

from benchmarks.compiled.programs import language, libraries, various, vision
from benchmarks.compiled.spec import EAGER, INDUCTOR, How, Program, clean

AOT = How("aot_eager")
DECOMPOSED = How("aot_eager_decomp_partition")
TRACED = How("eager")
DYNAMIC = How("inductor", {"dynamic": True})
WHOLE = How("inductor", {"fullgraph": True})
TUNED = How("inductor", {"mode": "max-autotune-no-cudagraphs"})
HALF = How("inductor", dtype="bfloat16")
CAST = How("inductor", autocast=True)
EAGER_HALF, EAGER_CAST = How(dtype="bfloat16"), How(autocast=True)


def _against_eager(program: Program, how: How, way: str, reference: How = EAGER, **more: Any) -> None:
    name = f"{program.__module__.rsplit('.', 1)[1]}_{program.__name__}_{way}"
    clean(name, program, f"{program.__name__} in eager, and {way.replace('_', ' ')}", how, reference, **more)


def _knobs(how: How, **knobs: Any) -> How:
    return How(how.backend, how.arguments, how.inductor, how.dynamo, how.dtype, how.autocast, knobs)


for _program in (
    language.decoder_training, language.decoder_training_with_loss, language.cached_generation,
    vision.transformer_training, vision.convolution_training, vision.denoiser_training, various.graph_training,
    various.recurrence_training, various.experts_training, various.loss_functions, various.optimizer_step,
    various.update_by_hand, various.sentences, various.dropout_training, various.broken_graph,
    various.teacher_statistics, libraries.llama, libraries.bert, libraries.gpt2, libraries.resnet,
    libraries.small_transformer,
):  # fmt: skip
    _against_eager(_program, INDUCTOR, "with_inductor")

for _program in (
    language.decoder_training, vision.convolution_training, various.graph_training, various.dropout_training,
    various.teacher_statistics, libraries.llama,
):  # fmt: skip
    _against_eager(_program, AOT, "with_aot_eager")

for _program in (vision.transformer_training, various.broken_graph, various.update_by_hand):
    _against_eager(_program, TRACED, "traced_only")

for _program in (vision.denoiser_training, various.loss_functions, various.experts_training):
    _against_eager(_program, DECOMPOSED, "decomposed")

_against_eager(language.decoder_scoring, DYNAMIC, "with_dynamic_shapes")
_against_eager(various.sentences, DYNAMIC, "with_dynamic_shapes")
_against_eager(vision.transformer_inference, WHOLE, "as_one_graph")
_against_eager(language.decoder_training, WHOLE, "as_one_graph")
_against_eager(vision.convolution_inference, TUNED, "autotuned")
_against_eager(various.recurrence_training, TUNED, "autotuned")
_against_eager(
    language.decoder_training, _knobs(INDUCTOR, regional=True, layers=2), "compiled_by_blocks",
    How(knobs={"layers": 2}),
)  # fmt: skip
_against_eager(
    vision.denoiser_training, _knobs(INDUCTOR, mode="bilinear"), "enlarged_bilinearly", How(knobs={"mode": "bilinear"})
)
_against_eager(
    various.optimizer_step, _knobs(INDUCTOR, optimizer="SGD", settings={"lr": 0.1, "momentum": 0.9, "foreach": True}),
    "compiled_sgd", How(knobs={"optimizer": "SGD", "settings": {"lr": 0.1, "momentum": 0.9, "foreach": True}}),
)  # fmt: skip

_against_eager(language.decoder_training, HALF, "in_bfloat16", EAGER_HALF)
_against_eager(vision.transformer_inference, HALF, "in_bfloat16", EAGER_HALF)
_against_eager(various.experts_training, How("aot_eager", dtype="bfloat16"), "in_bfloat16_aot", EAGER_HALF)
_against_eager(language.decoder_training_with_loss, CAST, "under_autocast", EAGER_CAST)
_against_eager(vision.transformer_training, CAST, "under_autocast", EAGER_CAST)
_against_eager(various.dropout_training, CAST, "under_autocast", EAGER_CAST)
_against_eager(vision.denoiser_sampling, CAST, "under_autocast", EAGER_CAST)
_against_eager(various.signal_pooling, How("inductor", dtype="float16"), "with_inductor", How(dtype="float16"))

clean(
    "decoder_compiled_in_two_ways", language.decoder_training,
    "inductor, and inductor without fusing reductions and with other loops", How(
        "inductor", inductor={"max_fusion_size": 2, "epilogue_fusion": False, "split_reductions": False}),
    INDUCTOR,
)  # fmt: skip
clean(
    "convolutions_interpreted_and_compiled", vision.convolution_training,
    "the decomposed graph interpreted, and compiled", INDUCTOR, DECOMPOSED,
)  # fmt: skip
clean(
    "transformer_scalar_loops", vision.transformer_training, "inductor with and without vectors",
    How("inductor", inductor={"cpp.simdlen": 0}), INDUCTOR,
)  # fmt: skip
clean(
    "generation_static_and_dynamic", language.decoder_scoring, "compiled for each length, and once for all",
    DYNAMIC, How("inductor", {"dynamic": False}),
)  # fmt: skip
clean(
    "convolutions_frozen", vision.convolution_inference, "inductor, and with its weights folded into constants",
    How("inductor", inductor={"freezing": True}), INDUCTOR,
)  # fmt: skip
