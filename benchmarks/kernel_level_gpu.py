"""A capture of every kernel on a GPU: it comes back, changes no bit, and what it costs.

    python -m benchmarks.kernel_level_gpu [--steps N]

A Llama of two layers with random weights (transformers) trains for a few steps, bare and captured at level kernel
with each kind of data. Losses, gradients and parameters must be equal to the bit. What hangs is ended, with all stacks,
after ``LIMIT`` seconds. Writes ``benchmarks/results/kernel_level_gpu.json``.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch

import trueline

LIMIT = 170
MODES = ("structure", "stats", "digest", "tensors")
RESULT = Path(__file__).parent / "results" / "kernel_level_gpu.json"


def model() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=1000,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
    )
    return LlamaForCausalLM(config).to("cuda", torch.bfloat16)


def trained(steps: int, capture: Any = None) -> tuple[str, float]:
    """A digest of losses, gradients and parameters, and the seconds of a step, the first one left out."""
    llama, seen = model(), hashlib.sha256()
    optimizer = torch.optim.AdamW(llama.parameters(), lr=1e-3)
    tokens = torch.randint(0, 1000, (4, 64), generator=torch.Generator().manual_seed(1)).cuda()
    times = []
    for _ in range(steps):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        optimizer.zero_grad()
        loss = llama(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begun)
        gradients = [one.grad for one in llama.parameters() if one.grad is not None]
        with torch.no_grad():
            for tensor in (loss, *gradients, *llama.parameters()):
                seen.update(tensor.detach().float().cpu().numpy().tobytes())
        if capture is not None:
            capture.step()
    return seen.hexdigest(), sum(times[1:]) / len(times[1:])


def captured(steps: int, data: str, folder: Path) -> dict[str, Any]:
    begun = time.perf_counter()
    with trueline.capture(folder / data, level="kernel", data=data) as capture:
        digest, seconds = trained(steps, capture)
    certificate = capture.certificate
    return {
        "digest": digest,
        "seconds_a_step": seconds,
        "seconds_in_all": time.perf_counter() - begun,
        "calls": dict(certificate.calls),
        "not_recorded": dict(certificate.not_recorded),
        "partial": certificate.partial,
    }


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--steps", type=int, default=3)
    steps = options.parse_args().steps
    faulthandler.dump_traceback_later(LIMIT, exit=True)
    torch.use_deterministic_algorithms(True, warn_only=True)
    trained(2)  # what is compiled and chosen once
    digest, seconds = trained(steps)
    again, _ = trained(steps)
    found: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "torch": str(torch.__version__),
        "steps": steps,
        "bare": {"digest": digest, "again": again, "seconds_a_step": seconds},
        "captured": {},
    }
    with tempfile.TemporaryDirectory() as folder:
        for data in MODES:
            one = captured(steps, data, Path(folder))
            one["same_bits"] = one.pop("digest") == digest
            one["times_bare"] = one["seconds_a_step"] / seconds
            found["captured"][data] = one
            print(data, json.dumps({name: one[name] for name in ("same_bits", "times_bare", "partial", "calls")}))
    found["passed"] = digest == again and all(
        one["same_bits"] and one["calls"] and not one["partial"] for one in found["captured"].values()
    )
    RESULT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print("passed" if found["passed"] else "failed", RESULT)
    return 0 if found["passed"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
