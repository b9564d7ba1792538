"""Models of transformers and timm, tiny and with random weights."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.compiled.spec import How
from benchmarks.zoo.torchvision_ops import prepare


def _language_model(model: nn.Module, how: How, size: int = 64) -> dict[str, Any]:
    model = model.to(how.type)
    run = how.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(2):
        tokens = torch.randint(0, size, (2, 12))
        mask = torch.ones_like(tokens)
        mask[0, 9:] = 0
        with how.casting():
            logits = run(input_ids=tokens, attention_mask=mask).logits
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    gradients = {f"grad.{n}": p.grad for n, p in model.named_parameters() if p.grad is not None}
    return {"losses": torch.stack(losses), "logits": logits.detach(), **gradients}


def llama(how: How) -> dict[str, Any]:
    prepare()
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32, use_cache=False, attn_implementation="eager",
    )  # fmt: skip
    return _language_model(transformers.LlamaForCausalLM(config), how)


def bert(how: How) -> dict[str, Any]:
    prepare()
    import transformers

    config = transformers.BertConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4,
        max_position_embeddings=32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        attn_implementation="eager",
    )  # fmt: skip
    return _language_model(transformers.BertForMaskedLM(config), how)


def gpt2(how: How) -> dict[str, Any]:
    prepare()
    import transformers

    config = transformers.GPT2Config(
        vocab_size=64, n_embd=32, n_layer=1, n_head=4, n_positions=32, use_cache=False, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0, attn_implementation="eager",
    )  # fmt: skip
    return _language_model(transformers.GPT2LMHeadModel(config), how)


def _image_model(name: str, how: How, size: int = 32, **more: Any) -> dict[str, Any]:
    prepare()
    import timm

    model = timm.create_model(name, num_classes=5, **more).to(how.type)
    run = how.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    losses = []
    for _ in range(2):
        images, labels = torch.randn(4, 3, size, size).to(how.type), torch.randint(0, 5, (4,))
        with how.casting():
            loss = F.cross_entropy(run(images).float(), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    gradients = {f"grad.{n}": p.grad for n, p in list(model.named_parameters())[-8:]}
    return {"losses": torch.stack(losses), **gradients}


def convnext(how: How) -> dict[str, Any]:
    return _image_model("convnext_atto", how, depths=(1, 1), dims=(8, 16))


def resnet(how: How) -> dict[str, Any]:
    return _image_model("resnet10t", how, channels=(8, 8, 16, 16), stem_width=8)


def small_transformer(how: How) -> dict[str, Any]:
    return _image_model("vit_tiny_patch16_224", how, img_size=32, patch_size=8, embed_dim=24, depth=1, num_heads=3)
