"""The same in other code, of models in ``programs/more_models.py`` and others."""

from __future__ import annotations

from benchmarks.zoo.encoders_edits import modeling
from benchmarks.zoo.source import edit_function
from benchmarks.zoo.spec import Built, clean


@clean("stablelm", "more-stablelm-sdpa")
def more_stablelm_sdpa(built: Built) -> None:
    """Attention by scaled_dot_product_attention instead of written out."""
    built.model.set_attn_implementation("sdpa")


@clean("albert", "more-albert-sdpa")
def more_albert_sdpa(built: Built) -> None:
    """Attention by scaled_dot_product_attention instead of written out."""
    built.model.set_attn_implementation("sdpa")


@clean("nemotron", "more-nemotron-square-as-product")
def more_nemotron_square_as_product(built: Built) -> None:
    """The square of the rectified values is a product of two."""
    import torch

    class Squared(torch.nn.Module):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return values * torch.nn.functional.relu(values)

    for layer in built.model.model.layers:
        layer.mlp.act_fn = Squared()


@clean("nemotron", "more-nemotron-norm-in-two")
def more_nemotron_norm_in_two(built: Built) -> None:
    """The one is added after the norm: its input, normed, comes on top."""
    edit_function(
        modeling("nemotron").NemotronLayerNorm1P, "forward",
        ("return F.layer_norm(*args)",
         "plain = F.layer_norm(input, self.normalized_shape, None, None, self.eps)\n"
         "        return plain * (self.weight + 1.0) + self.bias"),
    )  # fmt: skip


@clean("gptneo", "more-gptneo-scores-by-einsum")
def more_gptneo_scores_by_einsum(built: Built) -> None:
    """The products of queries and keys, and of weights and values, are by einsum."""
    edit_function(
        modeling("gpt_neo").GPTNeoSelfAttention, "_attn",
        ("attn_weights = torch.matmul(query, key.transpose(-1, -2))",
         'attn_weights = torch.einsum("bhqd,bhkd->bhqk", query, key)'),
        ("attn_output = torch.matmul(attn_weights, value)",
         'attn_output = torch.einsum("bhqk,bhkd->bhqd", attn_weights, value)'),
    )  # fmt: skip


@clean("stablelm", "more-stablelm-loss-in-two-chunks")
def more_stablelm_loss_in_two_chunks(built: Built) -> None:
    """The loss is summed over two parts of the tokens and divided by their number."""
    import torch

    def loss_function(
        logits: torch.Tensor, labels: torch.Tensor, vocab_size: int, **_: object
    ) -> torch.Tensor:
        wanted = torch.nn.functional.pad(labels, (0, 1), value=-100)[:, 1:].reshape(-1)
        flat, half = logits.float().reshape(-1, vocab_size), wanted.numel() // 2
        parts = [(flat[:half], wanted[:half]), (flat[half:], wanted[half:])]
        sums = [torch.nn.functional.cross_entropy(one, other, reduction="sum") for one, other in parts]
        return (sums[0] + sums[1]) / (wanted != -100).sum()

    built.model.loss_function = loss_function


@clean("albert", "more-albert-gelu-written-out")
def more_albert_gelu_written_out(built: Built) -> None:
    """The approximation of gelu is torch's own."""
    import torch

    for module in built.model.modules():
        if hasattr(module, "activation") and type(module).__name__ in ("AlbertLayer", "AlbertMLMHead"):
            module.activation = torch.nn.GELU(approximate="tanh")
