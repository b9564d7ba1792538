"""Graphs, recurrences, experts, losses, optimizers and other things that people compile."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.compiled.spec import How


class GraphLayer(nn.Module):
    """Attention over the edges of a graph, with a softmax over those that end in the same node."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.message, self.score = nn.Linear(2 * width, width), nn.Linear(2 * width, 1)
        self.update = nn.Linear(2 * width, width)

    def forward(self, nodes: torch.Tensor, sources: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        pairs = torch.cat([nodes[sources], nodes[targets]], dim=-1)
        scores = F.leaky_relu(self.score(pairs), 0.2)
        highest = torch.full((len(nodes), 1), -1e4, dtype=nodes.dtype)
        highest = highest.scatter_reduce(0, targets[:, None], scores.detach(), "amax")
        weights = (scores - highest[targets]).exp()
        total = torch.zeros(len(nodes), 1, dtype=nodes.dtype).index_add(0, targets, weights)
        messages = self.message(pairs) * weights / (total[targets] + 1e-6)
        gathered = torch.zeros_like(nodes).index_add(0, targets, messages)
        return F.elu(self.update(torch.cat([nodes, gathered], dim=-1)))


class GraphNet(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.layer_1, self.layer_2 = GraphLayer(width), GraphLayer(width)
        self.head = nn.Linear(width, 4)

    def forward(self, nodes: torch.Tensor, sources: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer_2(self.layer_1(nodes, sources, targets), sources, targets))


def graph_training(how: How) -> dict[str, Any]:
    model = GraphNet().to(how.type)
    run = how.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    nodes, labels = torch.randn(30, 16).to(how.type), torch.randint(0, 4, (30,))
    losses = []
    for _ in range(2):
        sources, targets = torch.randint(0, 30, (120,)), torch.randint(0, 30, (120,))
        output = run(nodes, sources, targets)
        loss = F.cross_entropy(output.float(), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    gradients = {f"grad.{n}": p.grad for n, p in model.named_parameters()}
    return {"losses": torch.stack(losses), "output": output.detach(), **gradients}


class Recurrence(nn.Module):
    """A long short-term memory that is written out as a loop."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.width = width
        self.inner, self.outer = nn.Linear(width, 4 * width), nn.Linear(width, 4 * width)
        self.head = nn.Linear(width, 1)

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        hidden = torch.zeros(len(series), self.width, dtype=series.dtype)
        cell = torch.zeros_like(hidden)
        for moment in range(series.shape[1]):
            gates = self.inner(series[:, moment]) + self.outer(hidden)
            entering, forgetting, new, leaving = gates.chunk(4, dim=-1)
            cell = forgetting.sigmoid() * cell + entering.sigmoid() * new.tanh()
            hidden = leaving.sigmoid() * cell.tanh()
        return self.head(hidden).squeeze(-1)


def recurrence_training(how: How) -> dict[str, Any]:
    model = Recurrence().to(how.type)
    run = how.compile(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, foreach=False)
    losses = []
    for _ in range(2):
        series = torch.randn(5, how.knobs.get("length", 4), 16).to(how.type)
        loss = F.smooth_l1_loss(run(series), series.sum((1, 2)) / 8)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.detach())
    return {"losses": torch.stack(losses), **{f"grad.{n}": p.grad for n, p in model.named_parameters()}}


class Experts(nn.Module):
    """Every token goes to the best two of four experts."""

    def __init__(self, width: int = 16, count: int = 4) -> None:
        super().__init__()
        self.count = count
        self.router = nn.Linear(width, count, bias=False)
        self.up = nn.Parameter(torch.randn(count, width, width) * width**-0.5)
        self.down = nn.Parameter(torch.randn(count, width, width) * width**-0.5)

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        chances = self.router(tokens).softmax(-1)
        best, which = chances.topk(2, dim=-1)
        best = best / best.sum(-1, keepdim=True)
        gates = torch.zeros_like(chances).scatter(-1, which, best)
        hidden = F.relu(torch.einsum("tw,ewh->eth", tokens, self.up)).square()
        answers = torch.einsum("eth,ehw->etw", hidden, self.down)
        mixed = torch.einsum("te,etw->tw", gates, answers)
        load = F.one_hot(which, self.count).sum((0, 1)).to(tokens.dtype) / len(tokens)
        return tokens + mixed, self.count * (load * chances.mean(0)).sum()


def experts_training(how: How) -> dict[str, Any]:
    model = Experts().to(how.type)
    run = how.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(2):
        tokens, wanted = torch.randn(24, 16).to(how.type), torch.randn(24, 16)
        with how.casting():
            output, balance = run(tokens)
            loss = F.mse_loss(output.float(), wanted) + 0.1 * balance
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    gradients = {f"grad.{n}": p.grad for n, p in model.named_parameters()}
    return {"losses": torch.stack(losses), "output": output.detach(), **gradients}


def contrastive_loss(images: torch.Tensor, texts: torch.Tensor, temperature: torch.Tensor) -> torch.Tensor:
    images = images / images.norm(dim=-1, keepdim=True).clamp(min=1e-6)
    texts = texts / texts.norm(dim=-1, keepdim=True).clamp(min=1e-6)
    scores = images @ texts.T * temperature.exp()
    positive = scores.diagonal()
    return ((scores.logsumexp(0) + scores.logsumexp(1)) / 2 - positive).mean()


def focal_loss(logits: torch.Tensor, wanted: torch.Tensor, power: float = 2.0) -> torch.Tensor:
    chance = logits.sigmoid()
    entropy = F.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
    right = torch.where(wanted > 0.5, chance, 1 - chance)
    weight = torch.where(wanted > 0.5, 0.25, 0.75)
    return (weight * (1 - right) ** power * entropy).mean()


def robust_loss(predicted: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    return F.huber_loss(predicted, wanted, delta=0.7) + F.smooth_l1_loss(predicted, wanted, beta=0.5)


def loss_functions(how: How) -> dict[str, Any]:
    """Three losses, each compiled by itself, with the gradients of what they are given."""
    made: dict[str, Any] = {}
    images, texts, heat = torch.randn(8, 12), torch.randn(8, 12), torch.tensor(2.5)
    logits, wanted = torch.randn(8, 12) * 3, (torch.rand(8, 12) > 0.7).float()
    cases = {
        "contrastive": (contrastive_loss, (images, texts, heat)),
        "focal": (focal_loss, (logits, wanted)),
        "robust": (robust_loss, (logits, wanted * 2)),
    }
    for name in how.knobs.get("losses", cases):
        function, inputs = cases[name]
        inputs = tuple(value.to(how.type).requires_grad_() for value in inputs)
        loss = how.compile(function)(*inputs)
        loss.backward()
        made |= {name: loss.detach(), **{f"{name}.grad.{i}": value.grad for i, value in enumerate(inputs)}}
    return made


class Mixer(nn.Module):
    """What the optimizers below have to train."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(12, 20), nn.LayerNorm(20), nn.Linear(20, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.norm(self.first(x)).relu())


def optimizer_step(how: How) -> dict[str, Any]:
    """The step of an optimizer of torch is what is compiled."""
    model = Mixer().to(how.type)
    kind = getattr(torch.optim, how.knobs.get("optimizer", "AdamW"))
    optimizer = kind(
        model.parameters(), **how.knobs.get("settings", {"lr": 1e-2, "weight_decay": 0.3, "foreach": True})
    )
    step = how.compile(optimizer.step)
    for _ in range(4):
        x = torch.randn(8, 12).to(how.type)
        optimizer.zero_grad()
        (model(x).square().sum() * 1e-3).backward()
        step()
    return {name: value.detach() for name, value in model.named_parameters()}


def adam_update(
    values: list[torch.Tensor], grads: list[torch.Tensor], firsts: list[torch.Tensor], seconds: list[torch.Tensor],
    step: torch.Tensor, rate: float,
) -> None:  # fmt: skip
    """Adam, as people write it by hand, with the norm of the gradients clipped."""
    norm = torch.sqrt(sum(grad.square().sum() for grad in grads))
    share = (1.0 / (norm + 1e-6)).clamp(max=1.0)
    step.add_(1)
    for value, grad, first, second in zip(values, grads, firsts, seconds, strict=True):
        grad = grad * share
        first.lerp_(grad, 0.1)
        second.mul_(0.99).addcmul_(grad, grad, value=0.01)
        wide = (second / (1 - 0.99**step)).sqrt() + 1e-3
        value.mul_(1 - rate * 0.1)
        value.sub_(rate * (first / (1 - 0.9**step)) / wide)


def update_by_hand(how: How) -> dict[str, Any]:
    model = Mixer()
    values = [value.detach() for value in model.parameters()]
    firsts, seconds = [[torch.zeros_like(value) for value in values] for _ in range(2)]
    step = torch.zeros(())
    run = how.compile(adam_update)
    for _ in range(4):
        x = torch.randn(8, 12)
        model.zero_grad()
        model(x).square().mean().backward()
        run(values, [value.grad for value in model.parameters()], firsts, seconds, step, 1e-2)
    return {
        **{n: v.detach() for n, v in model.named_parameters()},
        "first": firsts[0],
        "second": seconds[0],
        "step": step,
    }


class Pooled(nn.Module):
    """A classifier of sentences of any length: attention pooling over what is not padding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.score, self.head = nn.Linear(16, 1), nn.Linear(32, 3)

    def forward(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        there = torch.arange(tokens.shape[1])[None] < lengths[:, None]
        weights = self.score(x).squeeze(-1).masked_fill(~there, float("-inf")).softmax(-1)
        mean = (x * there[..., None]).sum(1) / tokens.shape[1]
        return self.head(torch.cat([mean, (weights[..., None] * x).sum(1)], dim=-1))


def sentences(how: How) -> dict[str, Any]:
    """Batches of other lengths, trained and scored."""
    model = Pooled().to(how.type)
    run = how.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    made: dict[str, Any] = {}
    for index, length in enumerate((7, 12, 9)):
        tokens, lengths = torch.randint(0, 50, (4, length)), torch.randint(3, length, (4,))
        logits = run(tokens, lengths)
        loss = F.cross_entropy(logits.float(), torch.tensor([0, 1, 2, 1]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        made |= {f"logits.{index}": logits.detach(), f"grad.{index}": model.embedding.weight.grad.clone()}
    return made


class Noisy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(16, 32), nn.Linear(32, 32), nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.dropout(F.relu(self.first(x)), 0.3, self.training)
        x = F.dropout(F.relu(self.second(x)), 0.3, self.training)
        return self.third(x)


def dropout_training(how: How) -> dict[str, Any]:
    model = Noisy().to(how.type)
    run = how.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    made: dict[str, Any] = {}
    for index in range(3):
        x, labels = torch.randn(16, 16).to(how.type), torch.randint(0, 4, (16,))
        with how.casting():
            loss = F.cross_entropy(run(x).float(), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        made[f"loss.{index}"] = loss.detach()
    gradients = {f"grad.{n}": p.grad for n, p in model.named_parameters()}
    model.eval()
    made["evaluated"] = run(torch.randn(16, 16).to(how.type)).detach()
    return {**made, **gradients}


class Talkative(nn.Module):
    """Breaks its graph in two, by a decision about values."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 16), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.first(x))
        if x.abs().mean().item() > 0.2:
            x = x * 1.5
        return F.log_softmax(self.second(x), dim=-1)


def broken_graph(how: How) -> dict[str, Any]:
    model = Talkative().to(how.type)
    run = how.compile(model)
    made: dict[str, Any] = {}
    for index in range(2):
        output = run(torch.randn(6, 16).to(how.type))
        output[:, 0].sum().backward()
        made[f"output.{index}"] = output.detach()
    return {**made, **{f"grad.{n}": p.grad for n, p in model.named_parameters()}}


class Teacher(nn.Module):
    """A model with running statistics that its own forward keeps up to date."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(16, 8)
        self.register_buffer("center", torch.zeros(8))
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.project(x)
        centered = y - self.center
        self.center.mul_(0.9).add_(0.1 * y.detach().mean(0))
        self.seen.add_(len(x))
        return centered.softmax(-1) + self.seen * 1e-3


def teacher_statistics(how: How) -> dict[str, Any]:
    model = Teacher()
    run = how.compile(model)
    made: dict[str, Any] = {}
    with torch.no_grad():
        for index in range(4):
            made[f"output.{index}"] = run(torch.randn(6, 16) + 1)
    return {**made, "center": model.center, "seen": model.seen}


class Signal(nn.Module):
    """Level and energy of long signals in half precision, and a head on both."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        level = x.mean(-1)
        energy = x.float().pow(2).mean(-1).sqrt()
        return self.head(torch.cat([level.float(), energy], dim=-1) / 100)


def signal_pooling(how: How) -> dict[str, Any]:
    model = Signal().eval()
    run = how.compile(model)
    with torch.no_grad():
        return {f"output.{index}": run((torch.randn(2, 4, 900) * 200 + 150).half()) for index in range(2)}
