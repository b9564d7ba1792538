"""A Llama of two layers, trained for two steps."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.spec import Built, Setting, program


@program("llama", library="transformers")
def llama(setting: Setting) -> Built:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=160,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        attn_implementation="eager",
    )
    model = LlamaForCausalLM(config).to(setting.device, getattr(torch, setting.dtype)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batches = [torch.randint(0, 160, (2, 24), device=setting.device) for _ in range(2)]
    return Built(model, step, batches, optimizer)


def step(built: Built, index: int) -> dict[str, Any]:
    batch = built.batches[index]
    result = built.model(input_ids=batch, labels=batch)
    built.optimizer.zero_grad()
    result.loss.backward()
    built.optimizer.step()
    return {"loss": result.loss, "logits": result.logits}
