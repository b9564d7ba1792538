"""What lives how long, what shares memory, and how often it was written."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import weakref
from typing import Any

import numpy
import torch
from torch import nn

from benchmarks.odd_programs.registry import program


def _dies(x: Any) -> weakref.ref[Any]:
    return weakref.ref(x)


@program
def results_die_when_they_are_deleted() -> Any:
    x = torch.ones(4)
    y = torch.exp(x)
    alive = weakref.ref(y)
    del y
    first = alive() is None
    z = x + 1
    storage = weakref.ref(z.untyped_storage())
    alive = weakref.ref(z)
    w = z * 2
    del z
    return first, alive() is None, storage() is None, w


@program
def activations_die_during_backward() -> Any:
    x = torch.randn(8, requires_grad=True)
    hidden = torch.sigmoid(x)
    alive = weakref.ref(hidden)
    loss = (hidden * hidden).sum()
    del hidden
    before = alive() is None
    loss.backward()
    return before, alive() is None, x.grad


@program
def module_and_gradients_are_freed() -> Any:
    gc.collect()
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU())
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    things = [weakref.ref(net), weakref.ref(net[0].weight), weakref.ref(net[0].weight.grad), weakref.ref(optimizer)]
    states = [[thing() is None for thing in things]]
    optimizer.zero_grad()
    states.append([thing() is None for thing in things])
    del net, optimizer
    gc.collect()
    return [*states, [thing() is None for thing in things]]


@program
def tensors_alive_in_a_loop() -> Any:
    gc.collect()
    gc.disable()
    x = torch.ones(16)
    alive = []
    made: list[Any] = []
    for _ in range(5):
        y = torch.relu(x * 2).sum()
        made.append(weakref.ref(y))
        alive.append(sum(item() is not None for item in made))
    gc.enable()
    return alive, y


@program
def finalizers_run_in_order() -> Any:
    order: list[str] = []
    for name in ("first", "second", "third"):
        x = torch.ones(2)
        weakref.finalize(x, order.append, name)
        y = torch.sin(x)
        weakref.finalize(y, order.append, f"{name} sine")
        del x, y
        order.append("next")
    return order


@program
def cycles_with_tensors_are_collected() -> Any:
    class Node:
        def __init__(self) -> None:
            self.me, self.value = self, torch.ones(2) * 3

    gc.collect()
    refs = []
    for _ in range(3):
        node = Node()
        refs.append((weakref.ref(node), weakref.ref(node.value)))
    del node
    before = [a() is None for a, b in refs]
    gc.collect()
    return before, [(a() is None, b() is None) for a, b in refs]


@program
def storages_shared_resized_and_swapped() -> Any:
    x = torch.arange(6.0)
    y = x.view(2, 3)
    same = x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
    big = torch.empty(0).set_(x.untyped_storage(), 2, (2, 2), (1, 1))
    big[0, 0] = 50
    x.resize_(8)
    x[6:] = 0
    sizes = [x.untyped_storage().nbytes(), y.untyped_storage().nbytes()]
    z = torch.ones(3)
    z.untyped_storage().resize_(0)
    empty = z.untyped_storage().nbytes()
    z.untyped_storage().resize_(12)
    z.fill_(2)
    return same, big, x, y, sizes, empty, z


@program
def activation_storage_freed_and_filled_again() -> Any:
    """As FSDP does with its flat parameters."""
    flat = nn.Parameter(torch.arange(6.0))
    weight = flat.view(2, 3)
    kept = flat.detach().clone()
    out = nn.functional.linear(torch.ones(1, 3), weight)
    flat.untyped_storage().resize_(0)
    freed = flat.untyped_storage().nbytes()
    flat.untyped_storage().resize_(24)
    with torch.no_grad():
        flat.data.copy_(kept)
    out.sum().backward()
    return freed, out, flat.grad


@program
def storage_that_is_gone_when_looked_at() -> Any:
    class Freed(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x * 2
            y.untyped_storage().resize_(0)
            return y

    out = Freed()(torch.ones(1000))
    shape, size = tuple(out.shape), out.untyped_storage().nbytes()
    out.untyped_storage().resize_(4000)
    return shape, size, nn.Identity()(out).fill_(3.0).sum()


@program
def data_and_detach_and_versions() -> Any:
    x = torch.ones(3, requires_grad=True)
    versions = [x._version]
    x.data.mul_(2)
    versions.append(x._version)
    with torch.no_grad():
        x.mul_(2)
    versions.append(x._version)
    y = x.detach()
    y.add_(1)
    versions += [x._version, y._version]
    z = x.clone()
    z[0] = 5
    w = z.view(-1)
    w.zero_()
    versions += [z._version, w._version]
    torch.relu(z)
    nn.ReLU()(z)
    z.exp()
    versions += [z._version, x._version]
    x.data = torch.zeros(5)
    versions.append(x._version)
    return versions, x, z


@program
def versions_of_batch_norm_and_optimizers() -> Any:
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        net(torch.randn(4, 2)).pow(2).sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    versions = {name: value._version for name, value in net.state_dict(keep_vars=True).items()}
    return versions, [value.grad._version for value in net.parameters()], net[1].running_mean


@program
def chains_of_views_written_in_place() -> Any:
    x = torch.zeros(4, 4, requires_grad=True)
    base = x * 1
    view = base[1:].t()[::2].view_as(base[1:].t()[::2])
    view.add_(torch.arange(6.0).view(2, 3))
    base.narrow(0, 0, 2).mul_(3)
    first, second = base.split(2)
    texts = []
    try:
        first.mul_(2)
    except RuntimeError as error:
        texts.append(str(error)[:90])
    (base**2).sum().backward()
    return base, x.grad, view.grad_fn.name(), base.grad_fn.name(), view._base is base, texts, second


@program
def out_arguments() -> Any:
    x = torch.randn(2, 3)
    out = torch.empty(2, 3)
    pointer = out.data_ptr()
    same = torch.exp(x, out=out) is out
    values, places = torch.empty(2), torch.empty(2, dtype=torch.int64)
    both = torch.max(x, 1, out=(values, places))
    torch.add(x, 1, out=out[:, :])
    wrong = torch.empty(7)
    torch.mul(x, 2, out=wrong)
    sliced = torch.zeros(2, 6)
    torch.neg(x, out=sliced[:, ::2])
    return same, out.data_ptr() == pointer, out, both[0] is values, places, wrong, sliced, out._version


@program
def numpy_arrays_share_memory() -> Any:
    array = numpy.arange(4, dtype=numpy.float32)
    x = torch.from_numpy(array)
    x.mul_(2)
    back = x.numpy()
    back[0] = 9
    mixed = (
        numpy.sin(x),
        numpy.add(array, x),
        x + array,
        numpy.asarray(x).base is None,
        torch.as_tensor(array).data_ptr() == x.data_ptr(),
    )
    frozen = numpy.ones(2)
    frozen.flags.writeable = False
    try:
        torch.ones(2, requires_grad=True).numpy()
        text = "no error"
    except RuntimeError as error:
        text = str(error)
    return (
        x,
        array,
        [type(m).__name__ for m in mixed],
        mixed[3:],
        text,
        torch.from_numpy(frozen) + 1,
        numpy.linalg.norm(x),
    )


@program
def dlpack_and_buffers_share_memory() -> Any:
    x = torch.arange(4.0)
    y = torch.from_dlpack(x)
    y[0] = 7
    array = numpy.from_dlpack(x)
    raw = bytearray(16)
    z = torch.frombuffer(raw, dtype=torch.float32)
    z.fill_(1.5)
    capsule = torch.utils.dlpack.to_dlpack(x)
    again = torch.utils.dlpack.from_dlpack(capsule)
    return x, y, array.tolist(), bytes(raw).hex(), again.data_ptr() == x.data_ptr(), x.__dlpack_device__()[1]


@program
def deep_copies_inside() -> Any:
    net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(), nn.Linear(4, 2))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    net(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    twin, twin_optimizer = copy.deepcopy((net, optimizer))
    shared = twin_optimizer.param_groups[0]["params"][0] is twin[0].weight
    twin_optimizer.step()
    loss = torch.ones(2, requires_grad=True) * 2
    try:
        copy.deepcopy(loss)
        text = "copied"
    except RuntimeError as error:
        text = str(error)[:60]
    return list(twin.parameters()), shared, text, copy.copy(net)[0] is net[0], copy.deepcopy(net[0].weight.grad)


@program
def pickles_of_everything() -> Any:
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    net[1].register_forward_hook(_keep)
    things = [
        net,
        torch.ones(2)[1:],
        torch.float16,
        torch.Size([1]),
        torch.relu,
        torch.Tensor.add,
        torch.nn.functional.gelu,
    ]
    sizes, copies = [], []
    for thing in things:
        try:
            data = pickle.dumps(thing)
            sizes.append(len(data))
            copies.append(repr(pickle.loads(data))[:80].split(" at 0x")[0])
        except Exception as error:
            copies.append(f"{type(error).__name__}: {str(error)[:80]}")
    same = pickle.loads(pickle.dumps(torch.relu)) is torch.relu
    return sizes, copies, same, pickle.loads(pickle.dumps(net))(torch.ones(1, 2))


def _keep(module: nn.Module, args: Any, out: torch.Tensor) -> torch.Tensor:
    return out + 1


@program
def saved_and_loaded_checkpoints() -> Any:
    net = nn.LSTM(2, 3)
    shared = torch.ones(4)
    content = {"net": net.state_dict(), "parts": [shared[:2], shared[2:]], "rng": torch.get_rng_state(), "step": 5}
    buffer = io.BytesIO()
    torch.save(content, buffer)
    size = len(buffer.getvalue())
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=True)
    loaded["parts"][0].fill_(3)
    buffer.seek(0)
    skipped = torch.load(buffer, map_location="meta", weights_only=True)
    net.load_state_dict(loaded["net"])
    return size, loaded["parts"], net(torch.ones(1, 1, 2))[0], skipped["parts"][0].device.type, loaded["step"]


@program
def multi_output_views_and_their_versions() -> Any:
    x = torch.arange(8.0, requires_grad=True)
    base = x.clone()
    parts = base.chunk(4)
    with torch.no_grad():
        parts[0].zero_()
    unbound = base.view(2, 4).unbind(1)
    versions = [base._version, parts[1]._version, unbound[0]._version]
    try:
        unbound[0].add_(1)
        text = "no error"
    except RuntimeError as error:
        text = str(error)[:120]
    return versions, text, parts[0], [u._base is base for u in unbound], type(unbound).__name__


@program
def attributes_on_tensors_and_their_order() -> Any:
    x = torch.ones(2, requires_grad=True)
    x.tag, x.other = "kept", [1]
    y = torch.relu(x)
    y.mark = weakref.ref(x)
    view = x.view(2)
    net = nn.Linear(2, 2)
    net(x)
    slots = [sorted(vars(x)), sorted(vars(y)), sorted(vars(view)), sorted(vars(net.weight))]
    return slots, x.tag, y.mark() is x, hasattr(torch.relu(x), "tag"), x.__dict__ is x.__dict__, sorted(vars(net))
