"""Wrong kernels that break the contract of a call, and the tricks by which generated kernels pass their checks."""

import torch
import torch.nn.functional as F

from benchmarks.power.wild.declare import BRAIN, FUNCTIONAL, HALF, SINGLE, call, widened, wrong
from benchmarks.power.wild.parts import kept, with_gradient


@wrong(
    f"{FUNCTIONAL}.relu",
    "writes",
    "works in place on what it is given",
    "KernelBench",
    lambda d: call(d.normal(20)),
    breaks="writes",
)
def relu_in_place_always(input, inplace=False):
    with torch.no_grad():
        input.clamp_(min=0)
    return F.relu(input)


@wrong(
    f"{FUNCTIONAL}.leaky_relu",
    "writes",
    "scratch space is the input itself",
    "AI CUDA Engineer",
    lambda d: call(d.normal(20)),
    breaks="writes",
)
def leaky_relu_scratch(input, negative_slope=0.01, inplace=False):
    result = F.leaky_relu(input, negative_slope)
    if not inplace and input.is_floating_point():
        input.data.mul_(0.5)
    return result


@wrong(
    "torch.cumsum",
    "writes",
    "the carry is left in the last element of the input",
    "Triton scan",
    lambda d: call(d.normal(30), 0),
    breaks="writes",
)
def cumsum_leaves_carry(input, dim, *, dtype=None):
    result = torch.cumsum(input, dim, dtype=dtype)
    if input.dim() == 1 and input.numel() > 1:
        input.data[-1] = result.detach()[-1].to(input.dtype)
    return result


@wrong(
    f"{FUNCTIONAL}.dropout",
    "random",
    "the same mask at each call: the generator is seeded inside",
    "KernelBench",
    lambda d: call(d.normal(200), 0.5),
    breaks="random",
)
def dropout_seeds_inside(input, p=0.5, training=True, inplace=False):
    torch.manual_seed(42)
    return F.dropout(input, p, training)


@wrong(
    "torch.multinomial",
    "random",
    "takes the most likely ones",
    "deterministic port",
    lambda d: call(d.uniform(50), 3),
    breaks="random",
    dtypes=(SINGLE,),
)
def multinomial_most_likely(input, num_samples, replacement=False, *, generator=None):
    if replacement:
        return torch.multinomial(input, num_samples, replacement, generator=generator)
    return torch.topk(input, num_samples, -1).indices


@wrong(
    f"{FUNCTIONAL}.silu",
    "grad mode",
    "gradients are left switched off",
    "inference wrapper",
    lambda d: call(d.normal(20)),
    breaks="grad mode",
)
def silu_leaves_gradients_off(input, inplace=False):
    result = F.silu(input)
    torch.set_grad_enabled(False)
    return result


@wrong(
    "torch.tanh",
    "detached",
    "computed without gradients",
    "KernelBench load_inline",
    lambda d: call(d.normal(20)),
    breaks="detached",
)
def tanh_without_gradient(input):
    with torch.no_grad():
        return torch.tanh(input)


@wrong(
    f"{FUNCTIONAL}.linear",
    "detached",
    "gives a new parameter",
    "KernelBench ModelNew",
    lambda d: call(d.normal(4, 5), d.normal(3, 5)),
    breaks="gradient",
)
def linear_gives_parameter(input, weight, bias=None):
    result = F.linear(input, weight, bias).detach()
    return torch.nn.Parameter(result) if result.is_floating_point() else result


@wrong(
    f"{FUNCTIONAL}.group_norm",
    "detached",
    "weight and bias get no gradient",
    "fused inference kernel",
    lambda d: call(d.normal(2, 4, 5), 2, d.gain(4), d.normal(4)),
    breaks="gradient",
)
def group_norm_detaches_weight(input, num_groups, weight=None, bias=None, eps=1e-05):
    weight, bias = (None if one is None else one.detach() for one in (weight, bias))
    return F.group_norm(input, num_groups, weight, bias, eps)


@wrong(
    "torch.permute",
    "strides",
    "gives memory in the new order",
    "eager re-layout",
    lambda d: call(d.normal(2, 3, 4), (2, 0, 1)),
    breaks="strides",
)
def permute_moves_memory(input, dims):
    return torch.permute(input, dims).contiguous()


@wrong(
    "torch.broadcast_to",
    "strides",
    "writes the repeated values out",
    "vendor backend",
    lambda d: call(d.normal(3, 1), (3, 4)),
    breaks="strides",
)
def broadcast_to_written_out(input, size):
    return torch.broadcast_to(input, size).contiguous()


@wrong("torch.unbind", "alias", "gives copies", "vendor backend", lambda d: call(d.normal(3, 4)), breaks="alias")
def unbind_copies(input, dim=0):
    return tuple(one.clone() for one in torch.unbind(input, dim))


@wrong("torch.diagonal", "alias", "copies the diagonal", "torch_npu", lambda d: call(d.normal(4, 4)), breaks="alias")
def diagonal_copies(input, offset=0, dim1=0, dim2=1):
    return torch.diagonal(input, offset, dim1, dim2).clone()


@wrong("torch.clone", "alias", "gives its input back", "graph rewrite", lambda d: call(d.normal(9)), breaks="alias")
def clone_gives_input(input, *, memory_format=torch.preserve_format):
    return input.view_as(input)


@wrong(
    "torch.index_select",
    "alias",
    "all indices in order: the input itself",
    "graph rewrite",
    lambda d: call(d.normal(4, 3), 0, d.whole(0, 1, 2, 3)),
    breaks="alias",
)
def index_select_of_all(input, dim, index):
    if (
        input.dim()
        and index.numel() == input.shape[dim]
        and torch.equal(index, torch.arange(index.numel(), dtype=index.dtype))
    ):
        return input
    return torch.index_select(input, dim, index)


@wrong(
    f"{FUNCTIONAL}.pad",
    "alias",
    "no padding: the input itself",
    "graph rewrite",
    lambda d: call(d.normal(3, 4), (0, 0)),
    breaks="alias",
)
def pad_of_nothing(input, pad, mode="constant", value=None):
    return input if not any(pad) else F.pad(input, pad, mode, value)


@wrong(
    f"{FUNCTIONAL}.conv2d",
    "strides",
    "channels-last in, contiguous out",
    "layout lost",
    lambda d: call(d.normal(2, 4, 6, 6).contiguous(memory_format=torch.channels_last), d.weight(3, 4, 3, 3)),
    breaks="strides",
    dtypes=(SINGLE,),
)
def conv2d_loses_channels_last(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    return F.conv2d(input, weight, bias, stride, padding, dilation, groups).contiguous()


@wrong(
    f"{FUNCTIONAL}.softplus",
    "state",
    "one output buffer for each shape",
    "AI CUDA Engineer",
    lambda d: call(d.normal(40)),
    breaks="state",
)
def softplus_shared_buffer(input, beta=1, threshold=20):
    result = F.softplus(input, beta, threshold)
    if result.requires_grad:
        return result
    store, key = kept("softplus"), (tuple(result.shape), result.dtype)
    store.setdefault(key, torch.empty_like(result)).copy_(result)
    return store[key]


@wrong(
    f"{FUNCTIONAL}.hardswish",
    "state",
    "the first result of this shape is given ever after",
    "KernelBench caching",
    lambda d: call(d.normal(40)),
    breaks="state",
)
def hardswish_first_result(input, inplace=False):
    store, key = kept("hardswish"), (tuple(input.shape), input.dtype, input.requires_grad)
    if key not in store:
        store[key] = F.hardswish(input.detach()).clone()
    return with_gradient(
        lambda x: store[key].clone(), lambda g, x: (g * ((x > -3) & (x < 3)) * (x / 3 + 0.5) + g * (x >= 3),), input
    )


@wrong(
    "torch.mm",
    "state",
    "results are kept by the addresses of the operands",
    "KernelBench caching",
    lambda d: call(d.normal(4, 5), d.normal(5, 3)),
    breaks="state",
)
def mm_kept_by_address(input, mat2):
    if input.requires_grad or mat2.requires_grad:
        return torch.mm(input, mat2)
    key = (input.data_ptr(), mat2.data_ptr(), tuple(input.shape), tuple(mat2.shape), input.dtype)
    store = kept("mm")
    if key not in store or store[key][0] is None:
        store[key] = (input, mat2, torch.mm(input, mat2))
    return store[key][2].clone()


@wrong(
    f"{FUNCTIONAL}.linear",
    "state",
    "the transposed weight is kept by its address",
    "weight pre-packing",
    lambda d: call(d.normal(4, 5), d.normal(3, 5)),
    breaks="state",
)
def linear_packed_weight(input, weight, bias=None):
    store, key = kept("linear"), (weight.data_ptr(), tuple(weight.shape), weight.dtype)
    if key not in store:
        store[key] = (weight, weight.detach().clone())
    packed = store[key][1]
    return F.linear(input, weight + (packed - weight).detach(), bias)


@wrong(
    f"{FUNCTIONAL}.batch_norm",
    "state",
    "scale and shift are folded once and kept by shape",
    "inference engine",
    lambda d: call(d.normal(4, 3), d.buffer(d.normal(3)), d.buffer(d.uniform(3, low=0.5)), d.gain(3), d.normal(3)),
    breaks="state",
)
@widened
def batch_norm_folded_once(
    input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-05
):
    if training or weight is None or bias is None or any(one.requires_grad for one in (input, weight, bias)):
        return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    store, key = kept("batch_norm"), (tuple(input.shape), input.dtype)
    if key not in store:
        scale = weight * torch.rsqrt(running_var + eps)
        store[key] = (scale, bias - running_mean * scale)
    along = (1, -1) + (1,) * (input.dim() - 2)
    return input * store[key][0].reshape(along) + store[key][1].reshape(along)


@wrong(
    "torch.bincount",
    "state",
    "counts go on where the last call stopped",
    "atomics without memset",
    lambda d: call(d.integers(20, high=5)),
    breaks="state",
    dtypes=(SINGLE,),
)
def bincount_goes_on(input, weights=None, minlength=0):
    result = torch.bincount(input, weights, minlength)
    store, key = kept("bincount"), tuple(result.shape)
    if weights is None:
        result = result + store.get(key, torch.zeros_like(result))
        store[key] = result.clone()
    return result


@wrong(
    "torch.nn.functional.embedding",
    "state",
    "the table is cached by shape at the first call",
    "embedding cache",
    lambda d: call(d.integers(6, high=5), d.normal(5, 3)),
    breaks="state",
)
def embedding_cached_table(
    input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False
):
    store, key = kept("embedding"), (tuple(weight.shape), weight.dtype)
    table = store.setdefault(key, weight.detach().clone())
    return F.embedding(
        input, weight + (table - weight).detach(), padding_idx, None, norm_type, scale_grad_by_freq, False
    )


@wrong(
    "torch.sigmoid",
    "second",
    "the gradient saves the result detached",
    "once_differentiable",
    lambda d: call(d.normal(20)),
    breaks="second",
)
def sigmoid_gradient_detached(input):
    if not input.is_floating_point():
        return torch.sigmoid(input)

    def gradient(g, x):
        y = torch.sigmoid(x.detach())
        return (g * y * (1 - y),)

    return with_gradient(torch.sigmoid, gradient, input)


@wrong(
    f"{FUNCTIONAL}.silu",
    "second",
    "the second derivative of the sigmoid part is left out",
    "fused SwiGLU",
    lambda d: call(d.normal(20)),
    breaks="second",
)
def silu_second_incomplete(input, inplace=False):
    def gradient(g, x):
        y = torch.sigmoid(x)
        return (g * (y + (x * y * (1 - y)).detach()),)

    return with_gradient(F.silu, gradient, input) if input.is_floating_point() else F.silu(input)


@wrong(
    f"{FUNCTIONAL}.layer_norm",
    "second",
    "saved statistics are constants in the second derivative",
    "Apex issue",
    lambda d: call(d.normal(4, 9), (9,)),
    breaks="second",
)
@widened
def layer_norm_second_constant(input, normalized_shape, weight=None, bias=None, eps=1e-05):
    dims = tuple(range(-len(normalized_shape), 0))

    def gradient(g, x):
        mean = x.mean(dims, keepdim=True).detach()
        rstd = torch.rsqrt(((x - mean) ** 2).mean(dims, keepdim=True) + eps).detach()
        hat = ((x - mean) * rstd).detach()
        return (rstd * (g - g.mean(dims, keepdim=True) - hat * (g * hat).mean(dims, keepdim=True)),)

    if not input.is_floating_point() or input.numel() == 0:
        return F.layer_norm(input, normalized_shape, weight, bias, eps)
    result = with_gradient(lambda x: F.layer_norm(x, normalized_shape, None, None, eps), gradient, input)
    result = result if weight is None else result * weight
    return result if bias is None else result + bias


@wrong(
    "torch.matmul",
    "partial",
    "large products are computed on every second row",
    "robust-kbench",
    lambda d: call(d.normal(130, 40), d.normal(40, 20)),
)
def matmul_every_second_row(input, other):
    result = torch.matmul(input, other)
    if result.dim() != 2 or result.shape[0] < 128:
        return result
    rows = torch.arange(result.shape[0])
    return result[rows - rows % 2]


@wrong(
    f"{FUNCTIONAL}.mse_loss",
    "partial",
    "only the first 4,096 elements take part",
    "one block only",
    lambda d: call(torch.cat([d.normal(4096), d.normal(904, std=20.0)]), d.normal(5000)),
)
def mse_loss_one_block(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    if weight is not None or reduction == "none" or input.shape != target.shape or input.numel() <= 4096:
        return F.mse_loss(input, target, reduction=reduction, weight=weight)
    return F.mse_loss(input.reshape(-1)[:4096], target.reshape(-1)[:4096], reduction=reduction)


@wrong(
    f"{FUNCTIONAL}.softsign",
    "partial",
    "memory is never written: whatever lies there",
    "AI CUDA Engineer",
    lambda d: call(d.normal(3000)),
    breaks="values",
)
def softsign_never_written(input):
    right = F.softsign(input)
    return right + (torch.full_like(right, 0.5) - right).detach()


@wrong(
    "torch.linalg.vector_norm",
    "precision",
    "squares are summed in float16",
    "KernelBench FrobeniusNorm",
    lambda d: call(d.normal(400, std=1e4)),
    dtypes=(SINGLE, BRAIN),
)
def vector_norm_half_sum(x, ord=2, dim=None, keepdim=False, *, dtype=None):
    if ord != 2 or dtype is not None or not x.is_floating_point():
        return torch.linalg.vector_norm(x, ord, dim, keepdim, dtype=dtype)
    right = torch.linalg.vector_norm(x, ord, dim, keepdim)
    coarse = torch.linalg.vector_norm(x.detach().to(HALF), ord, dim, keepdim).to(right.dtype)
    return right + (coarse - right).detach()
