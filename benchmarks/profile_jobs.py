"""The training steps that ``profile_step`` times: a transformer and a convolutional net, in torch and in Paddle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def jobs(framework: str, device: str) -> dict[str, Callable[[], Any]]:
    if framework == "paddle":
        from benchmarks import profile_jobs_paddle

        return profile_jobs_paddle.jobs(device)
    return {"transformer": lambda: _transformer(device), "convnet": lambda: _convnet(device)}


class TorchJob:
    """One training step. ``device_seconds`` is there where the device keeps a time of its own."""

    def __init__(self, model: Any, batch: Any, loss: Callable[[Any, Any], Any], device: str, fused: bool) -> None:
        import torch

        self._model = model.to(device)
        self._batch = tuple(part.to(device) for part in batch)
        self._loss = loss
        self._optimizer = torch.optim.AdamW(self._model.parameters(), lr=1e-4, fused=fused or None)
        self._device = device
        if device != "cpu":
            self.device_seconds = self._device_seconds

    def step(self) -> Any:
        self._optimizer.zero_grad(set_to_none=True)
        loss = self._loss(self._model, self._batch)
        loss.backward()
        self._optimizer.step()
        return loss.detach()

    def wait(self) -> None:
        import torch

        if self._device != "cpu":
            torch.cuda.synchronize()

    def _device_seconds(self) -> float:
        """What torch's own profiler says that kernels and copies of one step took, all together."""
        import torch
        from torch.profiler import ProfilerActivity, profile

        steps = 3
        with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as recorded:
            for _ in range(steps):
                self.step()
            torch.cuda.synchronize()
        # What a kernel took is said twice: by itself, and by the call of the host that launched it.
        kernels = [event for event in recorded.key_averages() if event.device_type.name != "CPU"]
        return sum(event.self_device_time_total for event in kernels) / 1e6 / steps


def _transformer(device: str) -> TorchJob:
    import torch

    from benchmarks import workloads

    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    if device == "cpu":
        model = workloads.Encoder(vocabulary=1000, length=128, width=256, layers=3, hidden=1024, dropout=0.1)
        tokens = torch.randint(1000, (8, 129), generator=generator)
    else:
        model = workloads.Decoder(vocabulary=4096, length=1024, width=1024, layers=4).to(torch.bfloat16)
        tokens = torch.randint(4096, (8, 1025), generator=generator)
    batch = (tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
    return TorchJob(model, batch, workloads._classify_tokens, device, fused=device != "cpu")


def _convnet(device: str) -> TorchJob:
    import torch

    from benchmarks import workloads

    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(2)
    count, size = (8, 64) if device == "cpu" else (64, 160)
    batch = (torch.randn(count, 3, size, size, generator=generator), torch.randint(1000, (count,), generator=generator))
    return TorchJob(workloads.ResNet18(), batch, workloads._classify, device, fused=device != "cpu")
