"""The mapping read from torch to Paddle, for layers: calls of torch on both frameworks, forward and backward."""

from __future__ import annotations

import zlib
from dataclasses import replace

import pytest

from trueline.formats.configs import config_to_case, parse_config
from trueline.frameworks.base import Inputs
from trueline.ops.mapping.rows import Row, _expanded, rows
from trueline.ops.mapping.translate import Translation, translate

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

from tests.ops import mapping_harness as harness  # noqa: E402
from trueline.frameworks.paddle.rebuild import resolve  # noqa: E402
from trueline.ops.domains import with_domains  # noqa: E402
from trueline.replay.inputs import inputs_for  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

_CALLS = """
conv1d(f[2,3,8], f[4,3,3], f[4], 2, 1)
conv2d(f[2,4,6,7], f[6,2,3,3], f[6], stride=2, padding=[1,0], dilation=1, groups=2)
conv2d(f[2,3,6,7], f[4,3,3,3], padding="same")
conv3d(f[1,2,4,5,4], f[3,2,2,3,2], None, 1, 1)
conv_transpose1d(f[2,3,6], f[3,4,3], f[4], 2, 1, 1)
conv_transpose2d(f[2,4,4,5], f[4,2,3,3], f[4], 2, 1, 1, 2, 1)
conv_transpose3d(f[1,2,3,4,3], f[2,3,2,2,3], stride=2)
max_pool1d(f[2,3,8], 3, 2, 1)
max_pool2d(f[2,3,6,7], 2, 2, 0, 1, False)
max_pool2d(f[2,3,7,7], 3, stride=2, padding=1, dilation=1, ceil_mode=False, return_indices=True)
max_pool2d(f[3,6,7], 2)
max_pool3d(f[1,2,4,5,4], 2)
avg_pool1d(f[2,3,8], 3, 2, 1)
avg_pool2d(f[2,3,6,7], 3, 2, 1)
avg_pool2d(f[2,3,6,7], 3, 2, 1, False, False)
avg_pool2d(f[2,3,7,7], 2, 2, 0, True)
avg_pool2d(f[2,3,6,6], 2, divisor_override=3)
avg_pool3d(f[1,2,4,5,4], 2)
adaptive_avg_pool1d(f[2,3,8], 3)
adaptive_avg_pool2d(f[2,3,6,7], (3, 4))
adaptive_avg_pool3d(f[1,2,4,5,6], 2)
adaptive_max_pool1d(f[2,3,8], 3)
adaptive_max_pool2d(f[2,3,6,7], 3, return_indices=True)
adaptive_max_pool3d(f[1,2,4,5,6], 2)
layer_norm(f[2,3,4], [3,4], f[3,4], f[3,4], 1e-3)
layer_norm(f[3,5], (5,))
group_norm(f[2,6,3,4], 3)
group_norm(f[2,6,3,4], 3, f[6], f[6], 1e-3)
batch_norm(f[6,3,4], f[3], f[3], f[3], f[3])
batch_norm(f[6,3,4], f[3], f[3], f[3], f[3], True, 0.2, 1e-3)
batch_norm(f[6,3,4], None, None, f[3], f[3], training=True)
instance_norm(f[2,3,4,5], weight=f[3], bias=f[3])
local_response_norm(f[2,6,3,4], 5, 0.1, 0.5, 2.0)
linear(f[3,4], f[5,4], f[5])
scaled_dot_product_attention(f[2,3,5,4], f[2,3,6,4], f[2,3,6,4], is_causal=False)
unfold(f[2,3,6,7], 2, 1, 1, 2)
fold(f[2,12,20], (5, 6), 2)
pad(f[2,3,4,5], [1, 2])
pad(f[2,3,4,5], [1,1,2,2], "reflect")
softmax(f[3,5], -1, _stacklevel=3)
log_softmax(f[3,5], dim=1)
gelu(f[3,4])
gelu(f[3,4], approximate="tanh")
hardsigmoid(f[30])
prelu(f[2,3,4], f[3])
selu(f[30])
relu(f[3,4], inplace=False)
silu(f[3,4])
hardtanh(f[30], -0.5, 0.5)
threshold(f[30], 0.25, -1.0)
embedding(i[2,6], f[4,3])
embedding(i[2,6], f[4,3], padding_idx=1)
one_hot(i[5], 6)
bilinear(f[3,4], f[3,5], f[2,4,5], f[2])
cosine_similarity(f[3,5], f[3,5], dim=1)
normalize(f[3,5], 2.0, 1)
pairwise_distance(f[3,5], f[3,5])
dropout(f[3,4], 0.5, False)
dropout(f[40,50], p=0.25)
dropout2d(f[2,3,2,2], 0.5, False)
alpha_dropout(f[3,4], 0.5, False)
pixel_shuffle(f[2,8,3,4], 2)
pixel_unshuffle(f[2,2,4,6], 2)
channel_shuffle(f[2,6,3,4], 3)
interpolate(f[2,3,4,5], scale_factor=2, mode="nearest")
interpolate(f[2,3,4,5], size=(7, 9), mode="bilinear", align_corners=False)
interpolate(f[2,3,4,5], size=[7, 9], mode="bicubic", align_corners=True)
interpolate(f[2,3,6], scale_factor=2.0)
affine_grid(f[2,2,3], [2,3,4,5], align_corners=False)
grid_sample(f[2,3,4,5], f[2,3,4,2])
grid_sample(f[2,3,4,5], f[2,3,4,2], "nearest", "border", True)
max_unpool2d(f[2,3,3,4], i[2,3,3,4], 2)
cross_entropy(f[4,5], i[4])
cross_entropy(f[4,5], i[4], f[5], ignore_index=2)
cross_entropy(f[2,5,3], i[2,3], reduction="none")
cross_entropy(f[4,5], f[4,5])
cross_entropy(f[2,5,3], f[2,5,3], f[5])
nll_loss(f[4,5], i[4], None, None, 2, None, "sum")
mse_loss(f[3,4], f[3,4])
l1_loss(f[3,4], f[3,4], reduction="sum")
smooth_l1_loss(f[3,4], f[3,4], beta=0.5)
huber_loss(f[3,4], f[3,4], reduction="none", delta=0.5)
binary_cross_entropy_with_logits(f[3,4], f[3,4], reduction="mean")
kl_div(f[3,4], f[3,4], reduction="batchmean")
cosine_embedding_loss(f[4,5], f[4,5], i[4])
margin_ranking_loss(f[4], f[4], f[4], 0.5)
""".strip().splitlines()
_NO_GRADIENT = {
    "batch_norm": {"args.1", "args.2"},
    "binary_cross_entropy_with_logits": {"args.1"},
    "cross_entropy": {"args.1", "args.2"},
    "kl_div": {"args.1"},
}
"""Running statistics, targets and weights of classes carry no gradient in one of the two."""


def case_of(line: str) -> harness.Case:
    name, _, arguments = line.partition("(")
    api = f"torch.nn.functional.{name}"
    case = with_domains(config_to_case(parse_config(_expanded(api, "(" + arguments)), zlib.crc32(line.encode())))
    held = _NO_GRADIENT.get(name, set())
    specs = tuple(replace(one, requires_grad=one.requires_grad and one.path not in held) for one in case.tensors)
    return replace(case, tensors=specs)


@pytest.mark.parametrize("line", _CALLS)
def test_a_call_of_torch_gives_the_same_in_paddle(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "paddle_function", resolve)
    case = case_of(line)
    inputs = inputs_for(case)
    moved = translate(case, "paddle")
    assert moved.case.api.startswith(("paddle.", "composite."))
    there = Inputs({moved.paths[path]: array for path, array in inputs.tensors.items()}, inputs.gradients, inputs.draw)
    same = Translation(case, {spec.path: spec.path for spec in case.tensors}, Row("", "", {}))
    paddles = harness.run_paddle(moved.case, there)
    back = {new: old for old, new in moved.paths.items()}
    paddles.gradients = {back[path]: value for path, value in paddles.gradients.items()}
    paddles.inputs = {back[path]: value for path, value in paddles.inputs.items()}
    torches = harness.run_torch(same, inputs, case)
    wide = harness.run_torch(same, inputs, case, wide=True)
    again = harness.run_torch(same, inputs, replace(case, seed=case.seed + 1))
    chance = torches.drew and harness._changes(torches, again)
    problems: list[str] = []
    compared = 0
    for part in ("outputs", "inputs", "gradients"):
        sides = [getattr(side, part) for side in (paddles, torches, wide, torches)]
        compared += harness._compare(part, sides, problems, chance)
    assert compared and not problems, "\n".join(problems)


def test_no_example_is_written_twice() -> None:
    """Domains of an example are kept by its line, so that the same line may not stand for two draws."""
    for row in rows().values():
        lines = (*row.examples, *row.differs)
        assert len(set(lines)) == len(lines), row.paddle
