"""A Vision Transformer: timm's, and a port of it to Paddle as PaddleClas writes it, trained with smoothed labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.zoo import torchvision_ops
from benchmarks.zoo.programs import across_port as port
from benchmarks.zoo.spec import Built, Setting, program

WATCHED = ("cls_token", "patch_embed.proj.weight", "blocks.1.attn.qkv.weight", "blocks.2.mlp.fc2.bias", "head.weight")


def batches(dtype: str) -> list[tuple[np.ndarray, np.ndarray]]:
    data = port.numbers("vit")
    return [(data.standard_normal((3, 3, 32, 32)).astype(dtype), data.integers(0, 10, 3)) for _ in range(2)]


@program("across-vit-torch", library="timm", dtypes=("float32",))
def vit_torch(setting: Setting) -> Built:
    import torch

    torchvision_ops.prepare()
    from timm.models.vision_transformer import VisionTransformer

    model = VisionTransformer(img_size=32, patch_size=8, embed_dim=48, depth=3, num_heads=4, num_classes=10)
    model = port.fill_torch(model.to(setting.device, getattr(torch, setting.dtype))).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05, eps=1e-6)
    data = [tuple(torch.from_numpy(x).to(setting.device) for x in batch) for batch in batches(setting.dtype)]
    return Built(model, torch_step, data, optimizer)


def torch_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    images, labels = built.batches[index]
    logits = built.model(images)
    loss = torch.nn.functional.cross_entropy(logits, labels, label_smoothing=0.1)
    built.optimizer.zero_grad()
    loss.backward()
    given = port.torch_watched(built.model, *WATCHED, gradient=True)
    built.optimizer.step()
    return {"loss": loss, "logits": logits, **given, **port.torch_watched(built.model, *WATCHED)}


@program("across-vit-paddle", library="paddle", framework="paddle", dtypes=("float32",))
def vit_paddle(setting: Setting) -> Built:
    import paddle

    port.use(setting)
    model = paddle_model()
    ported = port.fill_paddle(model)
    model.train()
    optimizer = paddle.optimizer.AdamW(
        learning_rate=1e-3, weight_decay=0.05, epsilon=1e-6, parameters=model.parameters()
    )
    data = [tuple(paddle.to_tensor(x) for x in batch) for batch in batches(setting.dtype)]
    return Built(model, paddle_step, data, optimizer, options={"ported": ported})


def paddle_model() -> Any:
    import paddle
    from paddle import nn

    class PatchEmbed(nn.Layer):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.proj = nn.Conv2D(3, width, kernel_size=8, stride=8)

        def forward(self, images: Any) -> Any:
            return self.proj(images).flatten(2).transpose([0, 2, 1])

    class Attention(nn.Layer):
        def __init__(self, width: int, heads: int) -> None:
            super().__init__()
            self.heads = heads
            self.scale = (width // heads) ** -0.5
            self.qkv = nn.Linear(width, 3 * width)
            self.proj = nn.Linear(width, width)

        def forward(self, x: Any) -> Any:
            batch, length, width = x.shape
            qkv = self.qkv(x).reshape([batch, length, 3, self.heads, width // self.heads])
            q, k, v = qkv.transpose([2, 0, 3, 1, 4]).unbind(0)
            scores = q.matmul(k.transpose([0, 1, 3, 2])) * self.scale
            weights = nn.functional.softmax(scores, axis=-1)
            x = weights.matmul(v).transpose([0, 2, 1, 3]).reshape([batch, length, width])
            return self.proj(x)

    class Mlp(nn.Layer):
        def __init__(self, width: int, hidden: int) -> None:
            super().__init__()
            self.fc1 = nn.Linear(width, hidden)
            self.act = nn.GELU()
            self.fc2 = nn.Linear(hidden, width)

        def forward(self, x: Any) -> Any:
            return self.fc2(self.act(self.fc1(x)))

    class Block(nn.Layer):
        def __init__(self, width: int, heads: int) -> None:
            super().__init__()
            self.norm1 = nn.LayerNorm(width, epsilon=1e-6)
            self.attn = Attention(width, heads)
            self.norm2 = nn.LayerNorm(width, epsilon=1e-6)
            self.mlp = Mlp(width, 4 * width)

        def forward(self, x: Any) -> Any:
            x = x + self.attn(self.norm1(x))
            return x + self.mlp(self.norm2(x))

    class VisionTransformer(nn.Layer):
        def __init__(self, width: int = 48, depth: int = 3, heads: int = 4, classes: int = 10) -> None:
            super().__init__()
            self.patch_embed = PatchEmbed(width)
            self.cls_token = self.create_parameter([1, 1, width])
            self.pos_embed = self.create_parameter([1, 17, width])
            self.blocks = nn.LayerList([Block(width, heads) for _ in range(depth)])
            self.norm = nn.LayerNorm(width, epsilon=1e-6)
            self.head = nn.Linear(width, classes)

        def forward(self, images: Any) -> Any:
            x = self.patch_embed(images)
            x = paddle.concat([self.cls_token.expand([x.shape[0], -1, -1]), x], axis=1) + self.pos_embed
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x)[:, 0])

    return VisionTransformer()


def paddle_step(built: Built, index: int) -> dict[str, Any]:
    import paddle

    images, labels = built.batches[index]
    logits = built.model(images)
    loss = paddle.nn.functional.cross_entropy(logits, labels, label_smoothing=0.1)
    built.optimizer.clear_grad()
    loss.backward()
    given = port.paddle_watched(built.options["ported"], *WATCHED, gradient=True)
    built.optimizer.step()
    return {"loss": loss, "logits": logits, **given, **port.paddle_watched(built.options["ported"], *WATCHED)}
