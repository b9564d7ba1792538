"""A recurrent language model, as in the examples of torch: the state is carried over from one piece to the next."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.spec import Built, Setting, program


@program("lstm-lm", library="torch", steps=3)
def lstm_lm(setting: Setting) -> Built:
    import torch

    from benchmarks.zoo.various_models import RNNModel, worn

    dtype = getattr(torch, setting.dtype)
    model = RNNModel()
    worn(model)
    model.to(setting.device, dtype).train()
    hidden = tuple(torch.zeros(2, 4, 48, device=setting.device, dtype=dtype) for _ in range(2))
    text = torch.randint(0, 90, (4, 37)).T.contiguous().to(setting.device)
    batches = [(text[at : at + 12], text[at + 1 : at + 13].reshape(-1)) for at in range(0, 36, 12)]
    options = {"hidden": hidden, "lr": 2.0, "max_norm": 0.1}
    return Built(model, lstm_lm_step, batches, None, None, options)


def lstm_lm_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    words, targets = built.batches[index]
    built.model.zero_grad()
    hidden = tuple(part.detach() for part in built.options["hidden"])
    output, hidden = built.model(words, hidden)
    loss = torch.nn.functional.nll_loss(output, targets)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(built.model.parameters(), built.options["max_norm"])
    for parameter in built.model.parameters():
        parameter.data.add_(parameter.grad, alpha=-built.options["lr"])
    built.options["hidden"] = hidden
    return {"loss": loss, "output": output, "hidden": hidden[0]}


@program("gru-tagger", library="torch")
def gru_tagger(setting: Setting) -> Built:
    """A tagger of sentences of different lengths, which are packed, with a GRU that reads in both directions."""
    import torch

    from benchmarks.zoo.various_models import Tagger, worn

    model = Tagger()
    worn(model)
    model.to(setting.device, getattr(torch, setting.dtype)).train()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3, alpha=0.9, eps=1e-6, momentum=0.5)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    batches = []
    for _ in range(3):
        words, tags = torch.randint(1, 60, (3, 11)), torch.randint(0, 7, (3, 11))
        lengths = torch.tensor([8, 11, 5])
        beyond = torch.arange(11) >= lengths[:, None]
        words[beyond], tags[beyond] = 0, -100
        batches.append((words.to(setting.device), lengths, tags.to(setting.device)))
    return Built(model, gru_tagger_step, batches, optimizer, scheduler, {})


def gru_tagger_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    words, lengths, tags = built.batches[index]
    logits = built.model(words, lengths)
    loss = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), tags.flatten(), ignore_index=-100, label_smoothing=0.1
    )
    built.optimizer.zero_grad()
    loss.backward()
    built.optimizer.step()
    built.scheduler.step()
    return {"loss": loss, "logits": logits}
