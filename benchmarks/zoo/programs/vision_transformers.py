"""Vision models of transformers: segmentation, features with masked patches, and detection by set prediction."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo import torchvision_ops
from benchmarks.zoo.programs import vision_data as data
from benchmarks.zoo.spec import Built, Setting, program


def ready(model: Any, setting: Setting, gain: float = 1.0) -> Any:
    import torch

    return data.as_if_trained(model, gain).to(setting.device, getattr(torch, setting.dtype)).train()


def placed(value: Any, setting: Setting) -> Any:
    import torch

    return value.to(setting.device, getattr(torch, setting.dtype) if value.is_floating_point() else None)


@program("segformer", library="transformers", steps=2)
def segformer(setting: Setting) -> Built:
    """SegFormer with two stages of two layers, trained on pictures that are wider than high, with a border ignored."""
    torchvision_ops.prepare()
    import torch
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    config = SegformerConfig(
        num_encoder_blocks=2,
        depths=[2, 2],
        sr_ratios=[4, 2],
        hidden_sizes=[16, 32],
        patch_sizes=[7, 3],
        strides=[4, 2],
        num_attention_heads=[1, 2],
        mlp_ratios=[2, 2],
        decoder_hidden_size=32,
        drop_path_rate=0.0,
        classifier_dropout_prob=0.1,
        num_labels=6,
        semantic_loss_ignore_index=255,
        attn_implementation="eager",
    )
    model = ready(SegformerForSemanticSegmentation(config), setting, gain=4.0)
    head = list(model.decode_head.parameters())
    optimizer = torch.optim.AdamW(
        [{"params": model.segformer.parameters(), "lr": 6e-4}, {"params": head, "lr": 3e-3}],
        weight_decay=0.01,
        eps=1e-6,
    )
    batches = [
        (
            placed(data.normalised(data.pictures(2, 64, 96, seed=130 + i)), setting),
            data.segments(2, 64, 96, seed=130 + i).to(setting.device),
        )
        for i in range(2)
    ]
    return Built(model, segformer_step, batches, optimizer)


def segformer_step(built: Built, index: int) -> dict[str, Any]:
    images, target = built.batches[index]
    result = built.model(pixel_values=images, labels=target)
    built.optimizer.zero_grad()
    result.loss.backward()
    built.optimizer.step()
    return {"loss": result.loss, "logits": result.logits}


@program("dinov2", library="transformers", steps=2)
def dinov2(setting: Setting) -> Built:
    """DINOv2 with gated feed-forward layers on pictures of another size than it was made for; a linear classifier."""
    torchvision_ops.prepare()
    import torch
    from transformers import Dinov2Config, Dinov2ForImageClassification

    config = Dinov2Config(
        hidden_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        mlp_ratio=3,
        image_size=56,
        patch_size=14,
        use_swiglu_ffn=True,
        layerscale_value=0.5,
        initializer_range=0.1,
        num_labels=8,
        attn_implementation="eager",
    )
    model = ready(Dinov2ForImageClassification(config), setting)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.04, eps=1e-6)
    batches = [
        (
            placed(data.normalised(data.pictures(3, 70, 84, seed=140 + i)), setting),
            data.classes(3, 8, seed=140 + i).to(setting.device),
        )
        for i in range(2)
    ]
    return Built(model, dinov2_step, batches, optimizer)


def dinov2_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    images, target = built.batches[index]
    result = built.model(pixel_values=images, labels=target)
    built.optimizer.zero_grad()
    result.loss.backward()
    torch.nn.utils.clip_grad_norm_(built.model.parameters(), 1.0)
    built.optimizer.step()
    return {"loss": result.loss, "logits": result.logits}


@program("detr", library="transformers", steps=2, dtypes=("float32",))
def detr(setting: Setting) -> Built:
    """DETR with a small ResNet, two layers in encoder and decoder, padded pictures and auxiliary losses."""
    torchvision_ops.prepare()
    import torch
    from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig

    trunk = ResNetConfig(
        embedding_size=16,
        hidden_sizes=[16, 24, 32, 48],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=["stage4"],
    )
    config = DetrConfig(
        use_timm_backbone=False,
        backbone=None,
        use_pretrained_backbone=False,
        backbone_config=trunk,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        num_queries=8,
        num_labels=5,
        dropout=0.0,
        auxiliary_loss=True,
        attn_implementation="eager",
    )
    model = ready(DetrForObjectDetection(config), setting, gain=4.0)
    trunk_parameters = [value for name, value in model.named_parameters() if "backbone" in name]
    others = [value for name, value in model.named_parameters() if "backbone" not in name]
    optimizer = torch.optim.AdamW([{"params": others}, {"params": trunk_parameters, "lr": 1e-4}], lr=1e-3, eps=1e-6)
    batches = []
    for i in range(2):
        images = torch.zeros(2, 3, 96, 128)
        mask = torch.zeros(2, 96, 128, dtype=torch.long)
        labels = []
        for j, (height, width) in enumerate(((96, 128), (80, 96))):
            seed = 150 + 2 * i + j
            images[j, :, :height, :width] = data.normalised(data.pictures(1, height, width, seed=seed))[0]
            mask[j, :height, :width] = 1
            found = data.boxes(1, height, width, seed=seed)[0]
            corners = found["boxes"] / torch.tensor([width, height, width, height])
            middle, size = (corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]
            labels.append(
                {
                    "class_labels": found["labels"].to(setting.device),
                    "boxes": placed(torch.cat([middle, size], dim=1), setting),
                }
            )
        batches.append(
            {"pixel_values": placed(images, setting), "pixel_mask": mask.to(setting.device), "labels": labels}
        )
    return Built(model, detr_step, batches, optimizer)


def detr_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    result = built.model(**built.batches[index])
    built.optimizer.zero_grad()
    result.loss.backward()
    torch.nn.utils.clip_grad_norm_(built.model.parameters(), 0.1)
    built.optimizer.step()
    return {"loss": result.loss, "logits": result.logits, "boxes": result.pred_boxes}
