"""Segmentation with PaddleSeg."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.zoo.programs.paddle_sequence import update
from benchmarks.zoo.programs.paddle_vision import FLOAT32, use, worn
from benchmarks.zoo.spec import Built, Setting, program

CLASSES = 5


def scenes(paddle: Any, count: int, dtype: str) -> list[Any]:
    """Batches of images of rectangles and maps of their classes, 255 where a pixel is not to be judged."""
    random = np.random.RandomState(23)
    batches = []
    for _ in range(count):
        pictures = 0.2 * random.randn(2, 3, 64, 64)
        maps = np.zeros((2, 64, 64), "int64")
        for row in range(2):
            for label in range(1, CLASSES):
                top, left = random.randint(0, 44, 2)
                maps[row, top : top + 20, left : left + 18] = label
                pictures[row, label % 3, top : top + 20, left : left + 18] += 0.4 * label
            maps[row, 28:34, : 40 - 10 * row] = 255
        batches.append((paddle.to_tensor(pictures.astype(dtype)), paddle.to_tensor(maps)))
    return batches


@program("paddle-segformer", library="paddleseg", framework="paddle", dtypes=FLOAT32)
def segformer(setting: Setting) -> Built:
    """A SegFormer, cross entropy and Dice loss, AdamW with a polynomial schedule."""
    paddle = use(setting)
    from paddleseg.models import SegFormer
    from paddleseg.models.backbones.mix_transformer import MixVisionTransformer
    from paddleseg.models.losses import DiceLoss

    backbone = MixVisionTransformer(
        img_size=64,
        embed_dims=[16, 24, 32, 48],
        num_heads=[1, 2, 2, 4],
        mlp_ratios=[2, 2, 2, 2],
        qkv_bias=True,
        depths=[2, 1, 1, 2],
        sr_ratios=[8, 4, 2, 1],
        drop_path_rate=0.0,
    )
    model = worn(SegFormer(num_classes=CLASSES, backbone=backbone, embedding_dim=32))
    model.train()
    schedule = paddle.optimizer.lr.PolynomialDecay(1e-3, decay_steps=10, end_lr=0.0, power=1.0)
    optimizer = paddle.optimizer.AdamW(schedule, epsilon=1e-6, parameters=model.parameters(), weight_decay=0.01)
    options = {"dice": DiceLoss(ignore_index=255), "weights": (1.0, 0.5)}
    return Built(model, segment, scenes(paddle, 2, setting.dtype), optimizer, schedule, options)


def segment(built: Built, index: int) -> dict[str, Any]:
    """One training step of a segmentation."""
    import paddle.nn.functional as F

    pictures, maps = built.batches[index]
    logits = built.model(pictures)[0]
    first, second = built.options["weights"]
    loss = first * F.cross_entropy(logits, maps, ignore_index=255, axis=1)
    loss = loss + second * built.options["dice"](logits, maps.clone())
    update(built, loss)
    return {"loss": loss, "logits": logits}
