"""Looking at tensors: never takes one for another that it is not, reads each as it was when it was seen.

Everything runs against both implementations, the C extension and Python.
"""

from __future__ import annotations

import ctypes
import gc
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.helpers.books import Blank  # noqa: E402
from trueline.dtypes import DTYPES  # noqa: E402
from trueline.frameworks.base import Scope  # noqa: E402
from trueline.frameworks.torch import readers  # noqa: E402
from trueline.frameworks.torch.fast import KNOWN_DTYPES, fast_looks  # noqa: E402
from trueline.frameworks.torch.tensors import TensorDesk  # noqa: E402
from trueline.numerics import cpu  # noqa: E402
from trueline.numerics.cuda_driver import Kernel, Program  # noqa: E402
from trueline.numerics.layout import DESCRIPTOR  # noqa: E402
from trueline.records import Data  # noqa: E402

LARGE = (96, 100)
"""More than ``readers.SMALL_BYTES`` in float32: waits in a group to be read."""


class Book(Blank):
    """A notebook that reads what it is handed when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.layouts: list[list[Any]] = []
        self.digests: dict[int, int] = {}
        self._numbers: dict[Any, int] = {}
        self._waiting: list[tuple[Any, Any]] = []

    def define(self, table: str, key: Any, row: Callable[[], list[Any]]) -> int:
        assert table == "layouts"
        if key not in self._numbers:
            self._numbers[key] = len(self.layouts)
            self.layouts.append(row())
        return self._numbers[key]

    def hand_over(self, statistics: Any = None, payloads: Any = None, done: Any = None) -> None:
        self._waiting.append((statistics, done))

    def read(self) -> None:
        waiting, self._waiting = self._waiting, []
        for statistics, done in waiting:
            if statistics is not None:
                numbers, rows = statistics()
                for number, row in zip(numbers, rows, strict=True):
                    assert int(number) not in self.digests, "read twice"
                    self.digests[int(number)] = int(row["digest"])
            if done is not None:
                done()

    def trouble(self, error: BaseException) -> None:
        raise error


@pytest.fixture(params=["extension", "python"])
def implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TRUELINE_NO_KERNELS", "1" if request.param == "python" else "0")
    if request.param == "extension" and fast_looks() is None:
        pytest.skip("the C extension was not built")
    return str(request.param)


@pytest.fixture
def book(implementation: str) -> Book:
    return Book()


@pytest.fixture
def desk(book: Book) -> Iterator[TensorDesk]:
    desk = TensorDesk(book, Scope(data=Data.DIGEST))
    yield desk
    desk.end_step()
    book.read()


def digest_of(tensor: Any) -> int:
    """The digest of what a tensor holds now, made from a copy."""
    name = str(tensor.dtype).rpartition(".")[2]
    dtype = DTYPES[name]
    copy = tensor.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    raw = copy.reshape(-1).view(torch.uint8).numpy()
    return cpu.digest(raw.view(np.dtype(dtype.storage)), dtype)


def change(desk: TensorDesk, tensor: Any, act: Callable[[Any], Any]) -> None:
    """Changes a tensor as a recorded in-place call does."""
    desk.before_change([tensor])
    version = tensor._version
    act(tensor)
    if tensor._version != version:
        desk.changed([tensor])


def test_the_same_tensor_has_the_same_number(desk: TensorDesk) -> None:
    tensor = torch.randn(LARGE)
    assert desk.look(tensor) == desk.look(tensor)
    assert desk.look(tensor.detach()) == desk.look(tensor), "another object, the same memory"


def test_other_shapes_of_the_same_bytes_share_the_number_but_not_the_layout(desk: TensorDesk) -> None:
    tensor = torch.randn(LARGE)
    number, layout = desk.look(tensor)
    again, other = desk.look(tensor.view(-1))
    assert again == number
    assert other != layout


def test_parts_and_transposes_are_tensors_of_their_own(desk: TensorDesk) -> None:
    tensor = torch.randn(100, 100)
    numbers = {desk.look(view)[0] for view in (tensor, tensor.t(), tensor[1:], tensor[:, 1:], tensor[:-1])}
    assert len(numbers) == 5


def test_requires_grad_is_part_of_the_layout_only(desk: TensorDesk, book: Book) -> None:
    tensor = torch.randn(LARGE)
    number, layout = desk.look(tensor)
    tensor.requires_grad_()
    again, other = desk.look(tensor)
    assert again == number
    assert [book.layouts[position][4] for position in (layout, other)] == [0, 1]
    tensor.requires_grad_(False)
    assert desk.look(tensor) == (number, layout)


@pytest.mark.parametrize(
    "act",
    [
        lambda tensor: tensor.add_(1),
        lambda tensor: tensor.view(-1)[3:5].zero_(),
        lambda tensor: tensor.t().mul_(2),
        lambda tensor: tensor.detach().add_(1),
    ],
    ids=["itself", "view", "transpose", "detached"],
)
def test_a_change_in_place_gives_a_new_number(desk: TensorDesk, act: Any) -> None:
    tensor = torch.randn(LARGE)
    view = tensor[1:]
    before = desk.look(tensor)[0], desk.look(view)[0]
    change(desk, tensor, act)
    after = desk.look(tensor)[0], desk.look(view)[0]
    assert len({*before, *after}) == 4


@pytest.mark.parametrize("size", [(8,), LARGE])
def test_a_change_that_nobody_told_of_is_seen_in_the_version(desk: TensorDesk, size: tuple[int, ...]) -> None:
    tensor = torch.zeros(size)
    view = tensor[1:]
    before = desk.look(tensor)[0], desk.look(view)[0]
    view.add_(1)
    after = desk.look(tensor)[0], desk.look(view)[0]
    assert len({*before, *after}) == 4


def test_a_change_through_data_is_seen_although_the_version_stays(desk: TensorDesk) -> None:
    tensor = torch.randn(LARGE)
    number, version = desk.look(tensor)[0], tensor._version
    alias = tensor.data
    change(desk, alias, lambda other: other.add_(1))
    assert tensor._version == version
    assert desk.look(tensor)[0] != number
    assert desk.look(tensor)[0] != desk.look(torch.randn(LARGE))[0]


def test_other_data_at_the_address_of_the_old_is_another_tensor(desk: TensorDesk) -> None:
    """``tensor.data =`` leaves the version as it is, and the allocator gives the freed address out again."""
    tensor = torch.zeros(8)  # small: read at once, so nothing of ours keeps its memory
    addresses: set[int] = set()
    numbers: set[int] = set()
    for value in range(300):
        tensor.data = torch.full((8,), float(value))
        assert tensor._version == 0
        addresses.add(tensor.data_ptr())
        numbers.add(desk.look(tensor)[0])
    assert len(addresses) < 300, "no address came back: this test has tested nothing"
    assert len(numbers) == 300


def test_storages_that_died_are_not_confused_with_new_ones(desk: TensorDesk, book: Book) -> None:
    addresses: set[int] = set()
    numbers: set[int] = set()
    expected: dict[int, int] = {}
    for value in range(300):
        tensor = torch.full((10,), float(value))
        addresses.add(tensor.data_ptr())
        number = desk.look(tensor)[0]
        numbers.add(number)
        expected[number] = digest_of(tensor)
        del tensor
    assert len(addresses) < 300, "no address came back: this test has tested nothing"
    assert len(numbers) == 300
    desk.end_step()
    book.read()
    assert book.digests == expected


def test_set_and_resize_give_another_look(desk: TensorDesk) -> None:
    tensor, other = torch.randn(LARGE), torch.randn(LARGE)
    first = desk.look(tensor)
    change(desk, tensor, lambda it: it.set_(other))
    second = desk.look(tensor)
    assert second[0] != first[0]
    change(desk, tensor, lambda it: it.resize_(90, 100))
    third = desk.look(tensor)
    assert third[1] != second[1]
    assert third[0] != second[0]


def test_data_of_another_shape_or_dtype_gives_another_look(desk: TensorDesk) -> None:
    tensor = torch.randn(LARGE)
    looks = [desk.look(tensor)]
    tensor.data = tensor.data.view(-1)
    looks.append(desk.look(tensor))
    tensor.data = tensor.data.view(torch.int32)
    looks.append(desk.look(tensor))
    assert len({layout for _, layout in looks}) == 3
    assert looks[0][0] == looks[1][0] != looks[2][0]


def test_swapped_tensors_are_told_apart(desk: TensorDesk) -> None:
    left, right = torch.randn(LARGE), torch.randn(LARGE)
    first, second = desk.look(left), desk.look(right)
    torch.utils.swap_tensors(left, right)
    assert (desk.look(left), desk.look(right)) == (second, first)


def test_conjugated_and_negated_views_hold_something_else(desk: TensorDesk, book: Book) -> None:
    pair = torch.randn(80, 80, dtype=torch.complex64)
    real = torch.randn(LARGE)
    scalar = torch.tensor(1 + 2j)
    expected = {}
    for tensor in (pair, pair.conj(), pair.conj().imag, real, torch._neg_view(real), scalar.imag, scalar.conj().imag):
        expected[desk.look(tensor)[0]] = digest_of(tensor)
    assert len(expected) == 7
    desk.end_step()
    book.read()
    assert book.digests == expected


def test_tensors_without_memory_are_missing_and_not_read(desk: TensorDesk, book: Book) -> None:
    emptied = torch.randn(LARGE)
    part = emptied[3:]
    emptied.untyped_storage().resize_(0)
    numbers = {desk.look(tensor)[0] for tensor in (emptied, part, torch._efficientzerotensor(LARGE))}
    desk.end_step()
    book.read()
    assert numbers == {number for number, _ in book.missing}
    assert not book.digests


def test_a_storage_emptied_while_it_waits_is_not_read(desk: TensorDesk, book: Book) -> None:
    tensor, other = torch.randn(LARGE), torch.randn(LARGE)
    number, kept = desk.look(tensor)[0], desk.look(other)[0]
    tensor.untyped_storage().resize_(0)
    desk.end_step()
    book.read()
    assert book.missing == [(number, readers.CHANGED)]
    assert set(book.digests) == {kept}


def test_data_replaced_while_it_waits_is_reported_and_the_old_memory_kept(desk: TensorDesk, book: Book) -> None:
    tensor = torch.randn(LARGE)
    number = desk.look(tensor)[0]
    tensor.data = torch.zeros(LARGE)
    gc.collect()
    desk.end_step()
    book.read()
    assert book.missing == [(number, readers.CHANGED)]
    assert not book.digests


def test_an_unseen_change_is_reported(desk: TensorDesk, book: Book) -> None:
    tensor = torch.randn(LARGE)
    number = desk.look(tensor)[0]
    tensor.add_(1)
    desk.end_step()
    book.read()
    assert book.missing == [(number, readers.CHANGED)]
    assert book.tally.not_recorded == {readers.CHANGED: 1}


@pytest.mark.parametrize("name", [name for name in DTYPES if hasattr(torch, name) and name != "complex32"])
def test_every_dtype_and_layout_is_read_as_it_is(desk: TensorDesk, book: Book, name: str) -> None:
    dtype = getattr(torch, name)
    itemsize = DTYPES[name].itemsize
    raw = torch.randint(0, 2 if name == "bool" else 256, (40 * 50 * 60 * itemsize,), dtype=torch.uint8)
    base = raw.view(dtype).view(40, 50, 60)
    views = [base, base.transpose(0, 2), base[::2, 3:, 1::3], base[0, 0, 0], base[:0], base.expand(2, 40, 50, 60)]
    expected = {desk.look(view)[0]: digest_of(view) for view in views}
    assert len(expected) == len(views)
    desk.end_step()
    book.read()
    assert book.digests == expected


def test_many_dimensions_are_copied(desk: TensorDesk, book: Book) -> None:
    deep = torch.randn(3, 3, 3, 3, 3, 3, 3, 3, 3)[..., ::2].permute(8, 6, 4, 2, 0, 1, 3, 5, 7)
    deeper = torch.randn([2] * 9 + [20] + [1] * 60).transpose(0, 9)
    expected = {desk.look(tensor)[0]: digest_of(tensor) for tensor in (deep, deeper)}
    desk.end_step()
    book.read()
    assert book.digests == expected


def test_odd_tensors_are_left_to_python(desk: TensorDesk, book: Book) -> None:
    class Labelled(torch.Tensor):
        pass

    labelled = torch.randn(LARGE).as_subclass(Labelled)
    assert desk.look(labelled)[0] == desk.look(labelled.as_subclass(torch.Tensor))[0]
    with torch.inference_mode():
        inferred = torch.randn(LARGE)
    expected = {desk.look(labelled)[0]: digest_of(labelled), desk.look(inferred)[0]: digest_of(inferred)}
    missing = {desk.look(torch.eye(3).to_sparse())[0]: "layout torch.sparse_coo is not read"}
    missing[desk.look(torch.empty(3, device="meta"))[0]] = "meta tensors have no content"

    def batched(row: Any) -> Any:
        missing[desk.look(row)[0]] = "tensors inside of a torch.func transform are not read"
        return row

    torch.func.vmap(batched)(torch.randn(3, 4))
    desk.end_step()
    book.read()
    assert book.digests == expected
    assert dict(book.missing) == missing


def test_integers_can_be_left_out(book: Book) -> None:
    desk = TensorDesk(book, Scope(data=Data.DIGEST, integers=False))
    number, wanted = desk.look(torch.arange(9000))[0], desk.look(torch.randn(LARGE))[0]
    desk.end_step()
    book.read()
    assert book.missing == [(number, "integers were not asked for")]
    assert set(book.digests) == {wanted}


def test_structure_alone_reads_nothing(book: Book) -> None:
    desk = TensorDesk(book, Scope(data=Data.STRUCTURE))
    tensor = torch.randn(LARGE)
    assert desk.look(tensor) == desk.look(tensor) == (0, 0)
    desk.end_step()
    book.read()
    assert not book.digests
    assert not book.missing


def test_look_all_writes_rows(desk: TensorDesk) -> None:
    left, right = torch.randn(LARGE), torch.randn(3)
    first, second = desk.look(left), desk.look(right)
    visits = [7]
    desk.look_all([left, right, left], 41, 5, 2, visits)
    desk.look_all([], 42, 0, 0, visits)
    assert visits == [7, 41, 5, 2, *first, 41, 6, 2, *second, 41, 7, 2, *first]


def test_a_tensor_about_to_change_is_read_first_whoever_it_is(desk: TensorDesk, book: Book) -> None:
    class Labelled(torch.Tensor):
        pass

    plain, labelled = torch.randn(LARGE), torch.randn(LARGE).as_subclass(Labelled)
    tensors = [plain.view(-1), labelled, torch.eye(3).to_sparse(), plain]
    expected = {desk.look(tensor)[0]: digest_of(tensor) for tensor in (plain, labelled)}
    desk.before_change(tensors)
    for tensor in tensors[:2]:
        tensor.add_(1)
    desk.changed(tensors)
    expected |= {desk.look(tensor)[0]: digest_of(tensor) for tensor in (plain, labelled)}
    assert len(expected) == 4
    desk.end_step()
    book.read()
    assert book.digests == expected


def test_a_step_forgets_every_tensor(desk: TensorDesk, book: Book) -> None:
    tensor = torch.randn(LARGE)
    number, layout = desk.look(tensor)
    desk.end_step()
    again, same = desk.look(tensor)
    assert again != number
    assert same == layout


def test_nothing_of_a_tensor_is_kept_after_it_was_read(desk: TensorDesk, book: Book) -> None:
    import weakref

    tensor = torch.randn(LARGE)
    desk.look(tensor)
    storage = tensor.untyped_storage()
    alive = weakref.ref(tensor), storage._weak_ref()
    del tensor, storage
    desk.launch()
    book.read()
    gc.collect()
    assert alive[0]() is None
    assert torch.UntypedStorage._expired(alive[1])
    torch.UntypedStorage._free_weak_ref(alive[1])


def test_taking_a_storage_out_of_a_group(implementation: str) -> None:
    group = readers.Group()
    tensors = [torch.randn(LARGE) for _ in range(5)]
    known = ("float32", 0, 4)
    for number, tensor in enumerate(tensors):
        held = group.add(tensor, number, 10 + number % 2, known, True)
    assert held == group.bytes == 5 * 4 * tensors[0].numel()
    assert [(number, taken is tensors[number]) for taken, number in group.take(11)] == [(1, True), (3, True)]
    assert group.numbers.tolist() == [0, 2, 4]
    assert group.rows.places == [10, 10, 10]
    assert group.holds({10, 11, 12}) == {10}
    assert len(group.rows) == len(group.tensors) == 3
    table = group.descriptors()
    assert table["pointer"].tolist() == [tensors[position].data_ptr() for position in (0, 2, 4)]
    tensors[2].add_(1)
    assert group.changed() == [1]


def test_both_implementations_make_the_same_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    if fast_looks() is None:
        pytest.skip("the C extension was not built")
    base = torch.randn(6, 7, 8, 9)
    views = [base, base[1:, ::2], base.permute(3, 1, 0, 2), base.expand(2, 6, 7, 8, 9), base[:, :, :, :1], base[:0]]
    tables = []
    for value in ("0", "1"):
        monkeypatch.setenv("TRUELINE_NO_KERNELS", value)
        group = readers.Group()
        for number, view in enumerate(views):
            group.add(view, number, 1, ("float32", 0, 4), view.is_contiguous())
        tables.append(group.descriptors())
    assert np.array_equal(tables[0], tables[1])


def test_rows_fill_the_tables_of_a_device_as_far_as_they_go() -> None:
    if fast_looks() is None:
        pytest.skip("the C extension was not built")
    tensors = [torch.zeros(count) for count in (10, 0, 70_000, 5_000, 17)] + [torch.zeros(9_000, dtype=torch.complex64)]
    group = readers.Group()
    for number, tensor in enumerate(tensors):
        group.add(tensor, number, number, KNOWN_DTYPES[tensor.dtype], True)
    tensors[3].add_(1)
    tensors[4].data = torch.ones(17)
    complex_codes = 1 << DTYPES["complex64"].code
    shares = (4, 20, 8192, 8, 4096, complex_codes)  # rows, blocks, elements of a block, blocks of a tensor, of a span
    ends, table = np.zeros(4, np.int32), np.zeros(4, DESCRIPTOR)
    assert group.rows.fill(0, ends.ctypes.data, table.ctypes.data, shares, 0, 0) == (4, 8, [3], 0)
    # 70,000 elements would be nine blocks; eight is the most, so each has three spans of 4,096
    assert ends.tolist() == [1, 1, 7, 8]
    assert table.tobytes() == group.descriptors()[:4].tobytes()
    assert group.rows.fill(4, ends.ctypes.data, table.ctypes.data, shares, 0, 0) == (2, 3, [4], 0)
    assert ends.tolist() == [0, 3, 2**31 - 1, 2**31 - 1]
    assert table["numel"][:2].tolist() == [0, 9_000]


@pytest.mark.parametrize(("room", "refused", "sent"), [(8, None, 1), (3, None, 0), (8, "copy", 0), (8, "launch", 0)])
def test_rows_send_their_table_by_a_program(room: int, refused: str | None, sent: int) -> None:
    if fast_looks() is None:
        pytest.skip("the C extension was not built")
    done: list[tuple[Any, ...]] = []

    def copy(*arguments: Any) -> int:
        done.append(("copy", *arguments))
        return int(refused == "copy")

    def launch(function: int, programs: int, *rest: Any) -> int:
        done.append((function, programs, rest[2], rest[5], rest[6], result.value))
        return int(refused == "launch")

    words, whole = ctypes.c_uint, ctypes.c_void_p
    copier = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, whole, ctypes.c_size_t, whole)(copy)
    launcher = ctypes.CFUNCTYPE(ctypes.c_int, whole, *[words] * 7, *[whole] * 3)(launch)
    result = ctypes.c_uint64(0)
    program = Program(
        ctypes.cast(copier, whole).value, ctypes.cast(launcher, whole).value, 77, 5000, 16, Kernel(1, 128, 11, 0),
        Kernel(2, 256, 22, 0), ctypes.addressof(result), room,
    )  # fmt: skip
    group = readers.Group()
    tensor = torch.zeros(30_000)
    group.add(tensor, 0, 0, KNOWN_DTYPES[tensor.dtype], True)
    ends, table = np.zeros(4, np.int32), np.zeros(4, DESCRIPTOR)
    shares = (4, 9, 8192, 8, 4096, 0)
    address = ctypes.addressof(program)
    filled = group.rows.fill(0, ends.ctypes.data, table.ctypes.data, shares, address, 900)
    assert filled == (1, 4, [], sent)
    copied = ("copy", 5000, ends.ctypes.data, 16 + DESCRIPTOR.itemsize, 77)
    expected = [copied, (1, 4, 128, 11, 77, 0), (2, 1, 256, 22, 77, 900)]
    assert done == {None: expected if sent else [], "copy": expected[:1], "launch": expected[:2]}[refused]


def test_a_table_of_a_device_ends_where_its_blocks_do() -> None:
    if fast_looks() is None:
        pytest.skip("the C extension was not built")
    group = readers.Group()
    tensors = [torch.zeros(30_000) for _ in range(3)]
    for number, tensor in enumerate(tensors):
        group.add(tensor, number, number, KNOWN_DTYPES[tensor.dtype], True)
    ends, table = np.zeros(4, np.int32), np.zeros(4, DESCRIPTOR)
    shares = (4, 9, 8192, 8, 4096, 0)
    assert group.rows.fill(0, ends.ctypes.data, table.ctypes.data, shares, 0, 0)[:2] == (2, 8)
    assert group.rows.fill(2, ends.ctypes.data, table.ctypes.data, shares, 0, 0)[:2] == (1, 4)


class Story:
    """A random program, with an oracle that copies every tensor it shows."""

    def __init__(self, desk: TensorDesk, book: Book, seed: int) -> None:
        self.desk, self.book, self.random = desk, book, random.Random(seed)
        self.pool: list[Any] = []
        self.held: dict[int, int] = {}
        """The digest of each number of this step."""
        self.moved = False
        self.read = 0

    def run(self, acts: int) -> None:
        for _ in range(acts):
            self.random.choice(
                [self.make, self.make, self.view, self.view, self.change, self.change_data, self.replace, self.drop,
                 self.flip, self.resize, self.assign, self.end_step]
                + [self.look] * 12
            )()  # fmt: skip
        self.end_step()

    def pick(self) -> Any:
        return self.random.choice(self.pool or [self.make()])

    def make(self) -> Any:
        size = self.random.choice([(4,), (3, 5), (96, 100), (100, 96), (2, 50, 96)])
        dtype = self.random.choice([torch.float32, torch.float32, torch.float64, torch.complex64])
        self.pool.append(torch.randn(size, dtype=dtype))
        return self.pool[-1]

    def look(self) -> None:
        tensor = self.pick()
        number, layout = self.desk.look(tensor)
        digest = digest_of(tensor)
        assert self.held.setdefault(number, digest) == digest, "taken for a tensor that it is not"
        row = self.book.layouts[layout]
        assert row[1:3] == [list(tensor.shape), list(tensor.stride())]
        assert (row[0], row[4]) == (str(tensor.dtype).rpartition(".")[2], int(tensor.requires_grad))
        assert self.desk.look(tensor) == (number, layout)

    def view(self) -> None:
        tensor = self.pick()
        views = [tensor.detach(), tensor.reshape(-1), tensor.transpose(0, -1), tensor[1:], tensor.conj(), tensor.data]
        self.pool.append(self.random.choice(views))

    def change(self) -> None:
        tensor = self.pick()
        with torch.no_grad():
            change(self.desk, tensor, lambda it: it.mul_(1.5))

    def change_data(self) -> None:
        change(self.desk, self.pick().data, lambda it: it.add_(1))

    def replace(self) -> None:
        tensor, other = self.pick(), self.pick()
        if tensor.dtype == other.dtype and not tensor.requires_grad:
            self.desk.launch()  # what is replaced while it waits is not recorded
            self.book.read()
            tensor.data = other.data
            self.moved = True

    def assign(self) -> None:
        tensor = self.pick()
        if not tensor.requires_grad and not tensor.is_conj():
            other = torch.randn(tensor.shape, dtype=tensor.dtype)
            change(self.desk, tensor, lambda it: it.set_(other))
            self.moved = True

    def resize(self) -> None:
        tensor = self.pick()
        if not tensor.requires_grad and not tensor.is_conj() and tensor.numel() > 4:
            change(self.desk, tensor, lambda it: it.resize_(tensor.numel() - 1))

    def flip(self) -> None:
        tensor = self.pick()
        if tensor.is_leaf:
            tensor.requires_grad_(not tensor.requires_grad)

    def drop(self) -> None:
        if self.pool:
            del self.pool[self.random.randrange(len(self.pool)) :]

    def end_step(self) -> None:
        self.desk.end_step()
        self.book.read()
        # A tensor that was given other memory still shares its version counter with the views of the old one, so
        # these seem changed when it is: not recorded, never recorded wrong.
        assert {reason for _, reason in self.book.missing} <= ({readers.CHANGED} if self.moved else set())
        for number, _ in self.book.missing:
            del self.held[number]
        assert self.book.digests == self.held
        self.read += len(self.held)
        self.held, self.book.digests, self.book.missing = {}, {}, []


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_are_recorded_as_they_ran(book: Book, seed: int) -> None:
    torch.manual_seed(seed)
    desk = TensorDesk(book, Scope(data=Data.DIGEST))
    story = Story(desk, book, seed)
    story.run(300)
    assert story.read > 20
