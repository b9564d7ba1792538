"""Models with states instead of attention: Mamba, Mamba-2, Falcon-Mamba and RWKV."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.programs.encoders_bert import VOCABULARY, lively, train_step
from benchmarks.zoo.programs.encoders_experts import text_batch
from benchmarks.zoo.spec import Built, Setting, program

NO_DECAY = ("A_log", ".D", "bias", "norm")


def left_padded(setting: Setting, lengths: tuple[int, ...], width: int) -> dict[str, Any]:
    """Texts of several lengths, padded on the left."""
    batch = text_batch(setting, lengths, width)
    return {name: value.flip(1).contiguous() for name, value in batch.items()}


def biased(model: Any) -> Any:
    """The model with biases of its convolutions that are not zero, as after some training."""
    import torch

    with torch.no_grad():
        for name, value in model.named_parameters():
            if name.endswith("conv1d.bias"):
                value.normal_(0.0, 0.05)
    return model


@program("mamba", library="transformers", steps=3)
def mamba(setting: Setting) -> Built:
    """A Mamba trained on texts that are padded on the left; its decays and skips are not decayed."""
    import torch
    from transformers import MambaConfig, MambaForCausalLM

    config = MambaConfig(
        vocab_size=VOCABULARY,
        hidden_size=48,
        state_size=8,
        num_hidden_layers=2,
        expand=2,
        conv_kernel=4,
        time_step_rank=4,
        initializer_range=0.2,
        residual_in_fp32=False,
        pad_token_id=0,
    )
    model = biased(MambaForCausalLM(config)).to(setting.device, getattr(torch, setting.dtype)).train()
    named = list(model.named_parameters())
    free = [value for name, value in named if any(part in name for part in NO_DECAY)]
    decayed = [value for name, value in named if not any(part in name for part in NO_DECAY)]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": free, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95))
    batches = [left_padded(setting, lengths, 14) for lengths in ((14, 9), (6, 14), (14, 11))]
    return Built(model, train_step, batches, optimizer)


@program("mamba2", library="transformers")
def mamba2(setting: Setting) -> Built:
    """A Mamba-2 with two groups and chunks that do not divide the texts."""
    import torch
    from transformers import Mamba2Config, Mamba2ForCausalLM

    config = Mamba2Config(
        vocab_size=VOCABULARY,
        hidden_size=32,
        expand=2,
        num_heads=8,
        head_dim=8,
        state_size=8,
        n_groups=2,
        chunk_size=8,
        conv_kernel=4,
        num_hidden_layers=2,
        initializer_range=0.2,
        residual_in_fp32=False,
        time_step_limit=(0.0, 0.08),
        pad_token_id=0,
    )
    model = biased(Mamba2ForCausalLM(config)).to(setting.device, getattr(torch, setting.dtype)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.05)
    batches = [left_padded(setting, lengths, 21) for lengths in ((21, 16), (12, 21))]
    return Built(model, train_step, batches, optimizer)


@program("falconmamba", library="transformers")
def falconmamba(setting: Setting) -> Built:
    """A Falcon-Mamba that reads two batches and continues each with its cache, one token after another."""
    import torch
    from transformers import FalconMambaConfig, FalconMambaForCausalLM

    config = FalconMambaConfig(
        vocab_size=VOCABULARY,
        hidden_size=48,
        state_size=8,
        num_hidden_layers=2,
        expand=2,
        conv_kernel=4,
        time_step_rank=4,
        initializer_range=0.2,
        residual_in_fp32=False,
        mixer_rms_eps=1e-6,
        pad_token_id=0,
    )
    model = biased(FalconMambaForCausalLM(config)).to(setting.device, getattr(torch, setting.dtype)).eval()
    batches = [left_padded(setting, lengths, 10) for lengths in ((10, 7), (5, 10))]
    forced = [torch.randint(5, VOCABULARY, (2, 4), device=setting.device) for _ in batches]
    return Built(model, decode_step, batches, options={"continuations": forced})


def decode_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    batch = built.batches[index]
    with torch.no_grad():
        result = built.model(
            input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], use_cache=True
        )
        given = {"prompt": result.logits}
        for position, token in enumerate(built.options["continuations"][index].T):
            result = built.model(input_ids=token[:, None], cache_params=result.cache_params, use_cache=True)
            given[f"token {position}"] = result.logits
    return given


def rwkv_config() -> Any:
    from transformers import RwkvConfig

    return RwkvConfig(
        vocab_size=VOCABULARY,
        context_length=64,
        hidden_size=32,
        num_hidden_layers=3,
        intermediate_size=96,
        rescale_every=2,
        pad_token_id=0,
    )


def rwkv_model(setting: Setting) -> Any:
    import torch
    from transformers import RwkvForCausalLM

    model = lively(RwkvForCausalLM(rwkv_config()))
    with torch.no_grad():
        model.rwkv.embeddings.weight.normal_(0.0, 0.5)
    return model.to(setting.device, getattr(torch, setting.dtype))


@program("rwkv", library="transformers", steps=3)
def rwkv(setting: Setting) -> Built:
    """An RWKV of the fourth version, trained by Adam."""
    import torch

    model = rwkv_model(setting).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=6e-4, betas=(0.9, 0.99), eps=1e-8)
    batches = []
    for lengths in ((14, 9), (11, 14), (14, 6)):
        batch = text_batch(setting, lengths, 14)
        batches.append({name: value for name, value in batch.items() if name != "attention_mask"})
    return Built(model, train_step, batches, optimizer)


@program("rwkv-generate", library="transformers")
def rwkv_generate(setting: Setting) -> Built:
    """An RWKV that reads a text with its state and continues it."""
    import torch

    model = rwkv_model(setting).eval()
    batches = [torch.randint(5, VOCABULARY, (2, 9), device=setting.device) for _ in range(2)]
    forced = [torch.randint(5, VOCABULARY, (2, 4), device=setting.device) for _ in batches]
    return Built(model, continue_step, batches, options={"continuations": forced})


def continue_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    with torch.no_grad():
        result = built.model(input_ids=built.batches[index], use_cache=True)
        given = {"prompt": result.logits}
        for position, token in enumerate(built.options["continuations"][index].T):
            result = built.model(input_ids=token[:, None], state=result.state, use_cache=True)
            given[f"token {position}"] = result.logits
    return given
