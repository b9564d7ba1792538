"""What is drawn for a case is the same to the last bit on every machine, in every draw."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from trueline.campaign.variants import another_draw
from trueline.cases import Case, TensorSpec
from trueline.replay.inputs import inputs_for

GOLDEN = {
    "any": "2e0cf4b62231b0e2",
    "narrow": "a8a2b4d368f152a2",
    "complex": "019e7c7b792d4706",
    "bools": "129ead5c7615e364",
    "integers": "7dc28a6d8b643e66",
    "compared": "7b6fe3f55b837e63",
    "asked": "632ad3009caee3a1",
    "positive": "10a4950871db6f51",
    "indices": "d70023c09812f810",
    "probabilities": "4e67e90830dd6321",
    "simplex": "a792ae8f68a94c66",
    "definite": "de89ea441cc5a435",
    "invertible": "52dca1de1f4a3014",
    "permuted": "91a16bddbe47467e",
    "moved": "cd173e6d80198842",
}

CALLS = {
    "any": ("torch.add", "", "float32"),
    "narrow": ("torch.mul", "", "bfloat16"),
    "complex": ("torch.mul", "", "complex64"),
    "bools": ("torch.where", "", "bool"),
    "integers": ("paddle.add", "normal", "int32"),
    "compared": ("paddle.equal", "", "float32"),
    "asked": ("paddle.isnan", "", "float64"),
    "positive": ("torch.log", "positive", "float64"),
    "indices": ("torch.gather", "index(9)", "int64"),
    "probabilities": ("torch.kl_div", "log_probability", "float64"),
    "simplex": ("torch.kl_div", "simplex", "float64"),
    "definite": ("torch.linalg.cholesky", "positive_definite", "float64"),
    "invertible": ("torch.linalg.inv", "invertible", "complex128"),
    "permuted": ("torch.take", "permutation", "int64"),
    "moved": ("torch.reshape", "", "float16"),
}


def digests() -> dict[str, str]:
    found = {}
    for name, (api, domain, dtype) in CALLS.items():
        spec = TensorSpec("args.0", dtype, (3, 8, 8), domain=domain)
        case = Case(api, {"args": [{"$t": 0}], "kwargs": {}}, (spec,), seed=12345)
        bits = b"".join(inputs_for(another_draw(case, draw)).tensors["args.0"].bits.tobytes() for draw in range(5))
        found[name] = hashlib.sha256(bits).hexdigest()[:16]
    return found


def test_bits_are_what_they_were() -> None:
    """A stored check may be executed again years later, elsewhere. Whoever makes values better changes these numbers,
    and with them what older checks are compared to."""
    assert digests() == GOLDEN


def test_a_machine_with_other_instructions_draws_the_same() -> None:
    """numpy without its vector units, and a BLAS for an old processor: other roundings wherever one is free."""
    root = Path(__file__).resolve().parents[2]
    environment = {
        **os.environ,
        "NPY_DISABLE_CPU_FEATURES": " ".join(np._core._multiarray_umath.__cpu_dispatch__),
        "OPENBLAS_CORETYPE": "Prescott",
        "PYTHONWARNINGS": "ignore",
        "PYTHONPATH": os.pathsep.join((str(root / "src"), str(root))),
    }
    script = "from tests.replay.test_draws import digests; print(sorted(digests().items()))"
    run = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == str(sorted(digests().items()))


def test_every_draw_has_a_seed_of_its_own() -> None:
    spec = TensorSpec("args.0", "float32", (64,))
    case = Case("torch.matmul", {"args": [{"$t": 0}], "kwargs": {}}, (spec,), seed=7)
    cases = [another_draw(case, number) for number in (0, 3, 4, 7)]  # all of plain values
    assert len({inputs_for(one).tensors["args.0"].bits.tobytes() for one in cases}) == 4
    assert len({one.key for one in cases}) == 4
