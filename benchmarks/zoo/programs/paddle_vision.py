"""Image classifiers of Paddle: paddle.vision.models, paddle.vision.transforms and the Swin backbone of PaddleSeg."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.zoo.spec import Built, Setting, program

CLASSES = 10
FLOAT32 = ("float32",)


def images(count: int, size: int, dtype: str, seed: int = 0) -> list[tuple[Any, Any]]:
    """Batches of images with a gradient, a bright square and noise, and the label that goes with the square."""
    import paddle

    random = np.random.RandomState(seed)
    batches = []
    for _ in range(count):
        labels = random.randint(0, CLASSES, 4)
        grid = np.linspace(-1, 1, size)
        pictures = 0.3 * random.randn(4, 3, size, size) + grid[None, None, :, None] * 0.7 - grid[None, None, None] * 0.4
        for row, label in enumerate(labels):
            start = int(label) * (size // 2) // CLASSES
            pictures[row, int(label) % 3, start : start + size // 3, 3 : 3 + size // 2] += 1.5
        batches.append((paddle.to_tensor(pictures.astype(dtype)), paddle.to_tensor(labels.astype("int64"))))
    return batches


def use(setting: Setting) -> Any:
    """Paddle, set to the dtype of the program and to reproducible results."""
    import paddle

    paddle.set_device("cpu")
    paddle.set_default_dtype(setting.dtype)
    return paddle


def worn(model: Any, seed: int = 1) -> Any:
    """The model as after some training: no bias and no scale of a norm is exactly what it was set to at first."""
    random = np.random.RandomState(seed)
    for parameter in model.parameters():
        if parameter.ndim == 1:
            noise = 0.1 * random.randn(*parameter.shape)
            parameter.set_value((parameter.numpy().astype("float64") + noise).astype(parameter.numpy().dtype))
    return model


@program("paddle-resnet", library="paddle", framework="paddle", dtypes=FLOAT32)
def resnet(setting: Setting) -> Built:
    """ResNet of depth 18, momentum with weight decay, a step schedule."""
    paddle = use(setting)
    model = worn(paddle.vision.models.resnet18(num_classes=CLASSES))
    model.train()
    schedule = paddle.optimizer.lr.PiecewiseDecay([1], [0.02, 0.01])
    optimizer = paddle.optimizer.Momentum(
        schedule, momentum=0.9, parameters=model.parameters(), weight_decay=paddle.regularizer.L2Decay(1e-2)
    )
    return Built(model, classify, images(2, 64, setting.dtype), optimizer, schedule)


@program("paddle-mobilenet", library="paddle", framework="paddle", dtypes=FLOAT32)
def mobilenet(setting: Setting) -> Built:
    """MobileNet V3 small at half its width, smoothed labels, RMSProp."""
    paddle = use(setting)
    model = worn(paddle.vision.models.mobilenet_v3_small(scale=0.5, num_classes=CLASSES))
    model.train()
    optimizer = paddle.optimizer.RMSProp(
        1e-3, rho=0.9, epsilon=1e-3, momentum=0.9, parameters=model.parameters(), weight_decay=1e-5
    )
    return Built(model, classify, images(2, 96, setting.dtype), optimizer, None, {"smoothing": 0.1})


@program("paddle-shufflenet", library="paddle", framework="paddle", dtypes=FLOAT32)
def shufflenet(setting: Setting) -> Built:
    """ShuffleNet V2 at a quarter of its width, whose running statistics were gathered before, inference only."""
    paddle = use(setting)
    model = worn(paddle.vision.models.shufflenet_v2_x0_25(num_classes=CLASSES))
    batches = images(4, 64, setting.dtype)
    model.train()
    with paddle.no_grad():
        for layer in model.sublayers():
            if isinstance(layer, paddle.nn.BatchNorm2D):
                layer._momentum = 0.3
        for pictures, _ in batches[2:]:
            model(pictures)
    model.eval()
    return Built(model, look, batches[:2])


def look(built: Built, index: int) -> dict[str, Any]:
    """The logits of one batch."""
    import paddle

    with paddle.no_grad():
        return {"logits": built.model(built.batches[index][0])}


def classify(built: Built, index: int) -> dict[str, Any]:
    """One training step of a classifier."""
    import paddle.nn.functional as F

    pictures, labels = built.batches[index]
    logits = built.model(pictures)
    smoothing = built.options.get("smoothing", 0.0)
    if smoothing:
        target = F.label_smooth(F.one_hot(labels, CLASSES).astype(logits.dtype), epsilon=smoothing)
        loss = F.cross_entropy(logits, target, soft_label=True)
    else:
        loss = F.cross_entropy(logits, labels)
    loss.backward()
    built.optimizer.step()
    built.optimizer.clear_grad()
    if built.scheduler is not None:
        built.scheduler.step()
    return {"loss": loss, "logits": logits}


@program("paddle-lenet", library="paddle", framework="paddle", dtypes=FLOAT32)
def lenet(setting: Setting) -> Built:
    """LeNet on images that paddle.vision.transforms resizes and normalises, read by a DataLoader."""
    paddle = use(setting)
    from paddle.vision import transforms

    random = np.random.RandomState(3)
    labels = random.randint(0, CLASSES, 8)
    raw = random.randint(0, 120, (8, 40, 36, 1)).astype("uint8")
    for row, label in enumerate(labels):
        raw[row, 3 * label : 3 * label + 8, 5:25] = 230
    options = {
        "raw": raw,
        "labels": labels,
        "dtype": setting.dtype,
        "transform": transforms.Compose(
            [
                transforms.Resize((28, 28), interpolation="bilinear"),
                transforms.Normalize(mean=[127.5], std=[63.0], data_format="HWC"),
                transforms.Transpose(),
            ]
        ),
    }
    model = worn(paddle.vision.models.LeNet(num_classes=CLASSES))
    model.train()
    optimizer = paddle.optimizer.Adam(2e-3, parameters=model.parameters())
    return Built(model, read_and_classify, [], optimizer, None, options)


class Pictures:
    """The data set of the LeNet program."""

    def __init__(self, raw: np.ndarray, labels: np.ndarray, transform: Any, dtype: str) -> None:
        self.raw, self.labels, self.transform, self.dtype = raw, labels, transform, dtype

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.int64]:
        picture = np.asarray(self.transform(self.raw[index]))
        return picture.reshape(1, 28, 28).astype(self.dtype), np.int64(self.labels[index])

    def __len__(self) -> int:
        return len(self.raw)


def read_and_classify(built: Built, index: int) -> dict[str, Any]:
    """Reads batch ``index`` of the data set and trains on it."""
    import paddle

    options = built.options
    pictures = Pictures(options["raw"], options["labels"], options["transform"], options["dtype"])
    loader = paddle.io.DataLoader(
        pictures, batch_size=4, shuffle=options.get("shuffle", False), use_buffer_reader=False
    )
    built.batches = [tuple(batch) for batch in loader]
    return classify(built, index)


@program("paddle-swin", library="paddleseg", framework="paddle", dtypes=FLOAT32)
def swin(setting: Setting) -> Built:
    """The Swin transformer of PaddleSeg with a linear head, AdamW without decay of norms and of biases."""
    paddle = use(setting)
    from paddleseg.models.backbones.swin_transformer import SwinTransformer

    class Classifier(paddle.nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.backbone = SwinTransformer(
                patch_size=4,
                embed_dim=24,
                depths=[2, 2],
                num_heads=[2, 4],
                window_size=4,
                mlp_ratio=2.0,
                drop_path_rate=0.0,
                out_indices=(1,),
            )
            self.head = paddle.nn.Linear(48, CLASSES)

        def forward(self, pictures: Any) -> Any:
            return self.head(self.backbone(pictures)[-1].mean([2, 3]))

    model = worn(Classifier())
    model.train()
    decayed = {parameter.name for name, parameter in model.named_parameters() if parameter.ndim > 1}
    optimizer = paddle.optimizer.AdamW(
        2e-3,
        parameters=model.parameters(),
        weight_decay=0.05,
        apply_decay_param_fun=lambda name: name in decayed,
        grad_clip=paddle.nn.ClipGradByGlobalNorm(1.0),
    )
    return Built(model, classify, images(2, 40, setting.dtype), optimizer)
