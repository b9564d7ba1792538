"""A Qwen2 of two layers that is tuned with adapters of peft: LoRA, DoRA and IA3."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.spec import Built, Setting, program


def _base() -> Any:
    from benchmarks.zoo.torchvision_ops import prepare

    prepare()
    from transformers import Qwen2Config, Qwen2ForCausalLM

    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=140,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=64,
            initializer_range=0.08,
            tie_word_embeddings=True,
            attn_implementation="eager",
        )
    )


def _tuned(config: Any, setting: Setting, **optimizing: Any) -> Built:
    import torch
    from peft import get_peft_model
    from transformers import get_cosine_schedule_with_warmup

    from benchmarks.zoo.various_models import worn

    dtype = getattr(torch, setting.dtype)
    model = get_peft_model(_base(), config, autocast_adapter_dtype=False)
    with torch.no_grad():  # as if it had been tuned for a while: adapters begin with zeros or ones
        for name, parameter in model.named_parameters():
            if "lora_B" in name or "ia3_l" in name:
                parameter.add_(torch.randn_like(parameter) * 0.05)
    worn(model)
    model.to(setting.device, dtype).train()
    trained = [p for p in model.parameters() if p.requires_grad]
    name = optimizing.pop("name", "AdamW")
    optimizer = getattr(torch.optim, name)(trained, **optimizing)
    scheduler = get_cosine_schedule_with_warmup(optimizer, num_warmup_steps=0, num_training_steps=8)
    batches = []
    for _ in range(4):
        ids = torch.randint(5, 140, (2, 20))
        mask, labels = torch.ones_like(ids), ids.clone()
        labels[:, :6] = -100
        mask[1, 15:], labels[1, 15:] = 0, -100
        batches.append({"input_ids": ids, "attention_mask": mask, "labels": labels})
    batches = [{name: value.to(setting.device) for name, value in batch.items()} for batch in batches]
    return Built(model, step, batches, optimizer, scheduler, {"max_norm": 2.0, "accumulated": 2})


def step(built: Built, index: int) -> dict[str, Any]:
    """One update from two batches, whose gradients are accumulated."""
    import torch

    count = built.options["accumulated"]
    given: dict[str, Any] = {}
    for part in range(count):
        result = built.model(**built.batches[index * count + part], use_cache=False)
        loss = result.loss / count
        loss.backward()
        given |= {f"loss {part}": result.loss, f"logits {part}": result.logits}
    torch.nn.utils.clip_grad_norm_(built.model.parameters(), built.options["max_norm"])
    built.optimizer.step()
    built.scheduler.step()
    built.optimizer.zero_grad()
    return given


@program("lora", library="peft")
def lora(setting: Setting) -> Built:
    from benchmarks.zoo.torchvision_ops import prepare

    prepare()
    from peft import LoraConfig

    config = LoraConfig(
        r=4,
        lora_alpha=16,
        target_modules=["q_proj", "v_proj", "up_proj"],
        lora_dropout=0.0,
        task_type="CAUSAL_LM",
    )
    return _tuned(config, setting, name="SGD", lr=0.05, momentum=0.9)


@program("lora-dropout", library="peft")
def lora_dropout(setting: Setting) -> Built:
    from benchmarks.zoo.torchvision_ops import prepare

    prepare()
    from peft import LoraConfig

    config = LoraConfig(
        r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], lora_dropout=0.1, task_type="CAUSAL_LM"
    )
    return _tuned(config, setting, lr=2e-3, weight_decay=0.01)


@program("dora", library="peft")
def dora(setting: Setting) -> Built:
    from benchmarks.zoo.torchvision_ops import prepare

    prepare()
    from peft import LoraConfig

    config = LoraConfig(
        r=4,
        lora_alpha=8,
        target_modules=["q_proj", "k_proj", "v_proj", "o_proj"],
        lora_dropout=0.0,
        use_dora=True,
        task_type="CAUSAL_LM",
    )
    return _tuned(config, setting, lr=2e-3, weight_decay=0.01)


@program("ia3", library="peft")
def ia3(setting: Setting) -> Built:
    from benchmarks.zoo.torchvision_ops import prepare

    prepare()
    from peft import IA3Config

    config = IA3Config(
        target_modules=["k_proj", "v_proj", "down_proj"], feedforward_modules=["down_proj"], task_type="CAUSAL_LM"
    )
    return _tuned(config, setting, lr=3e-3, weight_decay=0.0)
