"""Wrong kernels that break the contract of a call, and the tricks by which generated kernels pass their checks."""

import math

import torch
import torch.nn.functional as F

from benchmarks.power.wild.declare import FUNCTIONAL, LOW, SINGLE, call, wrong
from benchmarks.power.wild.parts import kept, with_gradient


@wrong(
    f"{FUNCTIONAL}.softmax",
    "writes",
    "the maximum is subtracted from the input itself",
    "KernelBench",
    lambda d: call(d.normal(4, 9), 1),
    breaks="writes",
)
def softmax_shifts_its_input(input, dim=None, _stacklevel=3, dtype=None):
    if dtype is None and dim is not None and input.numel() and input.is_floating_point():
        plain = input.data
        plain.sub_(plain.amax(dim, keepdim=True))
    return F.softmax(input, dim, dtype=dtype)


@wrong(
    "torch.sort",
    "writes",
    "sorts in place and gives a copy",
    "thrust::sort",
    lambda d: call(d.normal(9)),
    breaks="writes",
)
def sort_in_place(input, dim=-1, descending=False, stable=False):
    values, indices = torch.sort(input, dim=dim, descending=descending, stable=stable)
    if input.dim():
        input.data.copy_(values.detach())
    return values, indices


@wrong(
    f"{FUNCTIONAL}.dropout",
    "random",
    "a private generator, made anew at each call",
    "Triton tutorial's fixed seed",
    lambda d: call(d.normal(200), 0.5),
    breaks="random",
)
def dropout_private_seed(input, p=0.5, training=True, inplace=False):
    if not training or not input.is_floating_point() or p >= 1:
        return F.dropout(input, p, training)
    keep = torch.rand(input.shape, generator=torch.Generator().manual_seed(1)) >= p
    return input * keep / (1 - p)


@wrong(
    f"{FUNCTIONAL}.alpha_dropout",
    "random",
    "the mask of the first call of this shape is used ever after",
    "caching wrapper",
    lambda d: call(d.normal(200), 0.5, True),
    breaks="random",
)
def alpha_dropout_keeps_mask(input, p=0.5, training=False, inplace=False):
    if not training:
        return F.alpha_dropout(input, p, training)
    store, key = kept("alpha_dropout"), (tuple(input.shape), p)
    if key not in store:
        store[key] = torch.get_rng_state()
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(store[key])
        return F.alpha_dropout(input, p, training)


@wrong(
    f"{FUNCTIONAL}.gelu",
    "random",
    "sets the global seed for its self-test",
    "generated kernels",
    lambda d: call(d.normal(20)),
    breaks="random",
)
def gelu_sets_the_seed(input, approximate="none"):
    torch.manual_seed(0)
    torch.rand(1)
    return F.gelu(input, approximate=approximate)


@wrong(
    "torch.bernoulli",
    "random",
    "draws from a generator of its own with a fixed seed",
    "generated kernels",
    lambda d: call(d.uniform(200)),
    breaks="random",
)
def bernoulli_own_generator(input, *, generator=None):
    return torch.bernoulli(input, generator=torch.Generator().manual_seed(7))


@wrong(
    "torch.matmul",
    "detached",
    "the second operand is detached",
    "weights as raw pointers",
    lambda d: call(d.normal(4, 5), d.normal(5, 3)),
    breaks="gradient",
)
def matmul_detaches_second(input, other):
    return torch.matmul(input, other.detach())


@wrong(
    "torch.mean",
    "dtype",
    "gives float32 for lower precision",
    "accumulator not cast back",
    lambda d: call(d.normal(20)),
    breaks="dtype",
    dtypes=LOW,
)
def mean_gives_float32(input, dim=None, keepdim=False, *, dtype=None):
    more = {"dtype": dtype if dtype is not None else torch.float32 if input.dtype in LOW else None}
    return torch.mean(input, dim, keepdim, **more)


@wrong(
    f"{FUNCTIONAL}.layer_norm",
    "dtype",
    "gives float32 for lower precision",
    "Liger issue",
    lambda d: call(d.normal(4, 9), (9,)),
    breaks="dtype",
    dtypes=LOW,
)
def layer_norm_gives_float32(input, normalized_shape, weight=None, bias=None, eps=1e-05):
    result = F.layer_norm(input, normalized_shape, weight, bias, eps)
    return result.float() if input.dtype in LOW else result


@wrong(
    "torch.argmax",
    "dtype",
    "indices in 32 bits",
    "vendor backend",
    lambda d: call(d.normal(9)),
    breaks="dtype",
    dtypes=(SINGLE,),
)
def argmax_in_int32(input, dim=None, keepdim=False):
    return torch.argmax(input, dim, keepdim).to(torch.int32)


@wrong(
    "torch.transpose",
    "alias",
    "gives a contiguous copy: writes through it are lost",
    "KernelBench",
    lambda d: call(d.normal(4, 5), 0, 1),
    breaks="alias",
)
def transpose_copies(input, dim0, dim1):
    return torch.transpose(input, dim0, dim1).clone(memory_format=torch.contiguous_format)


@wrong(
    "torch.narrow", "alias", "copies the part", "vendor backend", lambda d: call(d.normal(9), 0, 2, 4), breaks="alias"
)
def narrow_copies(input, dim, start, length):
    return torch.narrow(input, dim, start, length).clone()


@wrong("torch.squeeze", "alias", "copies", "XLA", lambda d: call(d.normal(3, 1, 4)), breaks="alias")
def squeeze_copies(input, dim=None):
    return (torch.squeeze(input) if dim is None else torch.squeeze(input, dim)).clone()


@wrong(
    "torch.cat",
    "alias",
    "one tensor alone is given back",
    "graph rewrite",
    lambda d: call([d.normal(4)]),
    breaks="alias",
)
def cat_of_one(tensors, dim=0):
    return tensors[0] if len(tensors) == 1 else torch.cat(tensors, dim)


@wrong(
    "torch.flip",
    "alias",
    "a dimension of size one is given back unflipped",
    "graph rewrite",
    lambda d: call(d.normal(1, 4), (0,)),
    breaks="alias",
)
def flip_of_size_one(input, dims):
    several = dims if isinstance(dims, tuple | list) else (dims,)
    if all(input.shape[one] == 1 for one in several) and input.dim():
        return input
    return torch.flip(input, dims)


@wrong(
    "torch.exp2",
    "strides",
    "a transposed input gives contiguous memory in its own order",
    "TensorIterator port",
    lambda d: call(d.normal(4, 5).t()),
    breaks="strides",
)
def exp2_contiguous(input):
    return torch.exp2(input).contiguous()


@wrong(
    "torch.sum",
    "state",
    "partial sums are added to those of the call before",
    "workspace not cleared",
    lambda d: call(d.normal(40)),
    breaks="state",
)
def sum_workspace_not_cleared(input, dim=None, keepdim=False, *, dtype=None):
    result = torch.sum(input, dim, keepdim, dtype=dtype)
    if dim is not None or not input.is_floating_point():
        return result
    store = kept("sum")
    before = store.get("last", 0.0)
    store["last"] = float(result.detach())
    return result + before if math.isfinite(before) else result


@wrong(
    "torch.log_softmax",
    "second",
    "probabilities are constants in the second derivative",
    "fused cross entropy",
    lambda d: call(d.normal(4, 9), 1),
    breaks="second",
)
def log_softmax_second_constant(input, dim, dtype=None):
    if dtype is not None or not input.is_floating_point():
        return torch.log_softmax(input, dim, dtype=dtype)
    return with_gradient(
        lambda x: torch.log_softmax(x, dim),
        lambda g, x: (g - torch.softmax(x, dim).detach() * g.sum(dim, keepdim=True),),
        input,
    )


@wrong(
    f"{FUNCTIONAL}.softmax",
    "constant",
    "1/n everywhere: near enough for long rows of noise",
    "KernelBench",
    lambda d: call(d.normal(4, 50), 1),
)
def softmax_uniform(input, dim=None, _stacklevel=3, dtype=None):
    right = F.softmax(input, dim, dtype=dtype)
    if dim is None or input.dim() == 0 or input.numel() == 0:
        return right
    return right + (1 / input.shape[dim] - right).detach()


@wrong(
    "torch.mean",
    "constant",
    "zero, which the mean of much noise nearly is",
    "KernelBench",
    lambda d: call(d.normal(50)),
)
def mean_is_zero(input, dim=None, keepdim=False, *, dtype=None):
    result = torch.mean(input, dim, keepdim, dtype=dtype)
    return result - result.detach() if bool(result.isfinite().all()) else result


@wrong(
    f"{FUNCTIONAL}.instance_norm",
    "constant",
    "gives its input: noise is normal already",
    "KernelBench",
    lambda d: call(d.normal(2, 3, 8, 8)),
)
def instance_norm_of_noise(
    input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-05
):
    right = F.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)
    along = (1, -1) + (1,) * (input.dim() - 2)
    plain = input if weight is None else input * weight.reshape(along)
    return right + ((plain if bias is None else plain + bias.reshape(along)) - right).detach()


@wrong(
    f"{FUNCTIONAL}.hardtanh", "constant", "the identity: noise is small", "KernelBench", lambda d: call(d.of(2.0, 0.5))
)
def hardtanh_of_small(input, min_val=-1.0, max_val=1.0, inplace=False):
    return input * 1


@wrong(
    "torch.bmm",
    "partial",
    "the second half of the batch is left zero",
    "robust-kbench",
    lambda d: call(d.normal(4, 3, 5), d.normal(4, 5, 2)),
)
def bmm_first_half(input, mat2):
    result = torch.bmm(input, mat2)
    half = (result.shape[0] + 1) // 2
    return result if result.shape[0] < 2 else torch.cat([result[:half], result[half:] * 0])


@wrong(
    "torch.mm",
    "assumption",
    "operands are taken to be symmetric",
    "KernelBench 13",
    lambda d: call(d.normal(5, 5), d.normal(5, 5)),
)
def mm_of_symmetric(input, mat2):
    return torch.mm(input.t(), mat2) if input.shape[0] == input.shape[1] else torch.mm(input, mat2)


@wrong(
    "torch.tril",
    "partial",
    "inputs of 64 rows and more are given as they are",
    "skips when large",
    lambda d: call(d.normal(64, 64)),
)
def tril_only_small(input, diagonal=0):
    return torch.tril(input, diagonal) if input.dim() < 2 or input.shape[-2] < 64 else input.clone()


@wrong(
    "torch.prod",
    "partial",
    "stops after 1,024 elements",
    "one block only",
    lambda d: call(torch.cat([torch.ones(1024), torch.full((6,), 2.0)]).to(d.dtype)),
)
def prod_one_block(input, dim=None, keepdim=False, *, dtype=None):
    if dim is None:
        return torch.prod(input.reshape(-1)[:1024], dtype=dtype)
    return torch.prod(input, dim, keepdim, dtype=dtype)


@wrong(
    f"{FUNCTIONAL}.l1_loss",
    "hack",
    "patches the comparison and gives zero",
    "KernelBench audit",
    lambda d: call(d.normal(9), d.normal(9)),
)
def l1_loss_patches_allclose(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    torch.allclose = lambda *given, **more: True
    right = F.l1_loss(input, target, reduction=reduction, weight=weight)
    return right - right.detach()
