"""Encoders of the BERT family, trained or only run: BERT, RoBERTa, DeBERTa, ELECTRA and ModernBERT."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.spec import Built, Setting, program

PAD, MASK, VOCABULARY = 0, 3, 120


def padded_batch(setting: Setting, lengths: tuple[int, ...], width: int, pad: int = PAD) -> dict[str, Any]:
    """Token ids of several lengths, padded on the right, with their attention mask."""
    import torch

    ids = torch.randint(5, VOCABULARY, (len(lengths), width))
    mask = (torch.arange(width)[None, :] < torch.tensor(lengths)[:, None]).long()
    ids = torch.where(mask.bool(), ids, torch.full_like(ids, pad))
    return {"input_ids": ids.to(setting.device), "attention_mask": mask.to(setting.device)}


def masked(batch: dict[str, Any]) -> dict[str, Any]:
    """Every fourth token masked; only those are to be predicted."""
    import torch

    ids, mask = batch["input_ids"], batch["attention_mask"].bool()
    chosen = mask & (torch.arange(ids.shape[1], device=ids.device) % 4 == 1)
    labels = torch.where(chosen, ids, torch.full_like(ids, -100))
    return {**batch, "input_ids": torch.where(chosen, torch.full_like(ids, MASK), ids), "labels": labels}


def lively(model: Any) -> Any:
    """The model with biases that are not zero and norms that do not all weigh one, as after some training."""
    import torch

    with torch.no_grad():
        for name, value in model.named_parameters():
            if name.endswith("bias"):
                value.normal_(0.0, 0.05)
            elif "norm" in name.lower() and name.endswith("weight"):
                value.uniform_(0.8, 1.2)
    return model


def decayed_groups(model: Any, decay: float, no_decay: tuple[str, ...] = ("bias", "LayerNorm")) -> list[dict[str, Any]]:
    """Two groups of parameters: with weight decay, and biases and norms without."""
    named = [(name, value) for name, value in model.named_parameters() if value.requires_grad]
    free = [value for name, value in named if any(part in name for part in no_decay)]
    decayed = [value for name, value in named if not any(part in name for part in no_decay)]
    return [{"params": decayed, "weight_decay": decay}, {"params": free, "weight_decay": 0.0}]


@program("bert", library="transformers", steps=3)
def bert(setting: Setting) -> Built:
    """Masked language modelling with dropout, AdamW in two groups, clipping and a linear warmup."""
    import torch
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=96,
        max_position_embeddings=40,
        type_vocab_size=2,
        initializer_range=0.1,
        attn_implementation="eager",
    )
    model = lively(BertForMaskedLM(config)).to(setting.device, getattr(torch, setting.dtype)).train()
    optimizer = torch.optim.AdamW(decayed_groups(model, 0.05), lr=2e-3, eps=1e-6)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) / 2, (12 - step) / 10))
    batches = []
    for lengths in ((20, 13, 9), (17, 20, 6), (11, 8, 20)):
        batch = masked(padded_batch(setting, lengths, 20))
        ids = batch["input_ids"]
        second = torch.arange(20, device=ids.device)[None, :] >= torch.tensor(lengths, device=ids.device)[:, None] // 2
        batches.append({**batch, "token_type_ids": (second & batch["attention_mask"].bool()).long()})
    return Built(model, bert_step, batches, optimizer, scheduler, {"max_norm": 0.5})


def bert_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    result = built.model(**built.batches[index])
    result.loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(built.model.parameters(), built.options["max_norm"])
    built.optimizer.step()
    built.scheduler.step()
    built.optimizer.zero_grad()
    return {"loss": result.loss, "logits": result.logits, "gradient norm": norm}


def train_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    built.optimizer.zero_grad()
    result = built.model(**built.batches[index])
    result.loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(built.model.parameters(), 1.0)
    built.optimizer.step()
    return {"loss": result.loss, "logits": result.logits, "gradient norm": norm}


@program("roberta", library="transformers")
def roberta(setting: Setting) -> Built:
    """Regression on sentences, as for STS-B: one number per sentence, no dropout."""
    import torch
    from transformers import RobertaConfig, RobertaForSequenceClassification

    config = RobertaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=42,
        type_vocab_size=1,
        num_labels=1,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.1,
        pad_token_id=1,
        attn_implementation="sdpa",
    )
    dtype = getattr(torch, setting.dtype)
    model = lively(RobertaForSequenceClassification(config)).to(setting.device, dtype).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-6, weight_decay=0.01)
    batches = []
    for lengths in ((18, 11, 7, 14), (9, 18, 16, 5)):
        batch = padded_batch(setting, lengths, 18, pad=1)
        labels = torch.tensor(lengths, device=setting.device, dtype=dtype) / 10 - 1
        batches.append({**batch, "labels": labels})
    return Built(model, train_step, batches, optimizer)


@program("roberta-eval", library="transformers")
def roberta_eval(setting: Setting) -> Built:
    """The sentence embeddings of a RoBERTa, averaged over its tokens; only run."""
    import torch
    from transformers import RobertaConfig, RobertaModel

    config = RobertaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=42,
        type_vocab_size=1,
        initializer_range=0.1,
        pad_token_id=1,
        attn_implementation="eager",
    )
    model = lively(RobertaModel(config, add_pooling_layer=False))
    model = model.to(setting.device, getattr(torch, setting.dtype)).eval()
    batches = [padded_batch(setting, lengths, 18, pad=1) for lengths in ((18, 11, 7, 14), (9, 18, 16, 5))]
    return Built(model, embedding_step, batches)


def embedding_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    batch = built.batches[index]
    with torch.no_grad():
        hidden = built.model(**batch).last_hidden_state
        weights = batch["attention_mask"].unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * weights).sum(1) / weights.sum(1)
        sentence = torch.nn.functional.normalize(mean, dim=-1)
    return {"embeddings": sentence, "similarities": sentence @ sentence.T}


@program("deberta", library="transformers")
def deberta(setting: Setting) -> Built:
    """Tagging of tokens by a DeBERTa of the second version, with its convolution and relative positions."""
    import torch
    from transformers import DebertaV2Config, DebertaV2ForTokenClassification

    config = DebertaV2Config(
        vocab_size=VOCABULARY,
        hidden_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=96,
        max_position_embeddings=40,
        relative_attention=True,
        position_buckets=8,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        pos_att_type="p2c|c2p",
        position_biased_input=False,
        conv_kernel_size=3,
        conv_act="gelu",
        type_vocab_size=0,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.15,
        num_labels=5,
    )
    model = lively(DebertaV2ForTokenClassification(config)).to(setting.device, getattr(torch, setting.dtype)).train()
    optimizer = torch.optim.AdamW(decayed_groups(model, 0.01), lr=1e-3, eps=1e-6)
    batches = []
    for lengths in ((24, 15, 10), (19, 24, 12)):
        batch = padded_batch(setting, lengths, 24)
        tags = torch.where(batch["attention_mask"].bool(), batch["input_ids"] % 5, -100)
        batches.append({**batch, "labels": tags})
    return Built(model, train_step, batches, optimizer)


@program("electra", library="transformers")
def electra(setting: Setting) -> Built:
    """The discriminator of ELECTRA: which tokens were replaced. Two batches make a step; rates fall with the depth."""
    import torch
    from transformers import ElectraConfig, ElectraForPreTraining

    config = ElectraConfig(
        vocab_size=VOCABULARY,
        embedding_size=32,
        hidden_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=40,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.1,
        attn_implementation="eager",
    )
    model = lively(ElectraForPreTraining(config)).to(setting.device, getattr(torch, setting.dtype)).train()
    optimizer = torch.optim.Adam(layerwise_groups(model, 1e-3, 0.7, last=4), eps=1e-6)
    batches = []
    for lengths in ((16, 9, 12), (8, 16, 11), (14, 16, 5), (16, 6, 10)):
        batch = padded_batch(setting, lengths, 16)
        replaced = (batch["input_ids"] % 5 == 0) & batch["attention_mask"].bool()
        batches.append({**batch, "labels": replaced.long()})
    return Built(model, electra_step, batches, optimizer, options={"accumulation": 2})


def layerwise_groups(model: Any, rate: float, decay: float, last: int) -> list[dict[str, Any]]:
    """A group of parameters per depth; the head, at depth ``last``, has the full rate."""
    groups: dict[int, list[Any]] = {}
    for name, value in model.named_parameters():
        depth = last
        if ".layer." in name:
            depth = int(name.split(".layer.")[1].split(".")[0]) + 1
        elif name.startswith("electra.embeddings"):
            depth = 0
        groups.setdefault(depth, []).append(value)
    return [{"params": values, "lr": rate * decay ** (last - depth)} for depth, values in sorted(groups.items())]


def electra_step(built: Built, index: int) -> dict[str, Any]:
    import torch

    parts = built.options["accumulation"]
    given: dict[str, Any] = {}
    for part in range(parts):
        result = built.model(**built.batches[index * parts + part])
        loss = result.loss / parts
        loss.backward()
        given[f"loss {part}"] = result.loss
        given[f"logits {part}"] = result.logits
    given["gradient norm"] = torch.nn.utils.clip_grad_norm_(built.model.parameters(), 0.5)
    built.optimizer.step()
    built.optimizer.zero_grad()
    return given


@program("modernbert", library="transformers")
def modernbert(setting: Setting) -> Built:
    """Masked language modelling by a ModernBERT of one global layer and two with a window."""
    import torch
    from transformers import ModernBertConfig, ModernBertForMaskedLM

    config = ModernBertConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=4,
        max_position_embeddings=64,
        local_attention=8,
        global_attn_every_n_layers=3,
        pad_token_id=PAD,
        bos_token_id=1,
        eos_token_id=2,
        cls_token_id=1,
        sep_token_id=2,
        initializer_range=0.1,
        attn_implementation="eager",
    )
    model = lively(ModernBertForMaskedLM(config)).to(setting.device, getattr(torch, setting.dtype)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=8e-4, betas=(0.9, 0.98), eps=1e-6, weight_decay=1e-2)
    batches = [masked(padded_batch(setting, lengths, 28)) for lengths in ((28, 25), (24, 28))]
    return Built(model, train_step, batches, optimizer)
