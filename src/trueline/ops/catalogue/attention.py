"""Attention, and recurrent layers and cells."""

from __future__ import annotations

from trueline.ops.catalogue.language import B, Row, T, op

_A = "torch.nn.functional.scaled_dot_product_attention"


def _qkv(*batch: int, queries: int = 9, keys: int = 9, width: int = 16) -> tuple[object, ...]:
    return T(*batch, queries, width), T(*batch, keys, width), T(*batch, keys, width)


ATTENTION: list[Row] = [
    op(_A, *_qkv(2, 4)),
    op(_A, *_qkv(2, 4, queries=7, keys=33)),
    op(_A, *_qkv(2, 4), is_causal=True),
    op(_A, *_qkv(2, 4, queries=64, keys=64, width=32), is_causal=True),
    op(_A, *_qkv(2, 4), B(9, 9, of="attention_mask")),
    op(_A, *_qkv(2, 4), B(2, 1, 9, 9, of="boolean(0.4)")),
    op(_A, *_qkv(2, 4), T(9, 9, of="attention_mask", grad=False)),
    op(_A, *_qkv(2, 4), T(2, 4, 9, 9)),
    op(_A, *_qkv(2, 4), scale=0.5),
    op(_A, *_qkv(3, queries=5, keys=8, width=7)),
    op(_A, *_qkv(queries=5, keys=8)),
    op(_A, T(1, 4, 9, 16, of="normal scaled(8)"), T(1, 4, 9, 16, of="normal scaled(8)"), T(1, 4, 9, 16)),
    op(_A, *_qkv(1, 2, queries=3, keys=700)),
    op(_A, T(2, 8, 9, 16), T(2, 2, 9, 16), T(2, 2, 9, 16), enable_gqa=True),
    op(_A, T(2, 4, 9, 16, layout="turned"), T(2, 4, 9, 16), T(2, 4, 9, 16)),
    *[
        op(
            "torch.nn.functional.multi_head_attention_forward",
            T(7, 2, 16),
            T(9, 2, 16),
            T(9, 2, 16),
            16,
            4,
            T(48, 16),
            T(48),
            None,
            None,
            False,
            0.0,
            T(16, 16),
            T(16),
            training=False,
            **more,
        )
        for more in (
            {},
            {"need_weights": False},
            {"attn_mask": B(7, 9, of="boolean(0)")},
            {"key_padding_mask": B(2, 9, of="boolean(0)"), "average_attn_weights": False},
        )
    ],
]


def _layer(gates: int, inputs: int, hidden: int, *, biases: bool = True) -> list[object]:
    weights: list[object] = [
        T(gates * hidden, inputs, of="normal scaled(0.3)"),
        T(gates * hidden, hidden, of="normal scaled(0.3)"),
    ]
    return weights + ([T(gates * hidden), T(gates * hidden)] if biases else [])


# In training: cuDNN has no backward of a recurrent layer that was evaluated.
RECURRENT: list[Row] = [
    *[
        row
        for name, gates in (("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1))
        for row in (
            op(f"torch.{name}", T(7, 3, 5), T(1, 3, 6), _layer(gates, 5, 6), True, 1, 0.0, True, False, False),
            op(
                f"torch.{name}",
                T(3, 7, 5),
                T(1, 3, 6),
                _layer(gates, 5, 6, biases=False),
                False,
                1,
                0.0,
                True,
                False,
                True,
            ),
            op(
                f"torch.{name}",
                T(7, 3, 5),
                T(2, 3, 6),
                [*_layer(gates, 5, 6), *_layer(gates, 5, 6)],
                True,
                1,
                0.0,
                True,
                True,
                False,
            ),
        )
    ],
    op("torch.lstm", T(7, 3, 5), [T(1, 3, 6), T(1, 3, 6)], _layer(4, 5, 6), True, 1, 0.0, True, False, False),
    op(
        "torch.lstm",
        T(3, 40, 5),
        [T(2, 3, 6), T(2, 3, 6)],
        [*_layer(4, 5, 6), *_layer(4, 6, 6)],
        True,
        2,
        0.0,
        True,
        False,
        True,
    ),
    op("torch.lstm_cell", T(3, 5), [T(3, 6), T(3, 6)], *_layer(4, 5, 6)),
    op("torch.gru_cell", T(3, 5), T(3, 6), *_layer(3, 5, 6)),
    op("torch.rnn_tanh_cell", T(3, 5), T(3, 6), *_layer(1, 5, 6)),
    op("torch.rnn_relu_cell", T(3, 5), T(3, 6), *_layer(1, 5, 6)),
]

ROWS = [*ATTENTION, *RECURRENT]
