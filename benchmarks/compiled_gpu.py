"""What recording the borders of a compiled model costs on a GPU, and whether CUDA graphs stay as they are below it.

    python -m benchmarks.compiled_gpu [--out FILE] [--widths 1024,2048] [--steps 20] [--only cost,same]

A decoder of four layers (Llama of transformers where it is installed, else one of the same build in plain torch), with
random weights in bfloat16, trains with AdamW, compiled by inductor and by ``mode="reduce-overhead"`` (CUDA graphs).
``same`` compares losses and parameters to the bit, graphs, compilations and recordings of CUDA graphs with the bare
program's, under capture at every level and under the watch. ``cost`` is the median step, bare and observed in turns,
and the peak of memory.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import hashlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

MODES = {"inductor": {}, "cuda_graphs": {"mode": "reduce-overhead"}}
WAYS = ("capture api", "capture module", "capture kernel", "watch")
TIMED = ("capture api", "watch")
LAYERS, TOKENS, BATCH, WORDS = 4, 512, 4, 8192
WARM = 6


class Block(nn.Module):
    """A block as Llama has it, in plain torch."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = width // 64
        self.before, self.after = nn.RMSNorm(width), nn.RMSNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(width, 4 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.before(x)
        heads = [part(y).unflatten(-1, (self.heads, 64)).transpose(1, 2) for part in (self.query, self.key, self.value)]
        y = nn.functional.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.out(y)
        y = self.after(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(LAYERS))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, WORDS, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def model_of(width: int) -> tuple[nn.Module, str]:
    try:
        from transformers import LlamaConfig, LlamaForCausalLM

        config = LlamaConfig(
            hidden_size=width, intermediate_size=4 * width, num_hidden_layers=LAYERS, num_attention_heads=width // 64,
            vocab_size=WORDS, use_cache=False,
        )  # fmt: skip

        class Logits(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.model = LlamaForCausalLM(config)

            def forward(self, tokens: torch.Tensor) -> torch.Tensor:
                return self.model(input_ids=tokens).logits  # type: ignore[no-any-return]

        return Logits(), "transformers"
    except ImportError:
        return Decoder(width), "plain torch"


class Training:
    """A compiled model and its steps."""

    def __init__(self, width: int, how: dict[str, Any]) -> None:
        torch._dynamo.reset()
        torch.manual_seed(0)
        made, self.build = model_of(width)
        self.net = made.cuda().to(torch.bfloat16)
        self.call = torch.compile(self.net, **how)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-4, fused=True)
        self.batches = [torch.randint(WORDS, (BATCH, TOKENS), device="cuda") for _ in range(4)]
        self.losses: list[torch.Tensor] = []

    def step(self, number: int) -> None:
        tokens = self.batches[number % len(self.batches)]
        torch.compiler.cudagraph_mark_step_begin()
        logits = self.call(tokens)
        loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.losses.append(loss.detach().clone())


@contextlib.contextmanager
def observed(way: str, folder: str) -> Any:
    import trueline

    if way == "bare":
        yield None
    elif way == "watch":
        with trueline.watch(Path(folder) / "run") as watch:
            yield watch
    else:
        with trueline.capture(Path(folder) / "run", level=way.removeprefix("capture "), data="stats") as capture:
            yield capture


def compilations() -> dict[str, Any]:
    from torch._dynamo.utils import counters, get_compilation_metrics

    return {
        "graphs": dict(counters["stats"]),
        "breaks": dict(counters["graph_break"]),
        "skipped_cuda_graphs": counters["inductor"].get("cudagraph_skips", 0),
        "frames": [(one.co_name, one.recompile_reason) for one in get_compilation_metrics()],
        "cuda_graphs": _cuda_graphs(),
    }


def _cuda_graphs() -> Any:
    """How many CUDA graphs torch's trees have recorded, and replayed nodes that are there."""
    try:
        from torch._inductor.cudagraph_trees import get_manager

        manager = get_manager(torch.cuda.current_device(), create_if_none_exists=False)
        return None if manager is None else manager.new_graph_id().id
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def fingerprint(training: Training) -> str:
    digest = hashlib.sha256()
    for value in [*training.losses, *training.net.parameters()]:
        digest.update(value.detach().float().cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


def run_once(width: int, how: dict[str, Any], way: str, steps: int, inside: bool) -> dict[str, Any]:
    """Everything of one run; with ``inside`` the first compilation happens below the observer, else before it."""
    torch._dynamo.utils.counters.clear()
    torch._dynamo.utils.clear_compilation_metrics()
    training = Training(width, how)
    with tempfile.TemporaryDirectory() as folder:
        first = 0
        if not inside:
            for first in range(3):
                training.step(first)
            first += 1
        with observed(way, folder):
            for number in range(first, steps):
                training.step(number)
        torch.cuda.synchronize()
        found = {"bits": fingerprint(training), **compilations()}
        if way.startswith("capture"):
            found["run"] = about_run(Path(folder) / "run")
    del training
    free()
    return found


def about_run(path: Path) -> dict[str, Any]:
    from trueline.store import open_run

    with open_run(path) as opened:
        reader = opened.rank(0)
        trace = reader.trace()
        borders = [
            trace.call(p)
            for p in range(len(trace))
            if trace.names[int(trace.columns[p, 3])].startswith("torch.compile.")
        ]
        outputs = [record for call in borders for record in call.outputs]
        return {
            "borders": len(borders),
            "names": sorted({call.name.split(".")[-1] + " " + call.api for call in borders})[:8],
            "outputs": len(outputs),
            "outputs_without_statistics": sum(record.statistics is None for record in outputs),
            "graphs": sum(event.get("kind") == "graph" for event in reader.events()),
            "not_recorded": dict(reader.certificate.not_recorded),
        }


def free() -> None:
    torch._dynamo.reset()
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


def same(width: int) -> list[dict[str, Any]]:
    found = []
    torch.use_deterministic_algorithms(True, warn_only=True)
    for mode, how in MODES.items():
        run_once(width, how, "bare", 6, True)  # what follows finds generated code in the cache, all alike
        for inside in (True, False):
            bare = run_once(width, how, "bare", 6, inside)
            again = run_once(width, how, "bare", 6, inside)
            for way in WAYS:
                seen = run_once(width, how, way, 6, inside)
                about = seen.pop("run", {})
                changed = {k: [bare[k], seen[k]] for k in bare if bare[k] != seen[k]}
                row = {"mode": mode, "inside": inside, "way": way, "changed": changed, "run": about,
                       "bare_steady": bare == again}  # fmt: skip
                print(json.dumps(row, default=str)[:900], flush=True)
                found.append(row)
    return found


def timed(step: Callable[[int], None], steps: int) -> list[float]:
    times = []
    for number in range(steps):
        torch.cuda.synchronize()
        began = time.perf_counter()
        step(number)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return times


def cost(width: int, mode: str, how: dict[str, Any], steps: int) -> dict[str, Any]:
    """Median step of each way; the bare program is timed before and after each observed one."""
    training = Training(width, how)
    for number in range(WARM):
        training.step(number)
    bare: list[float] = []
    found: dict[str, Any] = {"width": width, "mode": mode, "build": training.build}
    torch.cuda.reset_peak_memory_stats()
    bare += timed(training.step, steps)
    memory = torch.cuda.max_memory_allocated()
    for way in TIMED:
        with tempfile.TemporaryDirectory() as folder:
            torch.cuda.reset_peak_memory_stats()
            with observed(way, folder):
                for number in range(WARM):
                    training.step(number)
                times = timed(training.step, steps)
            found[way] = statistics.median(times)
            found[f"{way} memory"] = torch.cuda.max_memory_allocated() / memory
        bare += timed(training.step, steps)
    found["bare"] = statistics.median(bare)
    for way in TIMED:
        found[f"{way} ratio"] = found[way] / found["bare"]
    print(json.dumps(found), flush=True)
    del training
    free()
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", default="")
    parser.add_argument("--widths", default="1024,2048")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--only", default="cost,same")
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        print("no CUDA here: nothing was measured", file=sys.stderr)
        return 2
    torch.set_float32_matmul_precision("high")
    found: dict[str, Any] = {"torch": torch.__version__, "device": torch.cuda.get_device_name()}
    widths = [int(one) for one in options.widths.split(",")]
    if "cost" in options.only:
        found["cost"] = [cost(width, mode, how, options.steps) for width in widths for mode, how in MODES.items()]
        write(options.out, found)
    if "same" in options.only:
        found["same"] = same(widths[0])
    write(options.out, found)
    return 0


def write(path: str, found: dict[str, Any]) -> None:
    if path:
        Path(path).write_text(json.dumps(found, indent=1, default=str))


if __name__ == "__main__":
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    sys.exit(main())
