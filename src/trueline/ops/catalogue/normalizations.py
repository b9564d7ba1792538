"""Layer, batch, group, instance and root-mean-square normalization."""

from __future__ import annotations

from trueline.ops.catalogue.language import Row, T, op

_F = "torch.nn.functional."


def _statistics(channels: int) -> tuple[object, object]:
    return T(channels, grad=False), T(channels, of="positive", grad=False)


ROWS: list[Row] = [
    *[
        row
        for api in (_F + "layer_norm", "torch.layer_norm")
        for row in (
            op(api, T(8, 16, 64), [64], T(64), T(64)),
            op(api, T(5, 33), [33]),
            op(api, T(4, 6, 11), [6, 11], T(6, 11), T(6, 11)),
            op(api, T(4, 768), [768], T(768), T(768), 1e-12),
            op(api, T(3, 4096), [4096], T(4096)),
            op(api, T(8, 64, of="normal shifted(50)"), [64], T(64), T(64)),
            op(api, T(8, 64, of="small"), [64]),
            op(api, T(8, 64, of="large"), [64]),
            op(api, T(8, 64, of="constant(3)"), [64], eps=0.1),
            op(api, T(12, 10, layout="turned"), [10], T(10), T(10)),
            op(api, T(0, 10), [10], T(10), T(10)),
        )
    ],
    *[
        row
        for api in (_F + "rms_norm", "torch.rms_norm")
        for row in (
            op(api, T(8, 16, 64), [64], T(64)),
            op(api, T(5, 33), [33]),
            op(api, T(4, 6, 11), [6, 11], T(6, 11), 1e-3),
            op(api, T(3, 4096), [4096], T(4096), 1e-6),
            op(api, T(8, 64, of="large"), [64], T(64)),
            op(api, T(8, 64, of="small"), [64], eps=1e-6),
        )
    ],
    *[
        op(_F + "batch_norm", T(*shape), *_statistics(shape[1]), T(shape[1]), T(shape[1]), training)
        for shape in ((16, 5), (8, 6, 7), (4, 6, 7, 5), (2, 3, 4, 5, 6))
        for training in (True, False)
    ],
    op(_F + "batch_norm", T(16, 6), None, None, training=True),
    op(_F + "batch_norm", T(4, 6, 7, 5), *_statistics(6), training=True, momentum=0.3, eps=1e-2),
    op(_F + "batch_norm", T(256, 3, 5, of="normal shifted(30)"), *_statistics(3), T(3), T(3), True),
    op(_F + "batch_norm", T(4, 6, 7, 5, layout="channels_last"), *_statistics(6), T(6), T(6), True),
    op(_F + "instance_norm", T(4, 6, 17)),
    op(_F + "instance_norm", T(4, 6, 7, 5), weight=T(6), bias=T(6)),
    op(_F + "instance_norm", T(4, 6, 7, 5), *_statistics(6), use_input_stats=True, momentum=0.2),
    op(_F + "instance_norm", T(4, 6, 7, 5), *_statistics(6), use_input_stats=False),
    *[
        row
        for api in (_F + "group_norm", "torch.group_norm")
        for row in (
            op(api, T(4, 6, 7, 5), 3, T(6), T(6)),
            op(api, T(4, 6, 17), 6, T(6), T(6)),
            op(api, T(4, 6, 17), 1, eps=1e-3),
            op(api, T(2, 32, 16, 16), 8, T(32), T(32)),
            op(api, T(4, 6, 7, 5, layout="channels_last"), 2, T(6), T(6)),
        )
    ],
    op(_F + "group_norm", T(4, 6), 3, T(6), T(6)),
    op(_F + "local_response_norm", T(2, 7, 9), 5),
    op(_F + "local_response_norm", T(2, 7, 6, 5), 3, alpha=1e-2, beta=0.5, k=2.0),
]
