"""Models of transformers for pictures with text: CLIP, trained on contrast, and LLaVA, trained to answer."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.spec import Built, Setting, program

PICTURE = 49  # the token that stands for one patch of a picture


def _pictures(count: int, size: int) -> Any:
    """Pictures of values between zero and one, in float32."""
    import torch

    line = torch.linspace(0, 3, size)
    waves = torch.rand(count, 3, 3, 1, 1) * 3
    return (torch.sin(waves[:, :, 0] * line + waves[:, :, 1] * line[:, None] + waves[:, :, 2]) + 1) / 2


def normalised(pictures: Any, middle: tuple[float, ...], spread: tuple[float, ...]) -> Any:
    import torch

    return (pictures - torch.tensor(middle)[:, None, None]) / torch.tensor(spread)[:, None, None]


MIDDLE, SPREAD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


@program("clip", library="transformers")
def clip(setting: Setting) -> Built:
    import torch

    from benchmarks.zoo.torchvision_ops import prepare
    from benchmarks.zoo.various_models import worn

    prepare()
    from transformers import CLIPConfig, CLIPModel

    shared = {"num_hidden_layers": 2, "num_attention_heads": 4, "initializer_factor": 3.0}
    text = {"vocab_size": 100, "hidden_size": 48, "intermediate_size": 96, "max_position_embeddings": 16}
    text |= {"eos_token_id": 99, "pad_token_id": 98, "bos_token_id": 97, "projection_dim": 32}
    vision = {"hidden_size": 64, "intermediate_size": 128, "image_size": 24, "patch_size": 6, "projection_dim": 32}
    config = CLIPConfig(
        text_config=text | shared, vision_config=vision | shared, projection_dim=32, attn_implementation="eager"
    )
    dtype = getattr(torch, setting.dtype)
    model = CLIPModel(config)
    worn(model)
    model.to(setting.device, dtype).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.2)
    batches = []
    for _ in range(2):
        ids = torch.randint(0, 97, (4, 12))
        mask = torch.ones_like(ids)
        ids[:, 0] = 97
        for row, length in enumerate((12, 9, 7, 10)):
            ids[row, length - 1] = 99
            ids[row, length:] = 98
            mask[row, length:] = 0
        batches.append(
            {
                "input_ids": ids.to(setting.device),
                "attention_mask": mask.to(setting.device),
                "pixel_values": normalised(_pictures(4, 24), MIDDLE, SPREAD).to(setting.device, dtype),
            }
        )
    return Built(model, clip_step, batches, optimizer, None, {})


def clip_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    result = built.model(**built.batches[index], return_loss=True)
    built.optimizer.zero_grad()
    result.loss.backward()
    built.optimizer.step()
    with torch.no_grad():
        built.model.logit_scale.clamp_(0, 4.6052)
    return {"loss": result.loss, "logits": result.logits_per_image}


@program("llava", library="transformers")
def llava(setting: Setting) -> Built:
    """A CLIP picture encoder before a Llama; the encoder is frozen, and the last batch has padding on the left."""
    import torch

    from benchmarks.zoo.torchvision_ops import prepare
    from benchmarks.zoo.various_models import worn

    prepare()
    from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration

    vision = CLIPVisionConfig(
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=4,
        image_size=24,
        patch_size=8,
        initializer_factor=3.0,
    )
    text = LlamaConfig(
        vocab_size=128,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        pad_token_id=0,
        initializer_range=0.08,
    )
    config = LlavaConfig(
        vision_config=vision,
        text_config=text,
        image_token_id=PICTURE,
        vision_feature_layer=-2,
        vision_feature_select_strategy="default",
        image_seq_length=9,
        attn_implementation="sdpa",
    )
    dtype = getattr(torch, setting.dtype)
    model = LlavaForConditionalGeneration(config)
    worn(model)
    model.to(setting.device, dtype).train()
    model.model.vision_tower.requires_grad_(False)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3, weight_decay=0.0)
    batches = []
    for padded in ("right", "left"):
        ids = torch.randint(50, 128, (2, 26))
        ids[:, 3:12] = PICTURE
        mask, labels = torch.ones_like(ids), ids.clone()
        labels[:, :15] = -100
        if padded == "right":
            ids[1, 21:], mask[1, 21:], labels[1, 21:] = 0, 0, -100
        else:
            ids[1, 5:], labels[1, 5:] = ids[1, :-5].clone(), labels[1, :-5].clone()
            ids[1, :5], mask[1, :5], labels[1, :5] = 0, 0, -100
        batches.append(
            {
                "input_ids": ids.to(setting.device),
                "attention_mask": mask.to(setting.device),
                "labels": labels.to(setting.device),
                "pixel_values": normalised(_pictures(2, 24), MIDDLE, SPREAD).to(setting.device, dtype),
            }
        )
    return Built(model, llava_step, batches, optimizer, None, {"max_norm": 1.0})


def llava_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    result = built.model(**built.batches[index])
    built.optimizer.zero_grad()
    result.loss.backward()
    torch.nn.utils.clip_grad_norm_(built.model.parameters(), built.options["max_norm"])
    built.optimizer.step()
    return {"loss": result.loss, "logits": result.logits}
