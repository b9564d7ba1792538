"""Cases at which kernels stop being right: where one block ends and the next begins, where a grid ends, where an option
matters, where nothing is to be done, where formulas cancel or leave the type.

Blocks are of 16 to 1,024 elements, grids end at 65,535 rows, counters of a byte at 255. Rows belong here, not to their
family, where the reason is what kernels do and not what the operator is.
"""

from __future__ import annotations

from trueline.ops.catalogue.language import B, I, Row, T, dtype, each, forward, op, without_backward

_F = "torch.nn.functional"
_WIDER = dtype("float64")

BLOCKS: list[Row] = [
    *each("torch.sum torch.mean torch.amax torch.nansum", T(3001, of="positive"), dim=0),
    *each("torch.sum torch.mean torch.logsumexp torch.amax", T(3, 1025), dim=1),
    *each(f"torch.sum torch.amax {_F}.softmax", T(65537, 2), dim=1),
    *each(f"torch.softmax {_F}.softmax torch.log_softmax {_F}.log_softmax", T(3, 1025), dim=1),
    *each(f"torch.softmax {_F}.softmax torch.log_softmax {_F}.log_softmax", T(4, 7, 7), dim=1),
    *each("torch.relu torch.exp torch.neg torch.tanh", T(65537)),
    *each("torch.add torch.mul", T(65537), T(65537)),
    *each("torch.cumsum", T(3, 1025, of="positive"), dim=1),
    *each("torch.sum torch.mean torch.nansum", T(3001, of="positive")),
    *each("torch.prod", T(3001, of="uniform(0.999, 1.001)")),
    *without_backward(each("torch.argmax torch.argmin torch.count_nonzero", T(3, 1025), dim=1)),
    *without_backward(each("torch.count_nonzero", T(3001))),
    *each("torch.sort torch.argsort", T(2, 1025), dim=1),
    *each("torch.tril torch.triu", T(70, 65)),
    op(f"{_F}.layer_norm", T(3, 1025), [1025], T(1025), T(1025)),
    op(f"{_F}.rms_norm", T(3, 1025), [1025], T(1025)),
    op(f"{_F}.layer_norm", T(4097, 3), [3], T(3), T(3)),
    op(f"{_F}.conv1d", T(1, 2, 1030), T(3, 2, 3), T(3)),
    op(f"{_F}.conv2d", T(1, 20, 6, 5), T(4, 20, 3, 3), T(4)),
    op(f"{_F}.embedding", I(3, 1025, of="index(7)"), T(7, 5)),
    op("torch.index_select", T(7, 5), 0, I(1025, of="index(7)")),
    op("torch.gather", T(7, 1025), 0, I(3, 1025, of="index(7)")),
    *each("torch.mm torch.matmul", T(17, 129), T(129, 15)),
    *each("torch.mm torch.matmul", T(33, 33), T(33, 33)),
    op("torch.bmm", T(2, 17, 17), T(2, 17, 17)),
    op("torch.bmm", T(3, 15, 65), T(3, 65, 31)),
    op(f"{_F}.linear", T(5, 65), T(33, 65), T(33)),
    *each("torch.cat", [T(3, 5), T(1025, 5), T(1, 5)], dim=0),
]

BROADCASTS: list[Row] = [
    *each("torch.add torch.sub torch.mul torch.maximum torch.minimum torch.pow", T(6, 11, of="positive"), T(6, 1)),
    *each("torch.add torch.sub torch.mul torch.maximum torch.minimum", T(6, 1), T(6, 11)),
    *each("torch.div", T(6, 11), T(6, 1, of="nonzero")),
    *each("torch.add torch.mul", T(1, 11), T(6, 1)),
    *each("torch.eq torch.lt torch.where", B(6, 1), T(6, 11), T(1, 11))[2:],
]

NOTHING_TO_DO: list[Row] = [
    *each("torch.clamp torch.clip", T(6, 11, of="uniform(-3, 3)"), -100.0, 100.0),
    op("torch.clamp_min", T(6, 11, of="uniform(-3, 3)"), -100.0),
    op("torch.clamp_max", T(6, 11, of="uniform(-3, 3)"), 100.0),
    *each("torch.relu torch.abs torch.round torch.floor torch.trunc torch.nan_to_num", T(6, 11, of="constant(2)")),
    *each("torch.cat torch.stack torch.hstack torch.vstack", [T(3, 5)]),
    op("torch.flip", T(1, 5), [0]),
    op("torch.flip", T(3, 1, 4), [1]),
    op("torch.roll", T(3, 5), 0, 0),
    op("torch.tril", T(4, 4), 3),
    op("torch.triu", T(4, 4), -3),
    op("torch.add", T(6, 11), 0),
    op("torch.mul", T(6, 11), 1),
    op("torch.pow", T(6, 11), 1),
    op("torch.masked_fill", T(6, 11), B(6, 11, of="constant(0)"), 1.0),
    op(f"{_F}.pad", T(3, 5), [0, 0]),
    op(f"{_F}.dropout", T(6, 11), 0.0, True),
    op("torch.index_select", T(5, 3), 0, I(5, of="steps")),
    op("torch.sum", T(3, 1, 5), dim=1),
    *without_backward(each("torch.var_mean torch.std_mean torch.var torch.std", T(0, 5), dim=0)),
    *each("torch.mean torch.sum torch.prod torch.nansum", T(0)),
]

OPTIONS: list[Row] = [
    *each("torch.sum torch.mean torch.prod torch.nansum torch.cumsum torch.cumprod",
          T(6, 300, of="uniform(0.9, 1.1)"), dim=1, dtype=_WIDER),
    *each(f"torch.softmax torch.log_softmax {_F}.softmax {_F}.log_softmax", T(6, 33), dim=1, dtype=_WIDER),
    *each("torch.sum torch.mean", T(4096, of="positive"), dtype=_WIDER),
    op("torch.sum", I(300, of="normal", dtype="int32")),
    op("torch.sum", I(300, of="index(100)", dtype="uint8")),
    op("torch.sum", I(300, of="constant(20000000)")),
    op("torch.cumsum", I(300, of="constant(100)", dtype="int8"), dim=0),
    forward("torch.bincount", I(40, of="index(9)"), minlength=3),
    forward("torch.bincount", I(40, of="index(9)"), minlength=20),
    forward("torch.argsort", T(4, 40, of="normal ties(4)"), dim=1, descending=True, stable=True),
    op("torch.sort", T(4, 40, of="normal ties(4)"), dim=1, descending=True, stable=True),
    op("torch.sort", T(4, 40, of="normal nan(0.1)"), dim=1),
    op("torch.sort", T(40, of="normal nan(0.1)")),
    op("torch.sort", T(4, 40, of="normal nan(0.1)"), dim=1, descending=True),
    forward("torch.bitwise_right_shift", I(6, 11, of="normal"), I(11, of="index(5)")),
    forward("torch.Tensor.__rshift__", I(6, 11, of="normal"), I(11, of="index(5)")),
    *[op(f"{_F}.max_pool{rank}d", T(2, 3, *(7,) * rank), 3, stride=2, ceil_mode=True, padding=1) for rank in (1, 2, 3)],
    *[op(f"{_F}.max_pool{rank}d", T(2, 3, *(8,) * rank), 3, stride=2, ceil_mode=True) for rank in (1, 2, 3)],
    *[op(f"{_F}.avg_pool{rank}d", T(2, 3, *(8,) * rank), 3, 2, ceil_mode=True) for rank in (1, 2, 3)],
    *[op(f"{_F}.avg_pool{rank}d", T(2, 3, *(8,) * rank), 3, 2, 1, True, False) for rank in (1, 2, 3)],
    op(f"{_F}.avg_pool2d", T(2, 3, 8, 7), 3, 2, divisor_override=5),
    op(f"{_F}.max_pool2d", T(2, 3, 12, 9), 2, dilation=(1, 2)),
    op(f"{_F}.max_pool2d", T(2, 3, 12, 9), (3, 2), (2, 1), (1, 0)),
    *[op(f"{_F}.adaptive_max_pool{rank}d", T(2, 3, *(9,) * rank), 4, return_indices=True) for rank in (1, 2, 3)],
    op(f"{_F}.max_pool2d", T(2, 3, 9, 8), 3, return_indices=True),
    op(f"{_F}.lp_pool2d", T(2, 3, 9, 8), 3.0, 2),
    op(f"{_F}.lp_pool1d", T(2, 3, 9), 3.0, 2),
    op(f"{_F}.local_response_norm", T(2, 7, 5), 4, alpha=0.5),
    op(f"{_F}.conv2d", T(1, 3, 11, 10), T(4, 3, 3, 3), dilation=(1, 2)),
    op(f"{_F}.conv2d", T(1, 3, 11, 10), T(4, 3, 3, 3), stride=(2, 1), padding=(0, 2)),
    op(f"{_F}.conv1d", T(1, 4, 11), T(6, 2, 3), groups=2, dilation=2),
    op("torch.lerp", T(6, 11, of="large"), T(6, 11), 1.0),
    op("torch.lerp", T(6, 11), T(6, 11, of="large"), 0.999),
    *[op(f"{_F}.scaled_dot_product_attention", T(2, 3, length, 8), T(2, 3, keys, 8), T(2, 3, keys, 8), is_causal=True)
      for length, keys in ((5, 9), (9, 5), (33, 33), (1, 17))],
    op(f"{_F}.scaled_dot_product_attention", T(2, 3, 5, 8), T(2, 3, 9, 8), T(2, 3, 9, 6), scale=0.3),
    *[forward(f"{_F}.max_unpool2d", T(1, 2, 3, 3), I(1, 2, 3, 3, of="plane_distinct(36, 2)"), 2, 2, 0, [6, 6])],
    *[forward(f"{_F}.max_unpool2d", T(1, 2, 3, 3), I(1, 2, 3, 3, of="plane_distinct(49, 2)"), 2, 2, 0, [7, 7])],
    *[row for name in ("index_add", "index_copy") for api in (f"torch.{name}", f"torch.Tensor.{name}",
      f"torch.Tensor.{name}_") for row in each(api, T(5, 7), 1, I(3, of="distinct(7)"), T(5, 3))],
    *[row for api in ("torch.index_fill", "torch.Tensor.index_fill", "torch.Tensor.index_fill_")
      for row in each(api, T(5, 7), 1, I(3, of="distinct(7)"), 2.5)],
    *each("torch.Tensor.flip torch.flip", T(5, 7), [1]),
    *without_backward(each("torch.Tensor.argsort", T(4, 40, of="normal ties(4)"), dim=1, stable=True)),
    *[forward("torch.bucketize", T(40, of="halves", grad=False), T(7, of="steps", grad=False), right=right)
      for right in (False, True)],
    *[forward("torch.isclose", T(6, 11, of="uniform(1, 1.1)"), T(6, 11, of="uniform(1, 1.1)"), **words)
      for words in ({"rtol": 0.03, "atol": 0.0}, {"rtol": 0.0, "atol": 0.05})],
    forward("torch.isclose", T(6, 11, of="normal nan"), T(6, 11, of="normal nan"), equal_nan=True),
    op("torch.transpose", T(3, 4, 5), -1, -3),
    *each("torch.sum torch.amax torch.cumsum torch.softmax", T(3, 4, 5), dim=-2),
    op("torch.cat", [T(3, 4, 2), T(3, 4, 5)], dim=-1),
    op("torch.stack", [T(3, 4), T(3, 4)], dim=-2),
    op("torch.gather", T(3, 5), -1, I(3, 2, of="index(5)")),
]  # fmt: skip

NUMBERS: list[Row] = [
    *each("torch.acosh torch.asinh torch.sqrt torch.log torch.log1p", T(16, 33, of="near_overflow(0.5) magnitude")),
    op("torch.exp2", T(16, 33, of="uniform(-12, 12)")),
    op("torch.addcdiv", T(6, 11), T(6, 11), T(6, 11, of="positive scaled(0.0001)")),
    op("torch.div", T(6, 11), T(6, 11, of="positive scaled(0.0001)")),
    *each(f"{_F}.cosine_similarity", T(6, 11, of="normal scaled(0.001)"), T(6, 11, of="normal scaled(0.001)")),
    op("torch.cdist", T(4, 3, of="normal shifted(30)"), T(4, 3, of="normal shifted(30)")),
    op("torch.pow", T(6, 11), T(6, 11, of="index(4)", grad=False)),
    op("torch.pow", T(6, 11, of="normal zeros(0.3)"), 2.0),
    op("torch.pow", T(6, 11, of="normal zeros(0.3)"), T(6, 11, of="constant(2)", grad=False)),
    *each("torch.norm torch.linalg.vector_norm", T(4, 9, of="constant(0)")),
    op("torch.linalg.vector_norm", T(4, 9, of="constant(0)"), dim=1),
    op(f"{_F}.normalize", T(4, 9, of="constant(0)")),
    *each(f"{_F}.layer_norm {_F}.rms_norm", T(4, 33, of="normal shifted(50)"), [33]),
    *each("torch.var torch.std", T(4, 300, of="normal shifted(50)"), dim=1),
    op(f"{_F}.layer_norm", T(4, 33, of="constant(0)"), [33]),
    op(f"{_F}.softmax", T(4, 33, of="constant(3)"), dim=1),
    op(f"{_F}.softmax", T(4, 33, of="large"), dim=1),
]

ROWS = [*BLOCKS, *BROADCASTS, *NOTHING_TO_DO, *OPTIONS, *NUMBERS]
