"""Decoder language models of transformers: pretraining, finetuning on padded text, and generation with a cache."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.spec import Built, Setting, program

VOCABULARY = 160
PAD = 0


def prepared(model: Any, setting: Setting) -> Any:
    """The model in its dtype, its norms and biases no longer all ones and zeros: those of a model in the middle of its
    life are not."""
    import torch

    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    frequencies = {name: value for name, value in model.named_buffers() if name.endswith("inv_freq")}
    model = model.to(setting.device, getattr(torch, setting.dtype))
    for name, value in frequencies.items():  # loading a checkpoint in another dtype leaves these as they are, too
        owner, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(owner), attribute, value.to(setting.device))
    return model


def decoder(configuration: str, model: str, setting: Setting, **fields: Any) -> Any:
    """A small model of that class with weights larger than those of a start, so that attention is not uniform."""
    import transformers

    known = {
        "vocab_size": VOCABULARY,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "initializer_range": 0.08,
        "pad_token_id": PAD,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "attn_implementation": "eager",
    }
    config = getattr(transformers, configuration)(**{**known, **fields})
    return prepared(getattr(transformers, model)(config), setting)


def text(rows: int, length: int, generator: Any) -> Any:
    """Token ids that a model can learn: each row walks through the vocabulary with a stride of its own, with noise."""
    import torch

    start = torch.randint(3, VOCABULARY, (rows, 1), generator=generator)
    stride = torch.randint(1, 9, (rows, 1), generator=generator)
    walk = 3 + (start + stride * torch.arange(length)) % (VOCABULARY - 3)
    noise = torch.randint(3, VOCABULARY, (rows, length), generator=generator)
    return torch.where(torch.rand((rows, length), generator=generator) < 0.25, noise, walk)


def blocks(setting: Setting, count: int, rows: int = 3, length: int = 24) -> list[dict[str, Any]]:
    """Batches for pretraining: full rows, the labels are the inputs."""
    import torch

    generator = torch.Generator().manual_seed(11)
    found = [text(rows, length, generator).to(setting.device) for _ in range(count)]
    return [{"input_ids": ids, "labels": ids.clone()} for ids in found]


def padded(setting: Setting, count: int, rows: int = 3, length: int = 20, side: str = "right") -> list[dict[str, Any]]:
    """Batches for finetuning: rows of several lengths, padded, with no loss on padding and on the prompt."""
    import torch

    generator = torch.Generator().manual_seed(13)
    batches = []
    for index in range(count):
        ids = text(rows, length, generator)
        mask, labels = torch.ones_like(ids), ids.clone()
        for row in range(rows):
            missing = (3 * row + 2 * index) % 9
            if side == "right":
                pad, prompt = slice(length - missing, length), slice(0, 3 + row)
            else:
                pad, prompt = slice(0, missing), slice(0, missing + 3 + row)
            labels[row, prompt] = -100
            ids[row, pad], mask[row, pad], labels[row, pad] = PAD, 0, -100
        batch = {"input_ids": ids, "attention_mask": mask, "labels": labels}
        batches.append({name: value.to(setting.device) for name, value in batch.items()})
    return batches


def decay_groups(model: Any, decay: float) -> list[dict[str, Any]]:
    """Weight decay for matrices only."""
    matrices = [p for p in model.parameters() if p.requires_grad and p.dim() > 1]
    vectors = [p for p in model.parameters() if p.requires_grad and p.dim() <= 1]
    return [{"params": matrices, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}]


def train(built: Built, index: int) -> dict[str, Any]:
    """One step of the common loop: loss of the library, clipping of the global norm, update, schedule."""
    import torch

    batch = built.batches[index]
    result = built.model(**batch, use_cache=False)
    result.loss.backward()
    torch.nn.utils.clip_grad_norm_(built.model.parameters(), built.options.get("clip", 1.0))
    built.optimizer.step()
    if built.scheduler is not None:
        built.scheduler.step()
    built.optimizer.zero_grad()
    return {"loss": result.loss, "logits": result.logits}


def accumulate(built: Built, index: int) -> dict[str, Any]:
    """One step over several batches, the loss of each a share of the mean over all tokens of the step."""
    import torch

    count = built.options["accumulate"]
    group = built.batches[index * count : (index + 1) * count]
    items = sum((batch["labels"][:, 1:] != -100).sum() for batch in group)
    total, given = 0.0, {}
    for position, batch in enumerate(group):
        result = built.model(**batch, num_items_in_batch=items, use_cache=False)
        result.loss.backward()
        total = total + result.loss.detach()
        given[f"logits {position}"] = result.logits
    torch.nn.utils.clip_grad_norm_(built.model.parameters(), 1.0)
    built.optimizer.step()
    built.scheduler.step()
    built.optimizer.zero_grad()
    return {"loss": total, **given}


def generate(built: Built, index: int) -> dict[str, Any]:
    """Step 0 reads the prompts into the cache, each later step one token: the most likely of the step before, or that
    of a given text."""
    import torch

    state = built.options
    with torch.no_grad():
        if index == 0:
            ids, mask = built.batches[0]["input_ids"], built.batches[0]["attention_mask"]
            positions = (mask.cumsum(-1) - 1).clamp(min=0)
            state["cache"] = None
        else:
            ids = state["next"] if state.get("greedy") else built.batches[0]["continuation"][:, index - 1 : index]
            mask = torch.cat([state["mask"], torch.ones_like(ids)], dim=-1)
            positions = mask.sum(-1, keepdim=True) - 1
        more = {"position_ids": positions} if state.get("positions", True) else {}
        result = built.model(
            input_ids=ids, attention_mask=mask, past_key_values=state["cache"], use_cache=True, **more
        )
        state["cache"], state["mask"] = result.past_key_values, mask
        state["next"] = result.logits[:, -1].argmax(-1, keepdim=True)
    return {"logits": result.logits[:, -1]}


def prompts(setting: Setting, rows: int = 3, length: int = 14) -> list[dict[str, Any]]:
    """One batch of prompts, padded on the left, and how each goes on."""
    batch = padded(setting, 2, rows, length + 6, side="left")[1]
    names = ("input_ids", "attention_mask")
    return [{**{name: batch[name][:, :length] for name in names}, "continuation": batch["input_ids"][:, length:]}]


def llama_like(setting: Setting, **fields: Any) -> Any:
    known = {"intermediate_size": 128, "num_key_value_heads": 2, "max_position_embeddings": 64}
    return decoder("LlamaConfig", "LlamaForCausalLM", setting, **{**known, **fields})


@program("llama-finetune", library="transformers", steps=3)
def llama_finetune(setting: Setting) -> Built:
    """A Llama on padded rows with a masked prompt, accumulation of two batches, a warm-up and a cosine."""
    import torch
    import transformers

    model = llama_like(setting).train()
    optimizer = torch.optim.AdamW(decay_groups(model, 0.1), lr=2e-3, betas=(0.9, 0.95), eps=1e-8)
    scheduler = transformers.get_cosine_schedule_with_warmup(optimizer, 2, 10)
    return Built(model, accumulate, padded(setting, 6), optimizer, scheduler, {"accumulate": 2})


@program("llama-long", library="transformers")
def llama_long(setting: Setting) -> Built:
    """A Llama with the scaled rotary positions of version 3.1, trained on rows longer than the original ones."""
    import torch

    rope = {
        "rope_type": "llama3",
        "rope_theta": 10000.0,
        "factor": 4.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16,
    }
    model = llama_like(setting, rope_parameters=rope, num_hidden_layers=3).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    return Built(model, train, blocks(setting, 2, rows=2, length=48), optimizer)


@program("llama-generate", library="transformers", steps=4)
def llama_generate(setting: Setting) -> Built:
    """A Llama that continues prompts padded on the left, with a cache."""
    model = llama_like(setting, attn_implementation="sdpa").eval()
    return Built(model, generate, prompts(setting), options={"greedy": True})


@program("llama-reward", library="transformers")
def llama_reward(setting: Setting) -> Built:
    """A Llama with a scalar head, trained on pairs of answers, of which the first is preferred."""
    import torch

    model = decoder(
        "LlamaConfig", "LlamaForSequenceClassification", setting, intermediate_size=128, num_key_value_heads=4,
        num_labels=1,
    ).train()  # fmt: skip
    optimizer = torch.optim.AdamW(decay_groups(model, 0.01), lr=1e-3)
    batches = padded(setting, 2, rows=4)
    return Built(model, reward, batches, optimizer, options={"margin": 0.1})


def reward(built: Built, index: int) -> dict[str, Any]:
    import torch

    batch = built.batches[index]
    result = built.model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], use_cache=False)
    scores = result.logits.squeeze(-1).float()
    chosen, rejected = scores[0::2], scores[1::2]
    loss = -torch.nn.functional.logsigmoid(chosen - rejected - built.options["margin"]).mean()
    built.optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(built.model.parameters(), 1.0)
    built.optimizer.step()
    return {"loss": loss, "scores": scores}


@program("qwen3", library="transformers", steps=3)
def qwen3(setting: Setting) -> Built:
    """A Qwen 3 with tied embeddings, pretrained with a loss written out in the loop and decay in two groups."""
    import torch

    model = decoder(
        "Qwen3Config", "Qwen3ForCausalLM", setting, intermediate_size=128, num_key_value_heads=2, head_dim=24,
        tie_word_embeddings=True,
    ).train()  # fmt: skip
    optimizer = torch.optim.AdamW(decay_groups(model, 0.1), lr=2e-3, betas=(0.9, 0.95))
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 3))
    return Built(model, pretrain, blocks(setting, 3), optimizer, scheduler)


def token_loss(logits: Any, labels: Any) -> Any:
    """The mean over tokens, each predicted from those before it."""
    import torch

    return torch.nn.functional.cross_entropy(
        logits[:, :-1].float().reshape(-1, logits.shape[-1]), labels[:, 1:].reshape(-1), ignore_index=-100
    )


def pretrain(built: Built, index: int) -> dict[str, Any]:
    """One step with the loss in the loop (or another that the options name)."""
    import torch

    batch = built.batches[index]
    inputs = {name: value for name, value in batch.items() if name != "labels"}
    logits = built.model(**inputs, use_cache=False).logits
    loss = built.options.get("loss", token_loss)(logits, batch["labels"])
    built.optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(built.model.parameters(), 1.0)
    built.optimizer.step()
    if built.scheduler is not None:
        built.scheduler.step()
    return {"loss": loss, "logits": logits}


@program("qwen3-dpo", library="transformers")
def qwen3_dpo(setting: Setting) -> Built:
    """A Qwen 3 tuned on preferences against a frozen copy of itself."""
    import copy

    import torch

    model = decoder(
        "Qwen3Config", "Qwen3ForCausalLM", setting, intermediate_size=96, num_key_value_heads=2, head_dim=16
    ).train()
    frozen = copy.deepcopy(model).eval().requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    options = {"frozen": frozen, "beta": 0.5, "smoothing": 0.1}
    return Built(model, prefer, padded(setting, 2, rows=4), optimizer, options=options)


def sequence_log_probability(logits: Any, labels: Any) -> Any:
    """The sum over the tokens of each answer."""
    import torch

    labels, logits = labels[:, 1:].clone(), logits[:, :-1].float()
    mask = labels != -100
    labels[~mask] = 0
    chosen = torch.gather(logits.log_softmax(-1), 2, labels.unsqueeze(2)).squeeze(2)
    return (chosen * mask).sum(-1)


def prefer(built: Built, index: int) -> dict[str, Any]:
    import torch

    batch = dict(built.batches[index])
    labels = batch.pop("labels")
    score = built.options.get("score", sequence_log_probability)
    policy = score(built.model(**batch, use_cache=False).logits, labels)
    with torch.no_grad():
        frozen = score(built.options["frozen"](**batch, use_cache=False).logits, labels)
    ratio = policy - frozen
    margin = built.options["beta"] * (ratio[0::2] - ratio[1::2])
    smoothing = built.options["smoothing"]
    sigmoid = torch.nn.functional.logsigmoid
    loss = (-(1 - smoothing) * sigmoid(margin) - smoothing * sigmoid(-margin)).mean()
    built.optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(built.model.parameters(), 1.0)
    built.optimizer.step()
    return {"loss": loss, "policy": policy}


@program("gpt2", library="transformers")
def gpt2(setting: Setting) -> Built:
    """A GPT-2 with dropout and tied embeddings, pretrained with accumulation of two batches."""
    import torch
    import transformers

    model = decoder(
        "GPT2Config", "GPT2LMHeadModel", setting, n_positions=48, resid_pdrop=0.1, embd_pdrop=0.1, attn_pdrop=0.1
    ).train()
    optimizer = torch.optim.AdamW(decay_groups(model, 0.1), lr=1e-3, betas=(0.9, 0.95))
    scheduler = transformers.get_linear_schedule_with_warmup(optimizer, 1, 8)
    return Built(model, accumulate, blocks(setting, 4), optimizer, scheduler, {"accumulate": 2})


@program("gpt2-generate", library="transformers", steps=4)
def gpt2_generate(setting: Setting) -> Built:
    """A GPT-2 of three layers that continues prompts padded on the left, with a cache."""
    model = decoder("GPT2Config", "GPT2LMHeadModel", setting, n_positions=48, num_hidden_layers=3)
    return Built(model.eval(), generate, prompts(setting))


@program("gemma2", library="transformers")
def gemma2(setting: Setting) -> Built:
    """A Gemma 2 on padded rows longer than its window, with both of its soft caps."""
    import torch

    model = decoder(
        "Gemma2Config", "Gemma2ForCausalLM", setting, hidden_size=48, intermediate_size=96, num_key_value_heads=2,
        head_dim=16, num_hidden_layers=3, query_pre_attn_scalar=24, sliding_window=8, attn_logit_softcapping=1.5,
        final_logit_softcapping=4.0,
    ).train()  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    return Built(model, train, padded(setting, 2, length=22), optimizer)


@program("gemma3-generate", library="transformers", steps=4)
def gemma3_generate(setting: Setting) -> Built:
    """A Gemma 3 with a window of six and one layer of full attention, continuing prompts with a cache."""
    model = decoder(
        "Gemma3TextConfig", "Gemma3ForCausalLM", setting, intermediate_size=96, num_key_value_heads=1, head_dim=16,
        num_hidden_layers=3, query_pre_attn_scalar=16, sliding_window=6,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"], attn_implementation="sdpa",
    )  # fmt: skip
    return Built(model.eval(), generate, prompts(setting))


@program("mistral", library="transformers")
def mistral(setting: Setting) -> Built:
    """A Mistral with a window of eight, finetuned with SGD with momentum on padded rows."""
    import torch

    model = decoder(
        "MistralConfig", "MistralForCausalLM", setting, intermediate_size=112, num_key_value_heads=2, sliding_window=8
    ).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01, nesterov=True)
    return Built(model, train, padded(setting, 2, length=24), optimizer)


@program("mistral-generate", library="transformers", steps=5)
def mistral_generate(setting: Setting) -> Built:
    """A Mistral whose cache holds eight tokens, continuing prompts longer than that."""
    model = decoder(
        "MistralConfig", "MistralForCausalLM", setting, intermediate_size=96, num_key_value_heads=2, sliding_window=8,
        attn_implementation="sdpa",
    )  # fmt: skip
    return Built(model.eval(), generate, prompts(setting))


@program("phi", library="transformers", steps=3)
def phi(setting: Setting) -> Built:
    """A Phi, half of whose head turns with the position, pretrained with Adam and a schedule in steps."""
    import torch

    model = decoder(
        "PhiConfig", "PhiForCausalLM", setting, intermediate_size=128, resid_pdrop=0.0, embd_pdrop=0.0,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
    ).train()  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.95), eps=1e-7)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    return Built(model, train, blocks(setting, 3), optimizer, scheduler)


@program("bloom", library="transformers")
def bloom(setting: Setting) -> Built:
    """A Bloom with six heads, so that its slopes are of both kinds, on padded rows."""
    import torch

    model = decoder(
        "BloomConfig", "BloomForCausalLM", setting, hidden_size=48, n_head=6, num_attention_heads=6, n_layer=2,
        hidden_dropout=0.0, attention_dropout=0.0,
    ).train()  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    return Built(model, train, padded(setting, 2), optimizer)


@program("falcon-generate", library="transformers", steps=4)
def falcon_generate(setting: Setting) -> Built:
    """A Falcon of the newer kind with groups of keys, continuing prompts with a cache."""
    model = decoder(
        "FalconConfig", "FalconForCausalLM", setting, num_kv_heads=2, new_decoder_architecture=True, alibi=False,
        bias=True,
    )  # fmt: skip
    return Built(model.eval(), generate, prompts(setting))


@program("falcon-alibi", library="transformers")
def falcon_alibi(setting: Setting) -> Built:
    """A Falcon of the first kind: linear biases, one key for all heads, attention and perceptron one after another."""
    import torch

    model = decoder(
        "FalconConfig", "FalconForCausalLM", setting, alibi=True, multi_query=True, parallel_attn=False, bias=True,
        hidden_dropout=0.0, attention_dropout=0.0,
    ).train()  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return Built(model, train, padded(setting, 2), optimizer)


@program("opt", library="transformers")
def opt(setting: Setting) -> Built:
    """An OPT on rows padded on the left, decay in two groups."""
    import torch

    model = decoder(
        "OPTConfig", "OPTForCausalLM", setting, ffn_dim=128, max_position_embeddings=40, word_embed_proj_dim=48,
        init_std=0.08, dropout=0.0, attention_dropout=0.0, attn_implementation="sdpa",
    ).train()  # fmt: skip
    optimizer = torch.optim.AdamW(decay_groups(model, 0.1), lr=1e-3)
    return Built(model, train, padded(setting, 2, side="left"), optimizer)


@program("cohere", library="transformers")
def cohere(setting: Setting) -> Built:
    """A Command R with norms of queries and keys, pretrained with the loss in the loop."""
    import torch

    model = decoder(
        "CohereConfig", "CohereForCausalLM", setting, intermediate_size=96, num_key_value_heads=2, use_qk_norm=True,
        logit_scale=0.25, layer_norm_eps=1e-5,
    ).train()  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    return Built(model, pretrain, blocks(setting, 2), optimizer)


@program("olmo2", library="transformers")
def olmo2(setting: Setting) -> Built:
    """An OLMo 2, pretrained with its extra loss on the normaliser."""
    import torch

    model = decoder(
        "Olmo2Config", "Olmo2ForCausalLM", setting, intermediate_size=128, num_key_value_heads=4, rms_norm_eps=1e-6
    ).train()
    optimizer = torch.optim.AdamW(decay_groups(model, 0.1), lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
    return Built(model, pretrain, blocks(setting, 2), optimizer, options={"loss": loss_with_normaliser})


def loss_with_normaliser(logits: Any, labels: Any) -> Any:
    import torch

    shifted = logits[:, :-1].float().reshape(-1, logits.shape[-1])
    loss = torch.nn.functional.cross_entropy(shifted, labels[:, 1:].reshape(-1))
    return loss + 1e-3 * shifted.logsumexp(-1).pow(2).mean()


@program("pythia", library="transformers")
def pythia(setting: Setting) -> Built:
    """A GPT-NeoX with parallel residuals and a quarter of each head turning, with attention by sdpa."""
    import torch

    model = decoder(
        "GPTNeoXConfig", "GPTNeoXForCausalLM", setting, intermediate_size=160, attn_implementation="sdpa",
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25},
        use_parallel_residual=True, hidden_dropout=0.0, attention_dropout=0.0,
    ).train()  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
    return Built(model, pretrain, blocks(setting, 2), optimizer)
