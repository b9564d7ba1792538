"""Modules: parametrizations, attention, lazy ones, state dicts, and ways to call them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

from benchmarks.odd_programs.registry import program


@program
def parametrization_registered_and_removed() -> Any:
    calls: list[str] = []

    class Symmetric(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            calls.append("forward")
            return x.triu() + x.triu(1).T

        def right_inverse(self, x: torch.Tensor) -> torch.Tensor:
            calls.append("inverse")
            return x.triu()

    net = nn.Linear(3, 3)
    parametrize.register_parametrization(net, "weight", Symmetric())
    net.weight = torch.eye(3)
    out = net(torch.ones(2, 3))
    with parametrize.cached():
        net(torch.ones(2, 3)) + net(torch.ones(2, 3))
    out.sum().backward()
    gradient = net.parametrizations.weight.original.grad
    name = type(net).__name__
    parametrize.remove_parametrizations(net, "weight")
    return out, gradient, calls, name, type(net).__name__, net.weight


@program
def weight_norm_spectral_norm_and_orthogonal() -> Any:
    results = []
    for make in (parametrizations.weight_norm, parametrizations.spectral_norm, parametrizations.orthogonal):
        torch.manual_seed(3)
        net = make(nn.Linear(3, 3))
        net(torch.ones(2, 3)).sum().backward()
        results.append((net.weight.detach(), [value.grad for value in net.parameters()]))
    return results


@program
def weight_norm_of_the_old_kind() -> Any:
    net = torch.nn.utils.weight_norm(nn.Linear(2, 3))
    out = net(torch.ones(1, 2))
    out.sum().backward()
    hooks = [type(hook).__name__ for hook in net._forward_pre_hooks.values()]
    torch.nn.utils.remove_weight_norm(net)
    return out, hooks, net.weight, sorted(name for name, _ in net.named_parameters())


@program
def pruned_modules() -> Any:
    net = nn.Linear(4, 3)
    prune.l1_unstructured(net, "weight", amount=0.5)
    prune.random_structured(net, "weight", amount=1, dim=0)
    out = net(torch.ones(1, 4))
    out.sum().backward()
    state = sorted(net.state_dict())
    prune.remove(net, "weight")
    return out, state, net.weight, prune.is_pruned(net)


@program
def attention_with_its_fast_path() -> Any:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    x = torch.randn(2, 5, 8)
    slow = layer(x)
    layer.eval()
    operators: list[str] = []

    class Log(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            operators.append(str(function))
            return function(*args, **(kwargs or {}))

    with torch.no_grad(), Log():
        fast = layer(x)
    return slow, fast, operators


@program
def attention_module_and_its_weights() -> Any:
    layer = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.randn(2, 4, 8)
    mask = torch.triu(torch.ones(4, 4, dtype=torch.bool), 1)
    padding = torch.tensor([[False, False, False, True], [False, False, True, True]])
    with torch.inference_mode():
        fast = [value.clone() for value in layer(x, x, x)]
        masked = layer(x, x, x, attn_mask=mask, need_weights=False)[0].clone()
        padded = layer(x, x, x, key_padding_mask=padding, average_attn_weights=False)[1].clone()
    trained = layer.train()(x, x, x)[0]
    trained.sum().backward()
    return fast, masked, padded, trained, layer.in_proj_weight.grad


@program
def encoder_that_packs_padding_into_nested_tensors() -> Any:
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).eval()
    padding = torch.tensor([[False, False, False], [False, True, True]])
    seen: list[str] = []
    encoder.layers[1].register_forward_hook(lambda m, args, out: seen.append(f"{args[0].is_nested}"))
    with torch.no_grad():
        out = encoder(torch.randn(2, 3, 8), src_key_padding_mask=padding)
    return out, seen


@program
def scaled_dot_product_attention_of_every_backend() -> Any:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    query, key, value = (torch.randn(1, 2, 4, 8, requires_grad=True) for _ in range(3))
    attend = nn.functional.scaled_dot_product_attention
    results = [attend(query, key, value, is_causal=True)]
    for backend in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION):
        with sdpa_kernel(backend):
            results.append(attend(query, key, value))
    results.append(attend(query, key, value, attn_mask=torch.ones(4, 4).tril().bool(), scale=0.5))
    torch.manual_seed(1)
    results.append(attend(query, key, value, dropout_p=0.5))
    sum(out.sum() for out in results).backward()
    return results, query.grad, [out.grad_fn.name() for out in results]


@program
def flexible_attention_in_eager_mode() -> Any:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    query, key, value = (torch.randn(1, 1, 128, 16) for _ in range(3))
    mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 128, 128, device="cpu")
    out = flex_attention(query, key, value, score_mod=lambda score, b, h, q, k: score + (q - k) * 0.01, block_mask=mask)
    return out.sum(-1), mask.sparsity()


@program
def lazy_modules_take_their_shapes() -> Any:
    net = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2))
    before = [type(m).__name__ for m in net], [type(p).__name__ for p in net.parameters()]
    hooks = len(net[0]._forward_pre_hooks)
    out = net(torch.randn(2, 3, 5, 5))
    after = [type(m).__name__ for m in net], [tuple(p.shape) for p in net.parameters()]
    return before, out, after, hooks, len(net[0]._forward_pre_hooks)


@program
def state_dicts_there_and_back() -> Any:
    net, other = (nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)) for _ in range(2))
    seen: list[str] = []
    net.register_state_dict_post_hook(lambda module, state, prefix, metadata: seen.append(f"saved {len(state)}"))
    other.register_load_state_dict_post_hook(lambda module, keys: seen.append(f"loaded {keys.missing_keys}"))
    state = net.state_dict()
    weight = other[0].weight
    other.load_state_dict(state)
    kept = other[0].weight is weight
    other.load_state_dict({key: value.clone() for key, value in state.items()}, assign=True)
    try:
        other.load_state_dict({"0.weight": torch.ones(9), "strange": torch.ones(1)})
        text = "no error"
    except RuntimeError as error:
        text = str(error)
    return seen, kept, other[0].weight is weight, text, other(torch.ones(2, 2)), list(state), state._metadata[""]


@program
def modules_made_on_meta_and_filled() -> Any:
    with torch.device("meta"):
        net = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3))
    state = {name: torch.ones(value.shape) for name, value in net.state_dict().items()}
    empty = net.to_empty(device="cpu")
    empty[0].reset_parameters()
    empty.load_state_dict(state, assign=True)
    skipped = torch.nn.utils.skip_init(nn.Linear, 2, 2)
    return empty(torch.ones(1, 2)), skipped.weight.shape[0], [value.device.type for value in empty.parameters()]


@program
def functional_call_with_other_parameters() -> Any:
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    net[0].tied = net[0].weight
    values = {name: torch.ones_like(v, requires_grad=True) for name, v in net.named_parameters()}
    out = torch.func.functional_call(net, values, (torch.ones(3, 2),), strict=False)
    out.sum().backward()
    try:
        torch.func.functional_call(net, {"no.such": torch.ones(1)}, (torch.ones(3, 2),), strict=True)
        text = "no error"
    except RuntimeError as error:
        text = str(error)
    return out, values["0.weight"].grad, text, net[0].weight.grad is None, net[1].num_batches_tracked


@program
def tied_weights_and_modules_used_twice() -> Any:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(6, 4), nn.Linear(4, 6, bias=False)
            self.head.weight = self.embed.weight
            self.again = self.embed

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(torch.tanh(self.again(x)) + self.embed(x))

    net = Tied()
    net(torch.tensor([1, 2])).sum().backward()
    return net.head.weight.grad, [name for name, _ in net.named_parameters()], [name for name, _ in net.named_modules()]


@program
def modules_that_are_changed_while_they_run() -> Any:
    class Growing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(2, 2)])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = layer(x)
            self.layers.append(nn.Linear(2, 2))
            self.register_buffer(f"kept{len(self.layers)}", x.detach(), persistent=False)
            self.layers[0].weight = nn.Parameter(self.layers[0].weight.detach() * 2)
            return x

    net = Growing()
    outs = [net(torch.ones(1, 2)) for _ in range(3)]
    return outs, len(net.layers), sorted(name for name, _ in net.named_buffers())


@program
def hooks_that_remove_and_add_hooks() -> Any:
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    seen: list[str] = []

    def once(module: nn.Module, args: Any, out: torch.Tensor) -> None:
        seen.append("once")
        handle.remove()
        module.register_forward_hook(lambda m, a, o: seen.append("later"))

    handle = net[0].register_forward_hook(once)
    net[0].register_forward_hook(lambda m, a, o: seen.append("prepended"), prepend=True)
    first, second = net(torch.ones(1, 2)), net(torch.ones(1, 2))
    return first, second, seen, len(net[0]._forward_hooks)


@program
def modules_with_strange_calls() -> Any:
    class Strange(nn.Module):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return ("wrapped", super().__call__(*args, **kwargs))

        def forward(self, *args: Any, flag: bool = False, **rest: Any) -> Any:
            return len(args), flag, sorted(rest), type(self).__mro__[1].__name__

        def __getattr__(self, name: str) -> Any:
            if name == "made_up":
                return "an attribute"
            return super().__getattr__(name)

        def __len__(self) -> int:
            return 0

    net = Strange()
    holder = nn.Sequential()
    holder.add_module("inner", net)
    return net(1, None, flag=True, x=2), net.made_up, hasattr(net, "nothing"), bool(net), net.forward(3), len(holder)


@program
def recurrent_modules_and_packed_sequences() -> Any:
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

    net = nn.GRU(3, 4, bidirectional=True, batch_first=True)
    sequences = pad_sequence([torch.ones(n, 3) for n in (4, 2)], batch_first=True)
    packed = pack_padded_sequence(sequences, torch.tensor([4, 2]), batch_first=True)
    out, hidden = net(packed)
    padded, lengths = pad_packed_sequence(out, batch_first=True)
    hidden.sum().backward()
    cell = nn.LSTMCell(3, 2)
    return padded, lengths, hidden, type(out).__name__, net.weight_ih_l0.grad, cell(torch.ones(1, 3))


@program
def batch_norm_in_training_and_with_momentum_none() -> Any:
    net = nn.BatchNorm1d(3, momentum=None)
    for _ in range(3):
        net(torch.randn(4, 3))
    trained = net.running_mean.clone(), net.num_batches_tracked.clone()
    net.eval()
    out = net(torch.ones(2, 3))
    try:
        nn.BatchNorm1d(3)(torch.ones(1, 3))
        text = "no error"
    except ValueError as error:
        text = str(error)
    return trained, out, text, nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm1d(2)).__class__.__name__


@program
def dropout_kinds_and_their_random_numbers() -> Any:
    x = torch.ones(2, 4, 3, 3)
    layers = [nn.Dropout(0.5), nn.Dropout2d(0.5), nn.AlphaDropout(0.3), nn.FeatureAlphaDropout(0.4), nn.RReLU()]
    outs = [layer(x) for layer in layers]
    kept = x.clone()
    nn.Dropout(0.5, inplace=True)(kept)
    return [out.sum((2, 3)) for out in outs], kept.sum(), torch.get_rng_state()[:64], kept._version
