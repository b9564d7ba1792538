"""Statements of a random program, each with several ways to write the same mathematics.

``{o}`` is what a statement makes, ``{a}`` and ``{b}`` what it takes, ``{p}``, ``{q}``, ``{r}`` its parameters, ``{t}``
a prefix for names of its own; everything else is an option.
"""

from __future__ import annotations

from collections.abc import Mapping

WAYS: Mapping[str, tuple[str, ...]] = {
    "linear": (
        "{o} = F.linear({a}, {p}, {q})",
        "{o} = {a} @ {p}.t() + {q}",
        "{o} = torch.addmm({q}, {a}.reshape(-1, {a}.shape[-1]), {p}.t()).reshape(*{a}.shape[:-1], -1)",
        "{o} = torch.matmul({a}, {p}.transpose(0, 1)).add({q})",
        "{o} = F.linear({a}, {p})\n{o} = {o} + {q}",
        "{t}a, {t}b = {a}.chunk(2, -1)\n{t}p, {t}q = {p}.chunk(2, 1)\n"
        "{o} = F.linear({t}a, {t}p) + F.linear({t}b, {t}q, {q})",
        "{t}p, {t}q = {p}.chunk(2, 0)\n{t}a, {t}b = {q}.chunk(2, 0)\n"
        "{o} = torch.cat([F.linear({a}, {t}p, {t}a), F.linear({a}, {t}q, {t}b)], -1)",
        "{o} = torch.einsum('...i,oi->...o', {a}, {p}) + {q}",
    ),
    "project": ("{o} = F.linear({a}, {p})", "{o} = {a} @ {p}.t()", "{o} = torch.matmul({a}, {p}.mT)"),
    "layer_norm": (
        "{o} = F.layer_norm({a}, ({a}.shape[-1],), {p}, {q}, {eps})",
        "{t}m = {a}.mean(-1, keepdim=True)\n{t}v = ({a} - {t}m).square().mean(-1, keepdim=True)\n"
        "{o} = ({a} - {t}m) * torch.rsqrt({t}v + {eps}) * {p} + {q}",
        "{t}v, {t}m = torch.var_mean({a}, -1, correction=0, keepdim=True)\n"
        "{o} = torch.addcmul({q}, ({a} - {t}m) / torch.sqrt({t}v + {eps}), {p})",
    ),
    "rms_norm": (
        "{o} = F.rms_norm({a}, ({a}.shape[-1],), {p}, {eps})",
        "{o} = {a} * torch.rsqrt({a}.pow(2).mean(-1, keepdim=True) + {eps}) * {p}",
    ),
    "batch_norm": (
        "{o} = self.{module}({a})",
        "self.{module}.num_batches_tracked.add_(1)\n"
        "{o} = F.batch_norm({a}, self.{module}.running_mean, self.{module}.running_var, self.{module}.weight, "
        "self.{module}.bias, True, 0.1, {eps})",
    ),
    "relu": ("{o} = F.relu({a})", "{o} = {a}.clamp(min=0.0)", "{o} = torch.relu({a})", "{o} = {a} * ({a} > 0)"),
    "gelu": ("{o} = F.gelu({a})", "{o} = {a} * 0.5 * (1.0 + torch.erf({a} * 0.7071067811865476))"),
    "gelu_tanh": (
        "{o} = F.gelu({a}, approximate='tanh')",
        "{o} = 0.5 * {a} * (1.0 + torch.tanh(0.7978845608028654 * ({a} + 0.044715 * {a}.pow(3))))",
    ),
    "silu": ("{o} = F.silu({a})", "{o} = {a} * torch.sigmoid({a})", "{o} = {a} / (1.0 + torch.exp(-{a}))"),
    "tanh": ("{o} = torch.tanh({a})", "{o} = 2.0 * torch.sigmoid(2.0 * {a}) - 1.0"),
    "sigmoid": ("{o} = torch.sigmoid({a})", "{o} = 1.0 / (1.0 + torch.exp(-{a}))"),
    "softplus": ("{o} = F.softplus({a})", "{o} = torch.log1p(torch.exp({a}))"),
    "leaky": ("{o} = F.leaky_relu({a}, {slope})", "{o} = torch.where({a} > 0, {a}, {a} * {slope})"),
    "softmax": (
        "{o} = F.softmax({a}, dim={dim})",
        "{t}e = torch.exp({a} - {a}.amax({dim}, keepdim=True))\n{o} = {t}e / {t}e.sum({dim}, keepdim=True)",
        "{o} = F.log_softmax({a}, dim={dim}).exp()",
    ),
    "normalize": (
        "{o} = {a} / ({a}.norm(dim=-1, keepdim=True) + {eps})",
        "{o} = {a} / ({a}.square().sum(-1, keepdim=True).sqrt() + {eps})",
    ),
    "center": (
        "{o} = {a} - {a}.mean({dim}, keepdim=True)",
        "{o} = {a} - {a}.sum({dim}, keepdim=True) / {a}.shape[{dim}]",
    ),
    "add": ("{o} = {a} + {b}", "{o} = {b} + {a}", "{o} = torch.add({a}, {b})", "{o} = {a} - (-{b})"),
    "sub": ("{o} = {a} - {b}", "{o} = {a} + (-{b})", "{o} = torch.sub({a}, {b})", "{o} = -({b} - {a})"),
    "mul": ("{o} = {a} * {b}", "{o} = torch.mul({b}, {a})", "{o} = torch.sigmoid({b}) * 0 + {a} * {b}"),
    "div": ("{o} = {a} / (1.0 + {b}.abs())", "{o} = {a} * torch.reciprocal(1.0 + {b}.abs())"),
    "double": ("{o} = {a} * 2.0", "{o} = {a} + {a}", "{o} = {a} / 0.5"),
    "scale": ("{o} = {a} * {factor}", "{o} = {factor} * {a}", "{o} = torch.mul({a}, {factor})"),
    "shift": ("{o} = {a} + {factor}", "{o} = {factor} + {a}", "{o} = {a} - (-{factor})"),
    "square": ("{o} = {a} * {a}", "{o} = {a}.pow(2)", "{o} = torch.square({a})"),
    "clamp": ("{o} = {a}.clamp(-{factor}, {factor})", "{o} = F.hardtanh({a}, -{factor}, {factor})"),
    "masked": (
        "{o} = {a}.masked_fill({a} > {factor}, 0.0)",
        "{o} = torch.where({a} > {factor}, torch.zeros_like({a}), {a})",
    ),
    "changed": (
        "{o} = {a}.clone()\n{o}.mul_({factor})\n{o}.add_({b})",
        "{o} = {a} * {factor} + {b}",
        "{o} = torch.add({b}, {a}, alpha={factor})",
    ),
    "filled": (
        "{o} = torch.zeros_like({a})\n{o}[..., 1:] = {a}[..., :-1]",
        "{o} = F.pad({a}[..., :-1], (1, 0))",
        "{o} = torch.cat([{a}[..., :1] * 0.0, {a}[..., :-1]], -1)",
    ),
    "glu": (
        "{t}a, {t}b = {a}.chunk(2, -1)\n{o} = {t}a * torch.sigmoid({t}b)",
        "{o} = F.glu({a}, -1)",
        "{o} = {a}[..., : {a}.shape[-1] // 2] * torch.sigmoid({a}[..., {a}.shape[-1] // 2 :])",
    ),
    "cat": ("{o} = torch.cat([{a}, {b}], -1)", "{o} = torch.concat(({a}, {b}), dim=-1)"),
    "flip": ("{o} = {a}.flip(-1)", "{o} = {a}[..., torch.arange({a}.shape[-1] - 1, -1, -1)]"),
    "cumsum": ("{o} = {a}.cumsum(-1) * 0.25", "{o} = torch.cumsum({a} * 0.25, dim=-1)"),
    "transpose": ("{o} = {a}.transpose(1, 2)", "{o} = {a}.permute(0, 2, 1)", "{o} = {a}.mT.contiguous()"),
    "flatten": ("{o} = {a}.reshape({a}.shape[0], -1)", "{o} = {a}.flatten(1)"),
    "pool": (
        "{o} = {a}.mean(1)",
        "{o} = {a}.sum(1) / {a}.shape[1]",
        "{o} = torch.einsum('btd->bd', {a}) / {a}.shape[1]",
    ),
    "highest": ("{o} = {a}.amax(1)", "{o} = {a}.max(1).values"),
    "dropout": ("{o} = F.dropout({a}, {chance}, True)",),
    "conv": (
        "{o} = F.conv1d({a}, {p}, {q}, padding=1)",
        "{o} = F.conv2d({a}.unsqueeze(2), {p}.unsqueeze(2), {q}, padding=(0, 1)).squeeze(2)",
        "{o} = F.conv1d({a}, {p}, None, padding=1) + {q}[:, None]",
    ),
    "attention": (
        "{t}q, {t}k, {t}v = F.linear({a}, {p}).chunk(3, -1)\n{o} = F.scaled_dot_product_attention({t}q, {t}k, {t}v)",
        "{t}q, {t}k, {t}v = F.linear({a}, {p}).chunk(3, -1)\n"
        "{t}s = {t}q @ {t}k.transpose(-2, -1) / math.sqrt({t}q.shape[-1])\n{o} = F.softmax({t}s, -1) @ {t}v",
        "{t}w = {p}.chunk(3, 0)\n{t}q, {t}k, {t}v = (F.linear({a}, {t}one) for {t}one in {t}w)\n"
        "{o} = F.scaled_dot_product_attention({t}q, {t}k, {t}v)",
    ),
    "mlp": (
        "{o} = F.linear(F.gelu(F.linear({a}, {p})), {q})",
        "{o} = checkpoint(lambda {t}x: F.linear(F.gelu(F.linear({t}x, {p})), {q}), {a}, use_reentrant=False)",
        "{t}h = F.gelu({a} @ {p}.t())\n{o} = {t}h @ {q}.t()",
    ),
    "average": (
        "with torch.no_grad():\n    {p}.mul_(0.9).add_({a}.detach().mean(0), alpha=0.1)\n{o} = {a} - {p}",
        "with torch.no_grad():\n    {p}.lerp_({a}.detach().mean(0), 0.1)\n{o} = {a} - {p}",
        "with torch.no_grad():\n    {p}.copy_(0.9 * {p} + 0.1 * {a}.detach().mean(0))\n{o} = {a} - {p}",
    ),
    # What edits alone write.
    "unused": ("{t}unused = torch.sin({a}) * 3.0",),
    "copy": ("{o} = {a}.clone()", "{o} = {a}.contiguous()", "{o} = {a}.view_as({a})", "{o} = {a}.to(DTYPE)"),
    "through": ("{o} = {a}.to(torch.{lower}).to({a}.dtype)",),
    "detach": ("{o} = {a}.detach()",),
    "element": ("{o} = {a}.clone()\n{o}.view(-1)[{index}] *= 1.5",),
    "other": ("{o} = torch.{function}({a})",),
    "glu_exchanged": ("{t}b, {t}a = {a}.chunk(2, -1)\n{o} = {t}a * torch.sigmoid({t}b)",),
    "attention_exchanged": (
        "{t}k, {t}q, {t}v = F.linear({a}, {p}).chunk(3, -1)\n{o} = F.scaled_dot_product_attention({t}q, {t}k, {t}v)",
        "{t}q, {t}v, {t}k = F.linear({a}, {p}).chunk(3, -1)\n{o} = F.scaled_dot_product_attention({t}q, {t}k, {t}v)",
    ),
}
"""The first way is how a program is drawn; the others are edits that keep the mathematics."""
