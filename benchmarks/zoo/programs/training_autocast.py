"""A small Pythia (GPT-NeoX) in automatic mixed precision with a gradient scaler."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.programs.training_parts import upcast, worn
from benchmarks.zoo.spec import Built, Setting, program

VOCABULARY = 112
BOUNDARY = 2


@program("pythia-autocast", library="transformers", steps=3)
def pythia(setting: Setting) -> Built:
    import torch
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    config = GPTNeoXConfig(
        vocab_size=VOCABULARY,
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=96,
        max_position_embeddings=48,
        rotary_pct=0.5,
        initializer_range=0.06,
        use_cache=False,
        attn_implementation="eager",
    )
    model = worn(GPTNeoXForCausalLM(config)).to(setting.device, getattr(torch, setting.dtype)).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    drawn = torch.Generator().manual_seed(6)
    batches = [pack(drawn) for _ in range(3)]
    return Built(model, step, batches, optimizer, options={"scaler": scaler, "z": 0.05})


def pack(drawn: Any) -> dict[str, Any]:
    """Documents of several lengths, each with a boundary token, one after another in rows of full length."""
    import torch

    rows, positions = [], []
    for _ in range(3):
        tokens, places = [], []
        while len(tokens) < 24:
            length = int(torch.randint(4, 12, (), generator=drawn))
            start = int(torch.randint(4, VOCABULARY - 12, (), generator=drawn))
            document = [BOUNDARY, *(start + torch.arange(length)).tolist()]
            tokens += document
            places += range(len(document))
        rows.append(tokens[:24])
        positions.append(places[:24])
    return {"input_ids": torch.tensor(rows), "position_ids": torch.tensor(positions)}


def packed_labels(input_ids: Any) -> Any:
    """No token predicts the boundary in front of the next document."""
    return input_ids.masked_fill(input_ids == BOUNDARY, -100)


def language_loss(logits: Any, labels: Any, z: float) -> Any:
    import torch

    logits = upcast(logits[:, :-1]).flatten(0, 1)
    labels = labels[:, 1:].flatten()
    entropy = torch.nn.functional.cross_entropy(logits, labels, ignore_index=-100)
    keep = (labels != -100).to(logits.dtype)
    norms = torch.logsumexp(logits, dim=-1)
    return entropy + z * (norms.square() * keep).sum() / keep.sum()


def step(built: Built, index: int) -> dict[str, Any]:
    import torch

    model, optimizer, scaler = built.model, built.optimizer, built.options["scaler"]
    batch = built.batches[index]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(input_ids=batch["input_ids"], position_ids=batch["position_ids"]).logits
    loss = language_loss(logits, packed_labels(batch["input_ids"]), built.options["z"])
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    return {"loss": loss, "logits": logits}
