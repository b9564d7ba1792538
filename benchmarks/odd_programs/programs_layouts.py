"""Tensors that are not plain blocks of numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from benchmarks.odd_programs.registry import Skip, program


@program
def sparse_coordinates_uncoalesced() -> Any:
    places, values = torch.tensor([[0, 0, 1], [2, 2, 0]]), torch.tensor([1.0, 2.0, 3.0])
    x = torch.sparse_coo_tensor(places, values, (2, 3), requires_grad=True)
    y = torch.sparse.mm(x, torch.ones(3, 2))
    y.sum().backward()
    states = [x.is_coalesced(), x.grad.is_coalesced(), x._nnz(), (x * 2)._nnz(), x.coalesce()._nnz(), x.is_coalesced()]
    return y, x.grad.to_dense(), states, torch.sparse.softmax(x.detach(), 1).to_dense(), repr(x.detach() + x.detach())


@program
def sparse_gradients_of_an_embedding() -> Any:
    table = nn.Embedding(10, 3, sparse=True)
    optimizer = torch.optim.SparseAdam(table.parameters(), lr=0.1)
    layouts = []
    for _ in range(2):
        optimizer.zero_grad()
        table(torch.tensor([1, 4, 4])).pow(2).sum().backward()
        layouts.append((str(table.weight.grad.layout), table.weight.grad._nnz(), table.weight.grad.is_coalesced()))
        optimizer.step()
    return table.weight, layouts


@program
def sparse_compressed_layouts() -> Any:
    dense = torch.tensor([[0.0, 1.0, 0.0, 2.0], [3.0, 0.0, 0.0, 0.0]])
    rows, columns = dense.to_sparse_csr(), dense.to_sparse_csc()
    blocks = dense.to_sparse_bsr((1, 2))
    product = rows @ torch.eye(4)
    return product, columns.to_dense(), blocks.values(), (rows * 2).to_dense(), [str(t.layout) for t in (rows, blocks)]


@program
def nested_tensors_strided() -> Any:
    x = torch.nested.nested_tensor([torch.randn(2, 4), torch.randn(3, 4)])
    y = nn.functional.linear(x, torch.ones(2, 4))
    padded = torch.nested.to_padded_tensor(torch.relu(y), 0.0)
    return padded, list(y.unbind()), y.is_nested, y.size(0), repr(y.softmax(-1).unbind()[1])


@program
def nested_tensors_jagged() -> Any:
    if not hasattr(torch, "jagged"):
        raise Skip("jagged layout is missing")
    parts = [torch.randn(2, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True)]
    x = torch.nested.as_nested_tensor(parts, layout=torch.jagged)
    y = nn.functional.gelu(x * 2).sin()
    y.values().sum().backward()
    return y.values(), y.offsets(), parts[0].grad, str(x.shape)[:20], type(y).__name__


@program
def quantized_tensors_and_modules() -> Any:
    x = torch.quantize_per_tensor(torch.linspace(-1, 1, 6), 0.1, 3, torch.quint8)
    channels = torch.quantize_per_channel(torch.ones(2, 3), torch.tensor([0.1, 0.2]), torch.zeros(2), 0, torch.qint8)
    relu = torch.relu(x)
    return x.int_repr(), x.dequantize(), relu.q_scale(), relu.int_repr(), channels.q_per_channel_scales(), repr(x[:2])


@program
def dynamically_quantized_model() -> Any:
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    quantized = torch.ao.quantization.quantize_dynamic(net, {nn.Linear}, dtype=torch.qint8)
    return quantized(torch.ones(2, 4)), [type(m).__name__ for m in quantized.modules()]


@program
def meta_tensors() -> Any:
    net = nn.TransformerEncoderLayer(16, 2, 32, device="meta", batch_first=True)
    out = net(torch.empty(2, 5, 16, device="meta"))
    out.sum().backward()
    try:
        out.sum().item()
        text = "a number"
    except Exception as error:
        text = type(error).__name__
    huge = torch.empty(1 << 30, 1 << 20, device="meta").sum(0)
    return out, text, huge, net.linear1.weight.grad.shape, [type(value).__name__ for value in net.parameters()][:2]


@program
def complex_numbers_conjugate_and_negative_views() -> Any:
    x = torch.randn(3, dtype=torch.complex64, requires_grad=True)
    conjugate = x.conj()
    imaginary = conjugate.imag
    states = [conjugate.is_conj(), imaginary.is_neg(), x[None].mH.is_conj(), conjugate.resolve_conj().is_conj()]
    y = (conjugate * imaginary).abs().pow(2).sum()
    y.backward()
    storage = conjugate.detach().untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    return y, x.grad, states, storage, torch.view_as_real(x.detach()), imaginary.detach() + 0


@program
def tensors_without_elements() -> Any:
    x = torch.empty(0, 4, requires_grad=True)
    net = nn.Linear(4, 2)
    out = net(x)
    out.sum().backward()
    results = [out, x.grad, net.weight.grad, x.mean(), torch.cat([x, torch.ones(1, 4)]), torch.empty(2, 0, 3).sum(1)]
    texts = []
    for call in (torch.Tensor.max, torch.Tensor.item, lambda t: t[0], torch.Tensor.argmin):
        try:
            call(x)
        except Exception as error:
            texts.append(f"{type(error).__name__}: {error}")
    return results, texts, torch.empty(0).std(), torch.empty(0, dtype=torch.int64).sum(), torch.empty(0).prod()


@program
def tensors_without_dimensions() -> Any:
    x = torch.tensor(3.0, requires_grad=True)
    y = x.exp()[None].squeeze() * 2
    y.backward()
    texts = []
    for call in (len, lambda t: t[0], iter):
        try:
            call(x)
        except Exception as error:
            texts.append(f"{type(error).__name__}: {error}")
    return y, x.grad, float(x), int(x), f"{x:.2f}", bool(x), [1, 2, 3, 4][torch.tensor(2)], texts, x.tolist()


@program
def more_elements_than_an_int_can_count() -> Any:
    one = torch.ones(1)
    huge = one.expand(1 << 32)
    strided = torch.as_strided(torch.zeros(4), (1 << 16, 1 << 17), (0, 0))
    shapes = [
        tuple(huge.view(1 << 16, 1 << 16).shape),
        strided.numel(),
        tuple(huge[5:].shape),
        tuple(huge.unsqueeze(0).T.shape),
    ]
    leaf = torch.ones(1, requires_grad=True)
    wide = leaf.expand(1 << 33).view(1 << 31, 4)
    wide.backward(one.expand(1 << 31, 4))
    return shapes, huge[1 << 31], leaf.grad, wide[-1], strided[-1, -4:].clone(), huge.stride()


@program
def huge_view_as_a_result_of_a_module() -> Any:
    class Broad(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.expand(1 << 31, 3)

    x = torch.tensor([1.0, float("inf"), float("nan")], requires_grad=True)
    out = Broad()(x)
    return tuple(out.shape), out[-1].detach(), out.requires_grad, out.untyped_storage().nbytes()


@program
def overlapping_and_negative_strides() -> Any:
    base = torch.arange(6.0)
    windows = base.as_strided((4, 3), (1, 1))
    unfolded = base.unfold(0, 3, 2)
    try:
        windows.add_(1)
        text = "no error"
    except RuntimeError as error:
        text = str(error)[:60]
    flipped = base.flip(0)
    diagonal = torch.eye(3).diagonal()
    diagonal.mul_(5)
    return windows @ torch.ones(3), unfolded, text, flipped, diagonal, torch.ones(2, 3).mT.is_contiguous(), base


@program
def channels_last_and_odd_memory_formats() -> Any:
    x = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).to(memory_format=torch.channels_last)
    out = net(x)
    out.sum().backward()
    return out, out.stride(), net[0].weight.grad, net[0].weight.grad.stride(), x[:, :, ::2].clone().stride()


@program
def small_floats_and_odd_integers() -> Any:
    results: list[Any] = []
    values = torch.tensor([0.1, 1.0, 300.0, -0.0, float("nan"), float("inf")])
    for name in ("float8_e4m3fn", "float8_e5m2", "bfloat16", "float16", "uint16", "uint32", "uint64", "int8"):
        if hasattr(torch, name):
            numbers = values if "float" in name else values[:4].abs()
            cast = numbers.to(getattr(torch, name))
            results.append((cast, cast.float(), cast.view(torch.uint8)[:4]))
    return results, torch.tensor([True, False]) + torch.tensor([True, True]), torch.zeros(2, dtype=torch.complex32)


@program
def nan_payloads_and_signed_zeros() -> Any:
    bits = torch.tensor([0x7FC00001, 0x7F800002, -1, 0x7FC12345, -2147483648], dtype=torch.int32)
    x = bits.view(torch.float32)
    net = nn.Identity()
    copied = [x.clone(), net(x), torch.cat([x, x]), x.view(5, 1).expand(5, 2).contiguous(), torch.where(x == 0, x, x)]
    return [value.view(torch.int32) for value in copied], torch.signbit(x), -x


@program
def named_dimensions() -> Any:
    try:
        x = torch.randn(2, 3, names=("batch", "width"))
    except TypeError:
        raise Skip("dimensions have no names any more") from None
    y = x.sum("width").exp()
    try:
        x + torch.randn(3, 2, names=("width", "batch"))
        text = "no error"
    except RuntimeError as error:
        text = str(error)[:80]
    return y.rename(None), y.names, x.align_to("width", "batch").names, text


@program
def tensors_of_mkldnn() -> Any:
    if not torch.backends.mkldnn.is_available():
        raise Skip("mkldnn is missing")
    x = torch.randn(2, 3).to_mkldnn()
    y = torch.relu(x)
    return y.to_dense(), str(y.layout), repr(y), y.is_mkldnn


@program
def lists_and_dictionaries_of_tensors_as_arguments() -> Any:
    class Deep(nn.Module):
        def forward(self, *parts: Any, **named: Any) -> Any:
            return {"sum": sum(parts[0]["a"]), "same": parts, "none": None, 3: named["x"] * 2, "set": frozenset({1})}

    items = {"a": [torch.ones(2), torch.ones(2)], "b": (None, "text", 3 + 4j)}
    out = Deep()(items, range(3), slice(1, 2), x=torch.ones(1), y=object)
    cyclic: list[Any] = [torch.ones(1)]
    cyclic.append(cyclic)
    kept = Deep()({"a": [torch.ones(1)]}, cyclic, x=torch.ones(1))
    return out["sum"], out[3], out["same"][0] is items, kept["same"][1] is cyclic, list(out)
