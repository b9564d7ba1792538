"""Numbers: random ones and their state, transforms, linear algebra, scattering and the like."""

from __future__ import annotations

import hashlib
import random
from typing import Any

import numpy
import torch
from torch import distributions

from benchmarks.odd_programs.registry import program


def _state() -> str:
    return hashlib.sha256(torch.get_rng_state().numpy().tobytes()).hexdigest()


@program
def random_state_after_each_call() -> Any:
    states = [_state()]
    x = torch.randn(5)
    for call in (torch.relu, torch.bernoulli, torch.nn.functional.dropout, torch.sum, torch.Tensor.random_):
        call(x.sigmoid())
        states.append(_state())
    return states, random.random(), numpy.random.rand(), torch.initial_seed()


@program
def generators_of_the_users_own() -> Any:
    generator = torch.Generator().manual_seed(7)
    first = torch.randn(3, generator=generator)
    state = generator.get_state()
    second = torch.randperm(5, generator=generator), torch.multinomial(torch.ones(4), 2, generator=generator)
    generator.set_state(state)
    third = torch.randperm(5, generator=generator)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        inside = torch.rand(2)
    drawn = torch.empty(3).exponential_(generator=generator)
    return first, second, third, inside, drawn, torch.rand(2), generator.initial_seed(), _state()


@program
def distributions_and_reparameterization() -> Any:
    location = torch.tensor([0.5, -0.5], requires_grad=True)
    normal = distributions.Normal(location, torch.ones(2))
    sample = normal.rsample((3,))
    loss = normal.log_prob(sample).sum() + distributions.kl_divergence(normal, distributions.Normal(0.0, 2.0)).sum()
    loss.backward()
    others = [
        distributions.Categorical(logits=torch.randn(3)).sample((4,)),
        distributions.Gamma(torch.ones(2) * 2, torch.ones(2)).sample(),
        distributions.MultivariateNormal(torch.zeros(2), torch.eye(2)).entropy(),
        distributions.TransformedDistribution(normal, [distributions.SigmoidTransform()]).sample(),
    ]
    try:
        distributions.Bernoulli(torch.tensor(3.0))
        text = "no error"
    except ValueError as error:
        text = str(error)[:100]
    return sample, location.grad, others, text, repr(normal)


@program
def fourier_transforms() -> Any:
    x = torch.randn(4, 6, requires_grad=True)
    spectrum = torch.fft.rfft2(x)
    back = torch.fft.irfft2(spectrum, s=x.shape)
    shifted = torch.fft.fftshift(torch.fft.fft(x, dim=0))
    loss = (spectrum.abs() ** 2).sum() + shifted.real.sum()
    loss.backward()
    windowed = torch.stft(x.detach().flatten(), 8, window=torch.hann_window(8), return_complex=True)
    return spectrum, back, shifted, x.grad, windowed, torch.istft(windowed, 8, window=torch.hann_window(8))


@program
def linear_algebra_with_named_results() -> Any:
    matrix = torch.randn(4, 4, dtype=torch.float64)
    spd = (matrix @ matrix.T + torch.eye(4, dtype=torch.float64)).requires_grad_()
    values, vectors = torch.linalg.eigh(spd)
    decomposed = torch.linalg.svd(matrix)
    solved = torch.linalg.solve(spd, torch.ones(4, dtype=torch.float64))
    factors = torch.linalg.lu_factor_ex(matrix)
    loss = torch.logdet(spd) + torch.linalg.cholesky(spd).sum() + solved.sum()
    loss.backward()
    try:
        torch.linalg.inv(torch.zeros(2, 2))
        text = "no error"
    except torch.linalg.LinAlgError as error:
        text = f"{type(error).__mro__[1].__name__}: {error}"
    kinds = [type(decomposed).__name__, type(factors).__name__, decomposed.S is decomposed[1]]
    return values, vectors.abs(), decomposed.S, solved, spd.grad, text, kinds, factors.info


@program
def einsum_and_tensordot() -> Any:
    a, b, c = torch.randn(2, 3), torch.randn(3, 4), torch.randn(4, 2, requires_grad=True)
    chained = torch.einsum("ij,jk,kl->il", a, b, c)
    outer = torch.einsum("i...,j...->ij...", a, b.T[:2, :3])
    lists = torch.einsum(a, [0, 1], b, [1, 2], [0, 2])
    chained.sum().backward()
    with torch.backends.opt_einsum.flags(enabled=False):
        again = torch.einsum("ij,jk,kl->il", a, b, c.detach())
    return (
        chained,
        outer,
        lists,
        c.grad,
        again,
        torch.tensordot(a, b, dims=([1], [0])),
        torch.linalg.multi_dot([a, b, c.detach()]),
    )


@program
def writing_through_indices() -> Any:
    x = torch.zeros(3, 4)
    x.index_put_((torch.tensor([0, 0, 2]), torch.tensor([1, 1, 3])), torch.tensor([1.0, 2.0, 3.0]), accumulate=True)
    x[x == 0] = -1
    x[..., None, 2:][1] = torch.arange(2.0)
    x[[0, 2], :] += 10
    scattered = torch.zeros(3, 4).scatter_add_(1, torch.tensor([[0, 0, 3]]), torch.ones(1, 3))
    reduced = torch.ones(3).scatter_reduce(
        0, torch.tensor([0, 0, 2]), torch.tensor([2.0, 5.0, 7.0]), "amax", include_self=False
    )
    taken = torch.take_along_dim(x, x.argsort(1), 1)
    picked = x.index_select(1, torch.tensor([3, 0])).masked_fill(torch.eye(3, 2).bool(), 99)
    leaf = torch.zeros(4, requires_grad=True)
    leaf[[0, 0, 1]].sum().backward()
    return x, scattered, reduced, taken, picked, leaf.grad, x[torch.tensor(1)], x[None, :, -1]


@program
def masks_conditions_and_nonzero() -> Any:
    x = torch.tensor([1.0, float("nan"), -float("inf"), 0.0, -0.0])
    places = torch.where(x > 0)
    counts = torch.unique(torch.tensor([3, 1, 3]), return_inverse=True, return_counts=True)
    chosen = torch.where(torch.isfinite(x), x, torch.zeros(()))
    histogram = torch.histogram(torch.linspace(0, 1, 7), 3)
    return (
        places,
        counts,
        chosen,
        histogram.hist,
        torch.nan_to_num(x),
        x.argwhere(),
        torch.bincount(torch.tensor([1, 1])),
        x.masked_select(x == 0),
    )


@program
def reductions_with_ties_and_extremes() -> Any:
    x = torch.tensor([[2.0, 2.0, 1.0], [float("nan"), 0.0, 5.0]])
    results = [
        x.max(1),
        x.min(0),
        x.median(1),
        x.mode(1),
        x.topk(2),
        x.kthvalue(1),
        x.sort(stable=True, dim=1),
        x.aminmax(),
    ]
    kinds = [type(result).__name__ for result in results]
    extremes = [
        torch.tensor([], dtype=torch.float32).sum(),
        torch.full((3,), 3e38).sum(),
        torch.full((9,), 60000.0).half().sum(),
    ]
    return [tuple(result) for result in results], kinds, extremes, x.nanmean(), x.logsumexp(1), x.std(1, correction=0)


@program
def python_numbers_and_promotion() -> Any:
    x = torch.arange(3)
    results = [
        x + 1.5,
        x / 2,
        x // 2,
        -x % 3,
        x**2,
        2**x,
        1 - x,
        x @ x,
        ~x,
        x << 1,
        x > 1,
        True + x,
        3 % (x + 1),
        x + 1j,
    ]
    kinds = [str(value.dtype) for value in results]
    x += 5
    y = torch.tensor(2.0, dtype=torch.float64) * torch.ones(1, dtype=torch.float16)
    texts = []
    try:
        x += 0.5
    except RuntimeError as error:
        texts.append(str(error))
    numbers = [torch.tensor(5).__index__(), abs(-x)]
    return results, kinds, x, str(y.dtype), texts, numbers, torch.result_type(x, 1.0) is torch.float32, sum(x), max(x)


@program
def shapes_and_sizes_are_plain() -> Any:
    x = torch.ones(2, 3, 4)
    batch, *rest = x.shape
    kinds = [
        type(value).__name__
        for value in (x.shape, batch, x.shape[1:], x.numel(), x.stride(), x.dim(), x.size(0), x.device)
    ]
    same = x.shape == (2, 3, 4), hash(x.shape) == hash((2, 3, 4)), (*x.shape, 1), x.shape.numel(), rest
    equal = torch.equal(x, x.clone()), torch.allclose(x, x + 1e-9), x.is_same_size(x), x is x.contiguous()
    return (
        kinds,
        same,
        equal,
        x.view(-1).shape,
        x.broadcast_to(5, 2, 3, 4).stride(),
        torch.broadcast_shapes((1, 2), (3, 1)),
    )


@program
def tensors_made_in_unusual_ways() -> Any:
    made = [
        torch.Tensor(2, 1).zero_(),
        torch.Tensor([1, 2]),
        torch.FloatTensor([3.0]),
        torch.tensor([[1, 2], [3, 4]], dtype=torch.int8),
        torch.asarray([1.0, 2.0]),
        torch.ones(2).new_tensor([5]),
        torch.ones(2).new_full((2,), 3),
        torch.complex(torch.ones(1), torch.zeros(1)),
        torch.cartesian_prod(torch.arange(2), torch.arange(2)),
        torch.block_diag(torch.ones(1, 1), torch.ones(1, 2)),
        torch.vander(torch.arange(3.0)),
        torch.tensor(numpy.float64(2.5)),
        torch.as_tensor([numpy.int64(3), True]),
        torch.tensor([torch.tensor(1.0), torch.tensor(2.0)]),
        torch.empty_strided((2, 2), (1, 2)).fill_(4),
    ]
    return made, torch.tensor([]).dtype is torch.float32, torch.scalar_tensor(3), torch.from_numpy(numpy.zeros((0, 3)))


@program
def fused_and_special_functions() -> Any:
    x = torch.linspace(0.1, 2, 5, requires_grad=True)
    results = [
        torch.special.digamma(x),
        torch.special.i0e(x),
        torch.erfinv(x / 3),
        torch.special.zeta(x + 2, x),
        torch.polygamma(1, x),
        torch.special.entr(x),
        torch.sinc(x),
        torch.special.logit(x / 4),
    ]
    sum(result.sum() for result in results[:3]).backward()
    return (
        results,
        x.grad,
        torch.cdist(x.detach()[:, None], x.detach()[:, None]),
        torch.trapezoid(x),
        torch.cummax(x, 0),
        torch.renorm(torch.ones(2, 2), 2, 0, 1.0),
    )


@program
def convolutions_and_pooling() -> Any:
    import torch.nn.functional as F

    x = torch.randn(1, 2, 8, 8, requires_grad=True)
    weight = torch.randn(4, 1, 3, 3, requires_grad=True)
    out = F.conv2d(x, weight, groups=2, dilation=2, padding="same")
    pooled, places = F.max_pool2d(out, 2, return_indices=True)
    unpooled = F.max_unpool2d(pooled, places, 2)
    grid = F.grid_sample(
        x, F.affine_grid(torch.eye(2, 3)[None], (1, 2, 4, 4), align_corners=False), align_corners=False
    )
    loss = unpooled.sum() + grid.sum() + F.fold(F.unfold(x, 2), (8, 8), 2).sum() + F.pixel_shuffle(out, 2).mean()
    loss.backward()
    return (
        pooled,
        places,
        grid,
        x.grad,
        weight.grad,
        F.adaptive_avg_pool2d(out, 1),
        F.interpolate(out, scale_factor=0.5, mode="bicubic"),
    )


@program
def losses_with_their_corners() -> Any:
    import torch.nn.functional as F

    logits = torch.randn(3, 4, requires_grad=True)
    labels = torch.tensor([1, -100, 3])
    losses = [
        F.cross_entropy(logits, labels, label_smoothing=0.1),
        F.cross_entropy(logits, logits.detach().softmax(1), weight=torch.arange(4.0)),
        F.binary_cross_entropy_with_logits(logits, torch.ones(3, 4), pos_weight=torch.full((4,), 2.0)),
        F.kl_div(logits.log_softmax(1), logits.detach().softmax(1), reduction="batchmean"),
        F.ctc_loss(torch.randn(6, 1, 4).log_softmax(2), torch.tensor([[1, 2]]), (6,), (2,)),
        F.triplet_margin_loss(logits, logits + 1, logits * 2),
        F.cosine_embedding_loss(logits, logits.flip(1), torch.ones(3)),
    ]
    sum(losses).backward()
    return (
        losses,
        logits.grad,
        F.cross_entropy(logits.detach(), torch.full((3,), -100)),
        F.gumbel_softmax(logits.detach(), hard=True),
    )
