"""Speech models of transformers: Whisper, trained to write down, and wav2vec 2.0, trained with CTC."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.spec import Built, Setting, program


@program("whisper", library="transformers")
def whisper(setting: Setting) -> Built:
    import torch

    from benchmarks.zoo.torchvision_ops import prepare
    from benchmarks.zoo.various_models import worn

    prepare()
    from transformers import WhisperConfig, WhisperForConditionalGeneration, get_linear_schedule_with_warmup

    config = WhisperConfig(
        vocab_size=120,
        num_mel_bins=16,
        d_model=48,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=96,
        decoder_ffn_dim=96,
        max_source_positions=30,
        max_target_positions=24,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=3,
        begin_suppress_tokens=None,
        suppress_tokens=None,
        init_std=0.1,
        attn_implementation="eager",
    )
    dtype = getattr(torch, setting.dtype)
    model = WhisperForConditionalGeneration(config)
    worn(model)
    model.to(setting.device, dtype).train()
    no_decay = [p for name, p in model.named_parameters() if name.endswith("bias") or "layer_norm" in name]
    decay = [p for p in model.parameters() if not any(p is other for other in no_decay)]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.1}, {"params": no_decay, "weight_decay": 0.0}], lr=1e-3
    )
    scheduler = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=2, num_training_steps=10)
    batches = []
    for _ in range(2):
        features = torch.randn(2, 16, 60).cumsum(-1) / 6
        features[1, :, 44:] = -1.0  # silence
        labels = torch.randint(4, 120, (2, 14))
        labels[:, 0] = 1
        labels[1, 9] = 2
        labels[1, 10:] = -100
        batches.append({"input_features": features.to(setting.device, dtype), "labels": labels.to(setting.device)})
    return Built(model, whisper_step, batches, optimizer, scheduler, {"max_norm": 1.0})


def whisper_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    result = built.model(**built.batches[index], use_cache=False)
    built.optimizer.zero_grad()
    result.loss.backward()
    torch.nn.utils.clip_grad_norm_(built.model.parameters(), built.options["max_norm"])
    built.optimizer.step()
    built.scheduler.step()
    return {"loss": result.loss, "logits": result.logits}


@program("wav2vec2", library="transformers")
def wav2vec2(setting: Setting) -> Built:
    """Two recordings of different lengths; the feature encoder is frozen, as is usual when such a model is tuned."""
    import torch

    from benchmarks.zoo.torchvision_ops import prepare
    from benchmarks.zoo.various_models import worn

    prepare()
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

    config = Wav2Vec2Config(
        vocab_size=20,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        conv_dim=(32, 32, 32),
        conv_stride=(5, 4, 2),
        conv_kernel=(10, 4, 2),
        num_feat_extract_layers=3,
        feat_extract_norm="group",
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=4,
        pad_token_id=0,
        ctc_loss_reduction="mean",
        ctc_zero_infinity=True,
        layerdrop=0.0,
        hidden_dropout=0.0,
        activation_dropout=0.0,
        attention_dropout=0.0,
        feat_proj_dropout=0.0,
        final_dropout=0.0,
        apply_spec_augment=False,
        initializer_range=0.1,
        attn_implementation="eager",
    )
    dtype = getattr(torch, setting.dtype)
    model = Wav2Vec2ForCTC(config)
    worn(model)
    model.freeze_feature_encoder()
    model.to(setting.device, dtype).train()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-3, betas=(0.9, 0.98), eps=1e-6, weight_decay=5e-3)
    batches, sounds = [], []
    for _ in range(2):
        time = torch.arange(1200) / 100
        pitch = torch.rand(2, 3, 1) * 9 + 1
        sound = torch.sin(pitch * time + torch.rand(2, 3, 1) * 6).sum(1) + 0.1 * torch.randn(2, 1200) + 0.5
        lengths = torch.tensor([1200, 850])
        mask = (torch.arange(1200) < lengths[:, None]).long()
        sounds.append(sound * mask)
        middle = (sound * mask).sum(-1, keepdim=True) / lengths[:, None]
        spread = (((sound - middle) * mask) ** 2).sum(-1, keepdim=True) / lengths[:, None]
        sound = (sound - middle) / torch.sqrt(spread + 1e-7) * mask
        labels = torch.randint(1, 20, (2, 9))
        labels[1, 6:] = -100
        batches.append(
            {
                "input_values": sound.to(setting.device, dtype),
                "attention_mask": mask.to(setting.device),
                "labels": labels.to(setting.device),
            }
        )
    return Built(model, wav2vec2_step, batches, optimizer, None, {"max_norm": 5.0, "sounds": sounds})


def wav2vec2_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    batch = built.batches[index]
    result = built.model(**batch)
    built.optimizer.zero_grad()
    result.loss.backward()
    torch.nn.utils.clip_grad_norm_(built.model.parameters(), built.options["max_norm"])
    built.optimizer.step()
    return {"loss": result.loss, "logits": result.logits}
