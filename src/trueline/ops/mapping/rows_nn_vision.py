"""Rows of ``paddle.nn.functional`` and ``paddle.vision.ops``: images and boxes."""

from __future__ import annotations

from typing import Any

from trueline.ops.mapping.nn import nn_row
from trueline.ops.mapping.rows import Row, row


def _vision(name: str, names: str, *examples: str, **rest: Any) -> Row:
    return row(f"paddle.vision.ops.{name}", f"composite.{name}", f"{names} name-", *examples, **rest)


_SIZES = "x size scale_factor mode align_corners align_mode data_format"
_DRAWN_SIZES = "size=uniform(3,8) scale_factor=uniform(1.1,2.5)"

ROWS = (
    nn_row("interpolate", "composite.interpolate", f"{_SIZES} recompute_scale_factor antialias",
        "(f[2,3,4,5], [6,7])", '(f[2,3,4,5], None, 2, "nearest")', '(f[2,3,4,5], [7,3], mode="bilinear")',
        '(f[2,3,4,5], [7,9], None, "bilinear", True)', '(f[2,3,4,5], [7,9], mode="bilinear", align_mode=1)',
        '(f[2,4,5,3], scale_factor=[1.5,2.0], mode="bilinear", data_format="NHWC")',
        '(f[2,3,6], [9], mode="linear")', '(f[2,3,6], [4], mode="linear", align_corners=True)',
        '(f[1,2,3,4,3], [4,5,6], mode="trilinear")', '(f[1,2,3,4,3], [4,5,6], mode="nearest")',
        '(f[2,3,4,5], [7,9], mode="bicubic")', '(f[2,3,4,5], [7,9], mode="bicubic", align_corners=True)',
        '(f[2,3,8,9], [3,4], mode="area")', '(d[1,2,4,5], [8,10], mode="bilinear")',
        '(f[2,3,9,8], [4,3], mode="bilinear", antialias=True)', '(f[2,3,9,8], [4,3], mode="bicubic", antialias=True)',
        '(f[2,3,9,8], scale_factor=0.4)',
        '(f[2,3,4,5], scale_factor=1.7, mode="bilinear", recompute_scale_factor=True)',
        '(f[2,3,4,5], scale_factor=1.7, mode="bicubic")', '(f[2,6,3], [9], mode="linear", data_format="NWC")',
        '(f[1,2,3,4,3], [4,5,6], mode="trilinear", align_mode=1)', '(f[2,3,4,5], j[2], mode="bilinear")',
        '(f[2,3,4,5], None, f[2])', needs=_DRAWN_SIZES, like="torch.nn.functional.interpolate",
        differs=('(d[2,3,4,5], [7,9], mode="bilinear")', '(d[2,3,4,5], [7,9], mode="bicubic")',
                 '(f[2,4,5,3], scale_factor=1.7, mode="bilinear", recompute_scale_factor=True, data_format="NHWC")',
                 '(f[1,1,2,2], scale_factor=1.3, mode="bicubic")', '(f[1,1,2,2], scale_factor=1.3, mode="bilinear")'),
        disagreement="Paddle reckons positions in float32 also for float64; with recompute_scale_factor it takes the "
        "sizes of NCHW also where the channels are last; and where the result has the size of the input it copies, "
        "whatever the scale, except in the backward of bicubic"),
    nn_row("upsample", "composite.interpolate", _SIZES, "(f[2,3,4,5], [8,10])",
        '(f[2,3,4,5], [7,9], None, "bilinear", True)', '(f[2,3,4,5], scale_factor=2, mode="bicubic")',
        '(f[2,4,5,3], [6,7], mode="bilinear", align_mode=1, data_format="NHWC")',
        needs=_DRAWN_SIZES, like="torch.nn.functional.interpolate",
        differs=('(d[2,3,4,5], [7,9], mode="bilinear")',),
        disagreement="Paddle reckons positions in float32 also for float64"),
    nn_row("grid_sample", "grid_sample", "x:input grid mode padding_mode align_corners=true",
        "(f[2,3,4,5], f[2,3,4,2])", '(f[2,3,4,5], f[2,3,4,2], "nearest", "border")',
        '(f[2,3,4,5], f[2,3,4,2], "bilinear", "reflection", False)',
        '(f[2,3,4,5], f[2,3,4,2], "bilinear", "reflection", True)', "(d[1,2,4,4], d[1,3,3,2], align_corners=False)",
        '(f[1,2,3,4,3], f[1,2,3,2,3], padding_mode="border")', needs="grid=uniform(-1.5,1.5)"),
    nn_row("affine_grid", "composite.affine_grid", "theta out_shape align_corners", "(f[2,2,3], [2,3,4,5])",
        "(f[2,2,3], (2,3,4,5,), False)", "(d[1,3,4], [1,2,3,4,2])", "(f[3,2,3], j[4])",
        like="torch.nn.functional.affine_grid", needs="out_shape=sizes({theta.0},3)",
        differs=("(f[1,2,3], [1,2,1,3])",),
        disagreement="With align_corners Paddle divides by zero where a side of the grid has one point"),
    _vision("nms", "boxes iou_threshold scores category_idxs categories top_k", "(f[8,4], 0.3)",
        "(f[12,4], 0.2, f[12])", "(f[12,4], 0.2, f[12], i[12], [0,1,2])", "(f[12,4], 0.2, f[12], i[12], [0,1,2], 3)",
        needs="boxes=boxes(20) category_idxs=index(3)", like="torch.argsort", constant="boxes scores"),
    _vision("roi_align", "x boxes boxes_num output_size spatial_scale sampling_ratio aligned",
        "(f[2,3,8,9], f[3,4], j[2], 2)", "(f[2,3,8,9], f[3,4], j[2], [3,2], 0.5, 2, False)",
        "(d[2,1,8,8], d[4,4], j[2], output_size=3, spatial_scale=0.5, aligned=True)",
        needs="boxes=boxes(8) boxes_num=parts({boxes.0})", constant="boxes", like="torch.nn.functional.grid_sample"),
    _vision("roi_pool", "x boxes boxes_num output_size spatial_scale", "(f[2,3,8,9], f[3,4], j[2], 2)",
        "(f[2,3,8,9], f[4,4], j[2], [3,2], 0.5)", constant="boxes", like="torch.amax",
        needs="boxes=boxes(8) boxes_num=parts({boxes.0})"),
    _vision("psroi_pool", "x boxes boxes_num output_size spatial_scale", "(f[2,8,8,9], f[3,4], j[2], 2)",
        "(f[2,12,8,9], f[4,4], j[2], [3,2], 0.5)", constant="boxes", like="torch.nn.functional.avg_pool2d",
        needs="boxes=boxes(8) boxes_num=parts({boxes.0})"),
    _vision("box_coder", "prior_box prior_box_var target_box code_type box_normalized axis", "(f[5,4], f[5,4], f[3,4])",
        '(f[5,4], [0.1,0.1,0.2,0.2], f[3,4], "encode_center_size", False)',
        '(f[5,4], f[5,4], f[3,5,4], "decode_center_size")',
        '(d[3,4], d[3,4], d[3,5,4], "decode_center_size", False, 1)',
        needs="prior_box=boxes(8) prior_box_var=positive(0.1,0.5) target_box=boxes(8)",
        constant="prior_box prior_box_var target_box", like="torch.exp"),
    _vision("prior_box", "input image min_sizes max_sizes aspect_ratios variance flip clip steps offset "
        "min_max_aspect_ratios_order", "(f[1,2,3,4], f[1,3,9,12], [2.0,4.0])",
        "(f[1,2,3,4], f[1,3,9,12], [2.0,4.0], [5.0,6.0], [1.0,2.0], flip=True, clip=True)",
        "(f[1,2,3,4], f[1,3,9,12], [2.0], [5.0], [2.0,3.0], [0.2,0.2,0.1,0.1], steps=[3.0,2.0], offset=0.25,"
        " min_max_aspect_ratios_order=True)", constant="input image", like="torch.arange"),
    _vision("yolo_box", "x img_size anchors class_num conf_thresh downsample_ratio clip_bbox name- scale_x_y "
        "iou_aware!=false iou_aware_factor-", "(f[2,14,3,4], j[2,2], [10,13,16,30], 2, 0.3, 8)",
        "(f[1,16,3,3], j[1,2], [10,13,16,30], 3, 0.01, 16, False, scale_x_y=1.2)",
        needs="img_size=uniform(20,60)", constant="x", like="torch.sigmoid"),
    _vision("deform_conv2d", "x offset weight bias stride padding dilation deformable_groups groups mask",
        "(f[2,4,5,6], f[2,18,3,4], f[3,4,3,3])",
        "(f[1,4,5,5], f[1,16,4,4], f[6,2,2,2], f[6], 1, 0, 1, 2, 2, f[1,8,4,4])",
        "(d[1,2,6,6], d[1,18,3,3], d[2,2,3,3], d[2], 2, 1, 1, mask=d[1,9,3,3])",
        "(f[1,2,6,6], f[1,18,4,4], f[2,2,3,3], None, 1, [1,1], [2,2])", needs="offset=between",
        like="torch.nn.functional.conv2d"),
    _vision("distribute_fpn_proposals", "fpn_rois min_level max_level refer_level refer_scale pixel_offset rois_num",
        "(f[8,4], 2, 4, 3, 10, rois_num=j[1])", "(f[8,4], 2, 5, 3, 8, True, j[2])",
        needs="fpn_rois=boxes(30) rois_num=parts({fpn_rois.0})", constant="fpn_rois", like="torch.index_select"),
)  # fmt: skip
