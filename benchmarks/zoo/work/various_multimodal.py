"""Cases on CLIP and LLaVA."""

from __future__ import annotations

from benchmarks.zoo.source import edit_function, imported
from benchmarks.zoo.spec import Built, Setting, Where, clean, fault
from benchmarks.zoo.various_edits import edit_one, edit_step


@fault(
    "clip",
    "clip-features-not-normalised",
    Where("missing", ("pow", "sum", "div", "truediv", "matmul"), ("",), calls=4),
    source="https://github.com/moein-shariatnia/OpenAI-CLIP/issues/10",
)
def features_not_normalised(built: Built) -> None:
    """The features of the texts are not divided by their length."""
    edit_one(built.model, "forward", ("text_embeds = text_embeds / _get_vector_norm(text_embeds)", ""))


@fault(
    "llava",
    "llava-last-vision-layer",
    Where("argument", ("getitem", "linear"), ("model", "model.multi_modal_projector*", "")),
    Where("data", ("getitem", "linear"), ("model", "model.multi_modal_projector*", "")),
    source="https://github.com/zjysteven/lmms-finetune/issues/4",
)
def last_vision_layer(built: Built) -> None:
    """The features of the picture come from the last layer of its encoder, not from the last but one."""
    built.model.config.vision_feature_layer = -1
    built.model.model.config.vision_feature_layer = -1


@fault(
    "llava",
    "llava-projector-frozen",
    Where("update", (), ("*",), ("model.multi_modal_projector*",), phase="backward"),
    Where("update", (), ("*",), ("model.multi_modal_projector*",)),
    Where("missing", (), ("model.multi_modal_projector*",), phase="backward"),
    source="https://github.com/cvlab-kaist/VIRAL/issues/8",
)
def projector_frozen(built: Built) -> None:
    """The layers between picture and text are frozen by mistake."""
    import torch

    built.model.model.multi_modal_projector.requires_grad_(False)
    parameters = [p for p in built.model.parameters() if p.requires_grad]
    built.optimizer = torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.0)


@fault(
    "llava",
    "llava-patches-transposed",
    Where("extra", ("transpose", "flatten"), ("model.vision_tower*embeddings",)),
    source="https://github.com/lablup/mlxcel/issues/1610",
)
def patches_transposed(built: Built) -> None:
    """The patches of a picture are listed column by column, where the positions expect them row by row."""
    edit_one(
        built.model.model.vision_tower.embeddings,
        "forward",
        ("patch_embeds.flatten(2)", "patch_embeds.transpose(2, 3).flatten(2)"),
    )


@fault(
    "llava",
    "llava-mean-of-means",
    Where("region", ("cross_entropy", "float", "pad", "getitem", "view", "stack", "mean"), ("",), calls=14),
    source="https://github.com/huggingface/transformers/pull/34191",
)
def mean_of_means(built: Built) -> None:
    """The loss is the mean of the means of the rows, however many labels a row has."""
    edit_step(
        built,
        (
            "result = built.model(**built.batches[index])",
            "result, labels = built.model(**built.batches[index]), built.batches[index]['labels']\n"
            "    rows = [\n"
            "        built.model.loss_function(logits=result.logits[at : at + 1], labels=labels[at : at + 1],"
            " vocab_size=128)\n"
            "        for at in range(len(labels))\n"
            "    ]\n"
            "    result.loss = torch.stack(rows).mean()",
        ),
    )


@clean("clip", "clip-sdpa")
def clip_sdpa(built: Built) -> None:
    """Attention is computed by torch's function."""
    built.model.set_attn_implementation("sdpa")


def _norm(setting: Setting) -> None:
    from benchmarks.zoo.torchvision_ops import prepare

    prepare()
    edit_function(
        imported("transformers.models.clip.modeling_clip"),
        "_get_vector_norm",
        ("return normed_tensor", "return torch.linalg.vector_norm(tensor, dim=-1, keepdim=True)"),
        ("square_tensor = torch.pow(tensor, 2)", ""),
        ("sum_tensor = torch.sum(square_tensor, dim=-1, keepdim=True)", ""),
        ("normed_tensor = torch.pow(sum_tensor, 0.5)", ""),
    )


@clean("clip", "clip-vector-norm-normalise", before=_norm)
def vector_norm_normalise(built: Built) -> None:
    """The length of the features is computed by torch's function."""


@clean("llava", "llava-scatter-by-index")
def scatter_by_index(built: Built) -> None:
    """The features of the picture are put in the place of its tokens by an assignment to an index."""
    edit_one(
        built.model.model,
        "forward",
        (
            "inputs_embeds = inputs_embeds.masked_scatter(special_image_mask, image_features)",
            "inputs_embeds = inputs_embeds.clone()\n"
            "        inputs_embeds[special_image_mask.squeeze(-1)] = image_features.flatten(0, -2)",
        ),
    )
