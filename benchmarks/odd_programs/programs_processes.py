"""Processes, threads and other ways to do several things at a time."""

from __future__ import annotations

import os
import threading
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info

from benchmarks.odd_programs.registry import program


class Squares(Dataset):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, place: int) -> Any:
        worker = get_worker_info()
        return torch.full((2,), float(place)).pow(2), place, -1 if worker is None else worker.id


class Stream(IterableDataset):
    def __iter__(self) -> Any:
        worker = get_worker_info()
        for place in range(worker.id, 6, worker.num_workers):
            yield torch.relu(torch.randn(2)) + place


def _train(seed: int) -> torch.Tensor:
    """A few steps of training that depend on nothing but the seed."""
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(4, 2, generator=generator, requires_grad=True)
    for _ in range(3):
        loss = (torch.randn(8, 4, generator=generator) @ weight).tanh().pow(2).mean()
        gradient = torch.autograd.grad(loss, weight)[0]
        with torch.no_grad():
            weight -= gradient
    return weight.detach()


def _train_into(queue: Any, seed: int) -> None:
    queue.put((seed, _train(seed).tolist()))


@program
def data_loader_with_forked_workers() -> Any:
    loader = DataLoader(Squares(), batch_size=2, num_workers=2, multiprocessing_context="fork")
    return [[value.clone() for value in batch] for batch in loader]


@program
def data_loader_with_persistent_workers_and_seeds() -> Any:
    loader = DataLoader(Stream(), batch_size=2, num_workers=2, persistent_workers=True, multiprocessing_context="fork")
    epochs = [[batch.clone() for batch in loader] for _ in range(2)]
    del loader
    return epochs


@program
def data_loader_in_the_same_process() -> Any:
    order: list[int] = []
    sampler = torch.utils.data.WeightedRandomSampler([1.0, 2.0, 3.0], 6, generator=torch.Generator().manual_seed(4))
    data = TensorDataset(torch.arange(3.0), torch.arange(3))

    def collate(rows: Any) -> Any:
        order.extend(int(row[1]) for row in rows)
        return torch.stack([row[0] for row in rows]).sqrt()

    loaded = list(DataLoader(data, batch_size=4, sampler=sampler, collate_fn=collate))
    shuffled = [batch[0] for batch in DataLoader(data, shuffle=True)]
    return loaded, shuffled, order, [len(part) for part in torch.utils.data.random_split(data, [1, 2])]


@program(fork=False)
def data_loader_with_spawned_workers() -> Any:
    loader = DataLoader(Squares(), batch_size=3, num_workers=1, multiprocessing_context="spawn")
    return [[value.clone() for value in batch] for batch in loader]


@program(fork=False)
def spawned_process_that_trains() -> Any:
    context = torch.multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    process = context.Process(target=_train_into, args=(queue, 5))
    process.start()
    got = queue.get()
    process.join()
    return got, process.exitcode, _train(5)


@program
def forked_child_that_computes() -> Any:
    read, write = os.pipe()
    x = torch.arange(4.0)
    child = os.fork()
    if child == 0:
        try:
            os.write(write, repr(torch.softmax(x * 2, 0).tolist()).encode())
        finally:
            os._exit(7)
    os.close(write)
    text = os.read(read, 4096).decode()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return text, status, torch.softmax(x * 2, 0)


@program
def forked_pool_that_maps() -> Any:
    with torch.multiprocessing.get_context("fork").Pool(2) as pool:
        results = pool.map(_train, range(4))
    return [result.clone() for result in results], _train(2)


@program
def forked_child_that_ends_by_sys_exit() -> Any:
    import sys

    def work() -> None:
        torch.ones(2).exp()
        sys.exit(3)

    process = torch.multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join()
    return process.exitcode, torch.ones(2).exp()


@program
def tensors_shared_between_processes() -> Any:
    shared = torch.zeros(3).share_memory_()

    def work() -> None:
        shared.add_(torch.arange(3.0))

    process = torch.multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join()
    return shared, shared.is_shared(), process.exitcode, shared._version


@program
def subprocess_that_runs_python() -> Any:
    import subprocess
    import sys

    done = subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, text=True)
    return done.stdout, done.returncode, sorted(key for key in os.environ if "TORCH" in key and "TRUELINE" not in key)


@program
def several_threads_train() -> Any:
    results: dict[int, torch.Tensor] = {}
    names: list[str] = []

    def work(seed: int) -> None:
        names.append(threading.current_thread().name)
        results[seed] = _train(seed)

    threads = [threading.Thread(target=work, args=(seed,), name=f"trainer {seed}") for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[seed] for seed in sorted(results)], sorted(names)


@program
def program_counts_its_own_threads() -> Any:
    ready, released = threading.Barrier(3), threading.Event()

    def work() -> None:
        torch.ones(2).exp()
        ready.wait(5)
        released.wait(5)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    ready.wait(5)
    counted = (
        threading.active_count(),
        len(threading.enumerate()),
        sorted(thread.daemon for thread in threading.enumerate()),
    )
    released.set()
    for thread in threads:
        thread.join()
    return counted, threading.main_thread() is threading.current_thread()


@program
def threads_with_grad_modes_of_their_own() -> Any:
    states: dict[str, Any] = {}

    def work(name: str) -> None:
        before = torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled()
        with torch.no_grad():
            inside = (torch.ones(1, requires_grad=True) * 2).requires_grad
        states[name] = before, inside, torch.is_grad_enabled()

    with torch.no_grad(), torch.autocast("cpu"):
        thread = threading.Thread(target=work, args=("in no_grad",))
        thread.start()
        thread.join()
    with torch.inference_mode():
        thread = threading.Thread(target=work, args=("in inference",))
        thread.start()
        thread.join()
    return states


@program
def thread_started_before_and_used_inside() -> Any:
    import queue

    asked: queue.Queue[Any] = queue.Queue()
    answered: queue.Queue[Any] = queue.Queue()

    def work() -> None:
        while (x := asked.get()) is not None:
            answered.put(torch.sigmoid(x) * 2)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    asked.put(torch.zeros(2))
    results = [answered.get()]
    yield
    asked.put(torch.ones(2))
    results.append(answered.get())
    yield
    asked.put(torch.full((2,), 2.0))
    results.append(answered.get())
    asked.put(None)
    thread.join()
    return results


@program
def thread_that_outlives_the_observer() -> Any:
    released = threading.Event()
    results: list[Any] = []

    def work() -> None:
        results.append(torch.exp(torch.ones(2)))
        released.wait(5)
        results.append(nn.Linear(2, 2)(torch.ones(1, 2)).shape)

    yield
    thread = threading.Thread(target=work)
    thread.start()
    yield
    released.set()
    thread.join()
    return results[0], tuple(results[1]), thread.is_alive()


@program
def pool_of_threads_with_context_variables() -> Any:
    import contextvars
    from concurrent.futures import ThreadPoolExecutor

    who = contextvars.ContextVar("who", default="nobody")
    who.set("main")

    def work(number: int) -> Any:
        before = who.get()
        who.set(f"worker {number}")
        return before, who.get(), torch.full((1,), float(number)).sqrt()

    with ThreadPoolExecutor(1) as pool:
        plain = [pool.submit(work, n).result() for n in range(2)]
        copied = [pool.submit(contextvars.copy_context().run, work, n).result() for n in range(2)]
    return plain, copied, who.get()


@program
def coroutines_that_interleave() -> Any:
    import asyncio

    order: list[str] = []

    async def work(name: str, grad: bool) -> torch.Tensor:
        x = torch.ones(2, requires_grad=True)
        for step in range(3):
            with torch.set_grad_enabled(grad):
                x = x * 2
            order.append(f"{name} {step} {x.requires_grad}")
            await asyncio.sleep(0)
        return x.sum()

    async def main() -> Any:
        return await asyncio.gather(work("a", True), work("b", False), asyncio.to_thread(_train, 3))

    return asyncio.run(main()), order


@program
def backward_in_a_thread_of_a_graph_of_another() -> Any:
    x = torch.ones(3, requires_grad=True)
    y = (x * 3).exp().sum()
    seen: list[Any] = []
    x.register_hook(lambda gradient: seen.append(threading.current_thread().name))
    thread = threading.Thread(target=y.backward, name="other")
    thread.start()
    thread.join()
    return x.grad, seen


@program
def subclass_of_thread_with_its_own_run() -> Any:
    class Worker(threading.Thread):
        def run(self) -> None:
            self.result = torch.ones(2).tanh()
            super().run()

    errors: list[str] = []
    previous, threading.excepthook = threading.excepthook, lambda args: errors.append(repr(args.exc_value))
    worker = Worker(target=lambda: torch.ones(2) @ torch.ones(3))
    worker.start()
    worker.join()
    threading.excepthook = previous
    timer = threading.Timer(0.01, lambda: errors.append("timer ran"))
    timer.start()
    timer.join()
    return worker.result, errors, threading.Thread.__init__.__qualname__


@program
def process_group_of_one() -> Any:
    import torch.distributed as distributed

    store = distributed.HashStore()
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    x = torch.arange(3.0)
    distributed.all_reduce(x)
    gathered = [torch.empty(3)]
    distributed.all_gather(gathered, x)
    handle = distributed.broadcast(x, 0, async_op=True)
    handle.wait()
    objects: list[Any] = [None]
    distributed.all_gather_object(objects, {"rank": 0})
    distributed.barrier()
    net = nn.parallel.DistributedDataParallel(nn.Linear(3, 2))
    net(torch.ones(4, 3)).sum().backward()
    gradients = [value.grad for value in net.parameters()]
    distributed.destroy_process_group()
    return x, gathered, objects, gradients, distributed.is_initialized()


@program
def tensors_distributed_over_a_mesh_of_one() -> Any:
    import torch.distributed as distributed
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.debug import CommDebugMode

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    mesh = init_device_mesh("cpu", (1,))
    with CommDebugMode() as counter:
        x = distribute_tensor(torch.arange(6.0).view(2, 3), mesh, [Shard(0)]).requires_grad_()
        weight = distribute_tensor(torch.ones(3, 2), mesh, [Replicate()])
        y = torch.relu(x @ weight)
        y.sum().backward()
        full = y.full_tensor()
    counts = {str(key): value for key, value in counter.get_comm_counts().items()}
    result = full, x.grad.to_local(), type(y).__name__, str(y.placements), counts
    distributed.destroy_process_group()
    return result


@program
def signal_that_arrives_in_the_middle() -> Any:
    import signal

    seen: list[str] = []

    def handler(number: int, frame: Any) -> None:
        seen.append(f"{signal.Signals(number).name} {float(torch.ones(3).sum())}")

    previous = signal.signal(signal.SIGUSR1, handler)
    x = torch.ones(2)
    for _ in range(3):
        x = x * 2
        signal.raise_signal(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, lambda number, frame: (_ for _ in ()).throw(TimeoutError("out of time")))
    try:
        x.exp()
        signal.raise_signal(signal.SIGUSR1)
    except TimeoutError as error:
        seen.append(str(error))
    signal.signal(signal.SIGUSR1, previous)
    return x, seen, signal.getsignal(signal.SIGINT) is signal.default_int_handler
