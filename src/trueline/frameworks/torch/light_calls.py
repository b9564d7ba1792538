"""Sees calls for a light watch and holds on to them; the twin in Python of ``_calls_light.h``.

A call leaves an **entry** in a list, a tuple that holds whatever the call was given and gave:

    forward   (number, site, thread, args, kwargs, result, before, after, made, function, modes)
    backward  (number, site, thread, forward number, [gradients], places, versions)

``before`` are the versions of the tensors in the arguments as 64-bit integers, ``after`` the same after a call that may
have changed some (else None), ``made`` those of the tensors in the result. The result of a call that raised is its
error, as text. ``places`` are pairs: which of the gradients belongs to which tensor of the result. The list around
gradients is empty once they were let go of: on the CPU each is read when it arrives, and only the youngest are kept as
long as all are good, since memory that is not given back costs a program more than the reading. Trees, layouts and
stacks are made of entries when somebody asks.

``function`` and ``modes`` are there where the call is on the tape (``light_tape.py``): then nothing of what it made is
held, a ``LightRef`` stands for each tensor that a call of the step has made, and there is no ``after`` and no ``made``.

Tensors in an entry stand for those of the program (``light_hold.py``), which die when it lets go of them.

A **site** is a place in the program: the n-th call of an API in a step, in a module, made at one line. It is numbered
when it is first seen; then its stack is taken, and never again.
"""

from __future__ import annotations

import sys
from array import array
from collections import deque
from collections.abc import Callable
from functools import partial
from types import CodeType, SimpleNamespace
from typing import Any, NamedTuple

import torch

from trueline.frameworks.base import Scope
from trueline.frameworks.light import LightOptions, Sink
from trueline.frameworks.torch.calls import autocast_door, fast_calls
from trueline.frameworks.torch.fast import fast_looks
from trueline.frameworks.torch.light_groups import plain_of
from trueline.frameworks.torch.light_hold import Holding
from trueline.frameworks.torch.light_leaves import leaves_of, place_of, versions_of, written_unseen
from trueline.frameworks.torch.light_looks import GRADIENT, INPUT, OUTPUT, LookTables
from trueline.frameworks.torch.light_notebook import LightNotebook
from trueline.frameworks.torch.light_tape import MOST_SAVED, autocast_types, layout_of, state_of_thread, written_by
from trueline.frameworks.torch.names import Trait, may_change
from trueline.frameworks.torch.opencalls import Closing, made_between, recomputing, thread_state
from trueline.frameworks.torch.selection import Selection
from trueline.frameworks.torch.splice import FRAMES
from trueline.frameworks.torch.stacks import torch_stacks
from trueline.frameworks.torch.tensors import _version
from trueline.frameworks.torch.unseen import Unseen, bytes_of, kernel_depth, profiling, told
from trueline.numerics import light
from trueline.store.columns import NONE

_graph_task = torch._C._current_graph_task_id

FORWARD_FIELDS = 11
"""The length of the entry of a forward call; that of a backward is shorter."""

WINDOW = 16 << 20
"""So many bytes of gradients in CPU memory are kept that have been read and were good."""
FEW_PASSED = 8
"""So many gradients are known again where they are handed on."""
NO_CONTEXT, IN_OPTIMIZER, IN_BACKWARD = range(3)
SUMMED_IN_PLACE = frozenset({"torch.distributed.all_reduce", "torch.distributed.reduce"})
"""Collectives that put their answer where the question was."""

Entry = tuple[Any, ...]


class Site(NamedTuple):
    """A place in the program."""

    trait: Any
    nth: int
    module: int
    context: str
    stack: int


class LightWatch:
    """Writes entries; what ``watch.Watch`` is to a capture. ``backward_begins`` is told the number of the call at whose
    output a backward begins; ``over_limit`` that more is held than may be."""

    def __init__(
        self,
        options: LightOptions,
        *,
        backward_begins: Callable[[int], None],
        over_limit: Callable[[], None],
        before_change: Callable[[list[torch.Tensor]], None] | None = None,
    ) -> None:
        self.scope = Scope(stacks=False, backward=options.backward)
        notebook: Any = LightNotebook()
        self.notebook = notebook
        self.fast = fast_calls()
        self._frames_to_api = 3 if self.fast is None else 2  # the mode of the extension has no frame
        self.state = thread_state(self.fast)
        self.stacks = torch_stacks(self.notebook, self.fast)
        self.selection = Selection(self.scope)
        self.desk = SimpleNamespace(settle=self._send)
        """What a compiled region asks for before it runs: unseen code may change what waits to be read."""
        self.looks = LookTables()
        self.entries: list[Entry] = []
        self.sites: list[Site] = []
        self._held_code: list[CodeType | None] = []
        self._known: dict[Any, int] = {}
        self._over_limit, self._backward_begins = over_limit, backward_begins
        self._before_change = before_change
        self.ref_type: Any = getattr(self.fast, "LightRef", None)
        self.outside = 0
        """How many calls were seen that cannot be made again, and whose part in the step is needed to compute it."""
        self.received: dict[int, list[tuple[Any, torch.Tensor]]] = {}
        """As in a Tape."""
        self._looking = self._resting = False
        self._scaler: Any = None
        self._task = -1
        self.epoch = 0
        self.rotation, self.turn, self.round = 1, 0, 0
        self.whole = options.whole
        self.held, self.limit = 0, 1 << 62
        self.nanoseconds = 0
        self.alarm = False
        self.window = WINDOW
        self._recent: deque[tuple[list[Any], int]] = deque()
        self._passed: deque[tuple[list[Any], tuple[int, int, int]]] = deque(maxlen=FEW_PASSED)
        self._backward = options.backward
        self.recorder = self._make_recorder()
        self._next_number = notebook.next_call if self.recorder is None else self.recorder.take_number

    def _make_recorder(self) -> Any:
        reader, looks = light.reader_address(), fast_looks()
        if self.fast is None or looks is None or not reader or self.fast.ask_doors() is None:
            return None
        recorder = self.fast.LightRecorder(
            reader,
            notebook=self.notebook,
            threads=self.state,
            entries=self.entries,
            enter_site=self.enter_site,
            finder=self.stacks.finder,
            elsewhere=self.looks.add_here,
            table_full=self.looks.table_full,
            over_limit=self._over_limit,
            backward_begins=self._backward_begins,
            look=looks,
            no_torch_function=torch._C.DisableTorchFunction,
            waiting=self.looks.waiting,
            device_full=self.looks.send,
            stream_of=getattr(torch._C, "_cuda_getCurrentRawStream", None),
            kernel_depth=kernel_depth,
            profiling=profiling,
            layout_of=layout_of,
            before_change=self._about_to_change,
            autocast=torch.is_autocast_enabled,
            autocast_types=autocast_types(),
            state_of_thread=state_of_thread,
        )
        recorder.backward = int(self._backward)
        recorder.limit, recorder.window, recorder.whole = self.limit, self.window, self.whole
        recorder.open_autocast(autocast_door())
        self.looks.attach(recorder)
        return recorder

    # What both ways share: the fields lie in the recorder where there is one.

    @property
    def looking(self) -> bool:
        return self._looking

    @looking.setter
    def looking(self, looking: bool) -> None:
        self._looking = looking
        if self.recorder is not None:
            self.recorder.looking = looking and not self._resting

    @property
    def resting(self) -> bool:
        """Whether the calls of this step are left out."""
        return self._resting

    @resting.setter
    def resting(self, resting: bool) -> None:
        self._resting = resting
        self.looking = self._looking

    @property
    def scaler(self) -> Any:
        return self._scaler

    @scaler.setter
    def scaler(self, trait: Any) -> None:
        self._scaler = trait
        if self.recorder is not None:
            self.recorder.scaler = trait

    @property
    def backward_wanted(self) -> bool:
        """Whether gradients are listened for at the nodes of graphs."""
        return self._backward

    @backward_wanted.setter
    def backward_wanted(self, wanted: bool) -> None:
        self._backward = wanted
        if self.recorder is not None:
            self.recorder.backward = int(wanted)

    def new_step(self, turn: int, rotation: int) -> None:
        """Begins to count the calls of a step."""
        self.epoch += 1
        owner = self if self.recorder is None else self.recorder
        owner.epoch, owner.turn, owner.rotation, owner.nanoseconds = self.epoch, turn % rotation, rotation, 0
        owner.round = turn // rotation

    @property
    def taping(self) -> bool:
        """Whether calls are put on the tape and not held."""
        return self.recorder is not None and bool(self.recorder.taping)

    def _about_to_change(self, trait: Trait, args: Any, kwargs: dict[str, Any] | None) -> None:
        if self._before_change is None:
            return
        taped, ref = self.recorder.taped, self.ref_type
        changed = [one for one in written_by(trait, args, kwargs) if type(taped(one)) is not ref]
        if changed:
            self._before_change(changed)

    @property
    def own(self) -> Any:
        """What holds ``held``, ``limit`` and ``nanoseconds``."""
        return self if self.recorder is None else self.recorder

    def enter_site(self, trait: Any, nth: int, module: int, context: int, code: CodeType | None) -> int:
        """Numbers a place in the program that was not seen before."""
        self._held_code.append(code)  # its address stands for it, and must be given to no other
        text = ("", "optimizer", "backward")[context]
        if context == IN_BACKWARD and recomputing():
            text = "recompute"
        stack = self.stacks.here(2, NONE) if code is not None else NONE
        self.sites.append(Site(trait, nth, module, text, stack))
        return len(self.sites) - 1

    def _site(self, trait: Any, frame: Any) -> int:
        if trait.step != self.epoch:
            trait.step, trait.count = self.epoch, 0
        nth = trait.count
        trait.count = nth + 1
        modules = self.state.modules
        module = modules[-1][0] if modules else NONE
        context = IN_OPTIMIZER if self.state.optimizer != NONE else IN_BACKWARD if _graph_task() != -1 else NO_CONTEXT
        key = (id(trait), nth, module, context, id(frame.f_code), frame.f_lasti)
        site = self._known.get(key)
        if site is None:
            site = self._known[key] = self.enter_site(trait, nth, module, context, frame.f_code)
        return site

    def call(self, trait: Trait, function: Callable[..., Any], args: Any, kwargs: dict[str, Any] | None) -> Any:
        """Makes a call and holds on to it. Faults of ours never reach the caller."""
        return made_between(self.opened(trait, args, kwargs, self._frames_to_api), function, args, kwargs)

    call_unrecorded = call

    def opened(self, trait: Trait, args: Any, kwargs: dict[str, Any] | None, frames: int = 1) -> Closing | None:
        """As ``watch.Watch.opened``."""
        return self._opened(trait, args, kwargs, sys._getframe(frames)) if self._looking else None

    opened_unrecorded = opened

    def call_outside(
        self,
        trait: Trait,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        skip_first: bool = False,
        wait: bool = False,
        frames: int = 2 + FRAMES,
        unless: Callable[[], bool] | None = None,
    ) -> Any:
        """Like ``call``, for functions that are entered with the modes on; they stay on inside. So many ``frames`` up
        the program made the call. A call that another one says too (``unless``) costs little here, and is kept."""
        if not self._looking or self._resting:
            return function(*args, **kwargs)

        def run(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            if wait and hasattr(result, "wait"):
                result.wait()
            return result

        shown = args[1:] if skip_first else args
        return made_between(self._opened(trait, shown, kwargs, sys._getframe(frames)), run, args, kwargs)

    def _opened(self, trait: Trait, args: Any, kwargs: Any, frame: Any) -> Closing | None:
        try:
            with Unseen():
                call = self._begin(trait, args, kwargs, frame)
        except Exception as error:
            self.notebook.trouble(error)
            return None
        return partial(self._closed, trait, call, args, kwargs)

    def _closed(
        self, trait: Trait, call: tuple[Any, ...], args: Any, kwargs: Any, result: Any, error: BaseException | None
    ) -> None:
        if error is not None:
            given = Holding().given(args, kwargs)
            self._add((*call[:3], *given, f"{type(error).__name__}: {error}", call[3], None, b"", None, None))
        elif self._looking:
            try:
                with Unseen():
                    self._end(trait, call, args, kwargs, result)
            except Exception as trouble:
                self.notebook.trouble(trouble)

    def _begin(self, trait: Trait, args: Any, kwargs: Any, frame: Any) -> tuple[Any, ...]:
        inputs = leaves_of(args, kwargs)
        site = self._site(trait, frame)
        number = self._next_number()
        mutates = may_change(trait, args, kwargs)
        if mutates and inputs and not self.looks.is_later(inputs[0]):
            in_place = not trait.hides_all and not trait.hidden and told(inputs[0], "requires_grad")
            if in_place or trait.name in SUMMED_IN_PLACE:
                self.looks.add(inputs[0], number, site, INPUT, 0, Sink.NONE)
        return number, site, self.state.number, versions_of(inputs), inputs, mutates

    def _end(self, trait: Trait, call: tuple[Any, ...], args: Any, kwargs: Any, result: Any) -> None:
        number, site, thread, before, inputs, mutates = call
        outputs = leaves_of((result,), None)
        if not inputs and not outputs:
            return
        owner = self.own
        places = {place_of(tensor) for tensor in inputs}
        for leaf, tensor in enumerate(outputs):
            fresh = place_of(tensor) not in places
            if fresh:
                owner.held += bytes_of(tensor)
            if fresh or mutates:  # else it is what another call made, and has its turn there
                self._look_in_turn(tensor, number, site, OUTPUT, leaf)
        if trait.hides_all:  # what a collective gave nobody else says
            for leaf, position in enumerate(sorted(written_unseen(trait, args, kwargs, inputs)), len(outputs)):
                if not self.looks.is_later(inputs[position]):
                    self.looks.add(inputs[position], number, site, OUTPUT, leaf, Sink.NONE)
        if trait is self._scaler and len(args) > 1:
            self.looks.add(args[1], number, site, INPUT, 1, Sink.SCALER)
        if self._backward:
            self._await_gradients(number, site, inputs, outputs, mutates)
        after = versions_of(inputs) if mutates else None
        holding = Holding()
        own = *holding.given(args, kwargs), holding.held(result, made=True)
        self._add((number, site, thread, *own, before, after, versions_of(outputs), None, None))
        if self.taping:
            self._hold_outside(trait, number, args, kwargs, inputs, outputs)

    def _hold_outside(
        self, trait: Trait, number: int, args: Any, kwargs: Any, inputs: list[torch.Tensor], outputs: list[torch.Tensor]
    ) -> None:
        """A call on a tape that cannot be made again: what it made is held, and so is what it received from others."""
        places = {place_of(tensor) for tensor in inputs}
        self.outside += any(told(tensor, "requires_grad") for tensor in outputs)
        for leaf, tensor in enumerate(outputs):
            self.recorder.made(number, leaf, tensor, place_of(tensor) not in places)
        if not trait.hides_all:
            return
        for position in sorted(written_unseen(trait, args, kwargs, inputs)):
            ref = self.recorder.taped(inputs[position])
            if type(ref) is self.ref_type and bytes_of(inputs[position]) <= MOST_SAVED:
                self.received.setdefault(number, []).append((ref, inputs[position].detach().clone()))
            elif type(ref) is self.ref_type:
                self.outside += 1

    def _look_in_turn(self, tensor: torch.Tensor, number: int, site: int, part: int, leaf: int) -> None:
        owner = self.own
        if site % owner.rotation == owner.turn:
            of_large = None if owner.whole else owner.round + site
            self.looks.add_here(tensor, number, site, part, leaf, Sink.NONE, of_large=of_large)

    def _add(self, entry: Entry) -> None:
        self.entries.append(entry)
        if self.own.held > self.own.limit:
            self._over_limit()

    def _await_gradients(self, number: int, site: int, inputs: list[Any], outputs: list[Any], mutates: bool) -> None:
        given = set() if mutates else {id(tensor) for tensor in inputs}
        nodes: dict[Any, list[tuple[int, int]]] = {}
        for leaf, tensor in enumerate(outputs):
            if not told(tensor, "requires_grad") or id(tensor) in given:
                continue
            if (node := told(tensor, "grad_fn")) is not None:
                nodes.setdefault(node, []).append((told(tensor, "output_nr"), leaf))
        for node, places in nodes.items():
            node.register_prehook(_Hook(self, number, site, tuple(places)))

    def arrived(self, forward: int, site: int, places: tuple[tuple[int, int], ...], gradients: tuple[Any, ...]) -> None:
        """Gradients have reached the outputs of a call."""
        task = _graph_task()
        if task != self._task:
            self._task = task
            self._backward_begins(forward)
        number = self._next_number()
        versions, here, holder = [], 0, [gradients]
        for position, leaf in places:
            gradient = gradients[position]
            versions.append(-1 if gradient is None else _version(gradient))
            if gradient is None:
                continue
            here += bytes_of(gradient)
            if self._is_passed_on(gradient, holder):
                continue
            if self.looks.is_later(gradient):
                self._look_in_turn(gradient, number, site, GRADIENT, leaf)
            else:
                turn = site % self.rotation == self.turn
                self.alarm |= self.looks.read_here(gradient, number, site, GRADIENT, leaf, turn)
        self.held += here
        if not any(gradients[at] is not None and self.looks.is_later(gradients[at]) for at, _ in places):
            self._keep_recent(holder, here)
        packed = array("q", versions).tobytes()
        self._add((number, site, self.state.number, forward, holder, places, packed))

    def _is_passed_on(self, gradient: torch.Tensor, holder: list[Any]) -> bool:
        """Whether a gradient has arrived before, at another call, and is still held: then it has been seen. Most are
        handed on from call to call as they are."""
        plain = plain_of(gradient)
        if plain is None:
            return False
        mark = (plain.data_ptr(), _version(plain), plain.numel())
        if any(known == mark and one and one is not holder for one, known in self._passed):
            return True
        self._passed.append((holder, mark))
        return False

    def _keep_recent(self, holder: list[Any], size: int) -> None:
        if self.alarm:
            return
        while self._recent and sum(one[1] for one in self._recent) + size > self.window:
            oldest, freed = self._recent.popleft()
            oldest.clear()
            self.held -= freed
        self._recent.append((holder, size))

    def end_recent(self) -> None:
        """A step has ended: whoever holds its entries lets go of gradients."""
        if self.recorder is not None:
            self.recorder.end_recent()
        self._recent.clear()
        self._passed.clear()
        self.alarm = False

    def _send(self) -> None:
        self.looks.send()


class _Hook:
    """What a node calls before it runs."""

    __slots__ = ("_number", "_places", "_site", "_watch")

    def __init__(self, watch: LightWatch, number: int, site: int, places: tuple[tuple[int, int], ...]) -> None:
        self._watch, self._number, self._site, self._places = watch, number, site, places

    def __call__(self, gradients: tuple[Any, ...]) -> None:
        watch = self._watch
        if not watch.looking:
            return
        try:
            with Unseen():
                watch.arrived(self._number, self._site, self._places, gradients)
        except Exception as error:
            watch.notebook.trouble(error)
