"""Cases and measurements made by hand."""

from __future__ import annotations

from trueline.cases import Case, CaseMeasured, Evidence, Outcome, Status, Stored, TensorSpec
from trueline.records import Measurement, Statistics

STATISTICS = Statistics(6, -1.5, 2.0, float("nan"), 3.0, 1, 0, 0, 2, -3, 1, (0.1, -0.2))
MEASUREMENT = Measurement(
    count=6, equal=3, cosine=0.5, max_abs=1e-3, mean_abs=1e-4, max_rel=float("inf"), mean_rel=0.1, rmse=0.2,
    normalized=0.3, bias=-1e-5, max_ulp=4.0, mean_ulp=1.0, within=(0.1, 0.2, 0.3, float("nan")), nan_mismatch=0,
    infinity_mismatch=1, worst=4, worst_reference=float("-inf"), worst_candidate=1.0, reference_norm=2.0,
    candidate_norm=2.5, reference_max=1.5,
)  # fmt: skip


def case(number: int = 0, api: str = "torch.nn.functional.gelu") -> Case:
    return Case(
        api=api,
        arguments={"args": [{"$t": 0}, {"$tuple": [1, {"$float": "inf"}]}], "kwargs": {"approximate": "none"}},
        tensors=(
            TensorSpec("args.0", "bfloat16", (2, 3), (3, 1), True, STATISTICS, domain="positive"),
            TensorSpec("kwargs.mask", "bool", (), stored=Stored("runs/a", 0, 7)),
        ),
        gradients=(TensorSpec("out", "bfloat16", (2, 3)),),
        backward=True,
        autocast="bfloat16",
        seed=number,
        count=3,
        calls=("torch.nn.functional.gelu.0",),
        module="blocks.0",
        source="model.py:4 in forward",
    )


def measured(key: str) -> CaseMeasured:
    numbers = {"floor": float("nan"), "k": 2.0}
    evidence = Evidence("output", "out", "bfloat16", (2, 3), gold=MEASUREMENT, honest=MEASUREMENT, numbers=numbers)
    structure = Evidence("gradient", "args.0", "float32", (2, 3), structure="dtype is float32, not bfloat16")
    return CaseMeasured(key, Outcome(Status.RETURNED, seconds=0.1), Outcome(Status.RETURNED), (evidence, structure))
