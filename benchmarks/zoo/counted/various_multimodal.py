"""Cases on CLIP and LLaVA."""

from __future__ import annotations

from benchmarks.zoo.source import edit_function, imported
from benchmarks.zoo.spec import Built, Change, Setting, Where, clean, fault
from benchmarks.zoo.various_edits import edit_one, edit_step


@fault(
    "clip",
    "clip-text-gelu-exact",
    Where(
        "region",
        ("gelu", "mul", "sigmoid", "rmul"),
        ("text_model.encoder.layers.*.mlp", "text_model.encoder.layers.*.mlp.activation_fn"),
        calls=3,
    ),
    source="https://github.com/mlfoundations/open_clip/issues/771",
)
def text_gelu_exact(built: Built) -> None:
    """The text encoder computes GELU where its weights were trained with the quick form."""
    from transformers.activations import ACT2FN

    for layer in built.model.text_model.encoder.layers:
        layer.mlp.activation_fn = ACT2FN["gelu"]


@fault(
    "clip",
    "clip-eos-token-id-unset",
    Where("argument", ("eq", "argmax", "getitem"), ("text_model",)),
    Where("region", ("eq", "argmax", "getitem", "int", "to"), ("text_model",), calls=4),
    source="https://github.com/huggingface/transformers/pull/24777",
)
def eos_token_id_unset(built: Built) -> None:
    """The token that ends a text is set to one that no text has, so that the first token stands for the text."""
    built.model.text_model.eos_token_id = 1000


@fault(
    "clip",
    "clip-temperature-without-exponent",
    Where("missing", ("exp", "mul"), ("",)),
    source="https://github.com/BAAI-DCAI/M3D/issues/52",
)
def temperature_without_exponent(built: Built) -> None:
    """The similarities are multiplied by the logarithm of their scale."""
    edit_one(built.model, "forward", ("self.logit_scale.exp()", "self.logit_scale"))


def _captions_only(setting: Setting) -> None:
    from benchmarks.zoo.torchvision_ops import prepare

    prepare()
    edit_function(
        imported("transformers.models.clip.modeling_clip"),
        "image_text_contrastive_loss",
        ("image_loss = contrastive_loss(similarity.T)", ""),
        ("return (caption_loss + image_loss) / 2.0", "return caption_loss"),
    )


@fault(
    "clip",
    "clip-picture-loss-missing",
    Where("missing", ("cross_entropy", "add", "div", "truediv", "arange", "T", "t"), ("",), calls=5),
    source="https://github.com/moein-shariatnia/OpenAI-CLIP/issues/16",
    before=_captions_only,
)
def picture_loss_missing(built: Built) -> None:
    """The loss compares texts with pictures but not pictures with texts."""


@fault(
    "clip",
    "clip-imagenet-statistics",
    Where("data", (), ("*",), ("*pixel_values*",)),
    Where("data", ("conv2d",), ("vision_model.embeddings*",)),
    source="https://github.com/openai/CLIP/issues/20",
)
def imagenet_statistics(built: Built) -> None:
    """Pictures are normalised by the mean and the deviation of ImageNet."""
    import torch

    from benchmarks.zoo.programs.various_multimodal import MIDDLE, SPREAD, normalised

    for batch in built.batches:
        given = batch["pixel_values"]
        original = given.float().cpu() * torch.tensor(SPREAD)[:, None, None] + torch.tensor(MIDDLE)[:, None, None]
        batch["pixel_values"] = normalised(original, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)).to(given)


@fault(
    "llava",
    "llava-rotary-bfloat16",
    Where("precision", ("to", "mul", "float", "cos"), ("model.language_model.rotary_emb",)),
    Where("state", (), ("*",), ("*inv_freq*",)),
    source="https://github.com/huggingface/transformers/issues/29496",
    dtypes=("float32",),
)
def rotary_bfloat16(built: Built) -> None:
    """The frequencies of the rotary positions were rounded to bfloat16."""
    import torch

    rotary = built.model.model.language_model.rotary_emb
    rotary.inv_freq = rotary.inv_freq.to(torch.bfloat16)


@fault(
    "llava",
    "llava-prompt-in-loss",
    Where("data", (), ("*",), ("*labels*",)),
    source="https://github.com/StarsfieldAI/R1-V/issues/165",
)
def prompt_in_loss(built: Built) -> None:
    """The labels leave out padding and pictures but not the words of the prompt."""
    for batch in built.batches:
        ids = batch["input_ids"]
        batch["labels"] = ids.masked_fill((batch["attention_mask"] == 0) | (ids == 49), -100)


def _tiled(setting: Setting) -> None:
    from benchmarks.zoo.torchvision_ops import prepare

    prepare()
    edit_function(
        imported("transformers.integrations.sdpa_attention"),
        "repeat_kv",
        (
            "return hidden_states.reshape(batch, num_key_value_heads * n_rep, slen, head_dim)",
            "return hidden_states.transpose(1, 2).reshape(batch, num_key_value_heads * n_rep, slen, head_dim)",
        ),
    )


@fault(
    "llava",
    "llava-key-value-heads-tiled",
    Where(
        "extra",
        ("transpose", "reshape", "expand", "getitem", "scaled_dot_product_attention"),
        ("model.language_model.layers.*.self_attn",),
    ),
    source="https://github.com/ekzhang/jax-js/pull/180",
    before=_tiled,
)
def key_value_heads_tiled(built: Built) -> None:
    """The heads of keys and values are repeated as a whole, not each beside itself."""


def _quick_gelu(setting: Setting) -> None:
    from benchmarks.zoo.torchvision_ops import prepare

    prepare()
    edit_function(
        imported("transformers.activations").QuickGELUActivation,
        "forward",
        ("return input * torch.sigmoid(1.702 * input)", "return input / (1 + torch.exp(-1.702 * input))"),
    )


@clean("clip", "clip-quick-gelu-written-out", before=_quick_gelu)
def quick_gelu_written_out(built: Built) -> None:
    """The sigmoid of the quick GELU is written out."""


def _padded_on_the_right(built: Built) -> None:
    built.batches[1] = {name: value.clone() for name, value in built.batches[0].items()}


@clean("llava", "llava-eager", both=Change(None, _padded_on_the_right))
def llava_eager(built: Built) -> None:
    """Attention is written out as matrix products and a softmax."""
    built.model.set_attn_implementation("eager")


def _rms_norm(setting: Setting) -> None:
    from benchmarks.zoo.torchvision_ops import prepare

    prepare()
    edit_function(
        imported("transformers.models.llama.modeling_llama").LlamaRMSNorm,
        "forward",
        ("variance = hidden_states.pow(2).mean(-1, keepdim=True)", "size = hidden_states.shape[-1:]"),
        (
            "hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)",
            "hidden_states = nn.functional.rms_norm(hidden_states, size, eps=self.variance_epsilon)",
        ),
    )


@clean("llava", "llava-rms-norm-function", before=_rms_norm)
def rms_norm_function(built: Built) -> None:
    """The normalisation of the language model calls torch's function."""


@clean("llava", "llava-padded-further")
def padded_further(built: Built) -> None:
    """Every row is padded by six more tokens at its end."""
    import torch

    for batch in built.batches:
        for name, value in (("input_ids", 0), ("attention_mask", 0), ("labels", -100)):
            batch[name] = torch.nn.functional.pad(batch[name], (0, 6), value=value)
    edit_step(built, ('"logits": result.logits}', '"logits": result.logits[:, :26]}'))
