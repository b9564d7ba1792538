"""The operators that a file may name: a closed table, built once from what Paddle itself declares.

A Run, a config line, a foreign dump or a plan holds the names of calls. Which function such a name stands for is looked
up here and nowhere else, in a dictionary: no attribute is ever taken from a module because a file says so, and no
module is imported. What is in the table is there for a reason of Paddle's own:

* a public function that is defined where Paddle writes its operators (``_HOMES``) and takes no file name;
* a method or property of tensors that computes (``names.tensor_methods``), and the few that are listed below;
* what the catalogue and the mapping name;
* a kernel of ``paddle._C_ops`` that Paddle's C++ headers declare with tensors, numbers and options alone. What takes a
  path, a message, a program or a ring of ranks is left out by what it is.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import paddle

from trueline.frameworks.paddle import names
from trueline.ops.known import known_apis

Function = Callable[..., Any]

_HOMES = re.compile(
    r"""paddle\.(
    tensor\.(attribute|compat_softmax|creation|einsum|linalg|logic|manipulation|math|ops|random|search|stat)
    | base\.dygraph\.generated_tensor_methods_patch
    | nn\.(functional|quant)(\..+)? | linalg | fft | signal | special | sparse(\..+)? | geometric(\..+)?
    | vision\.ops | text\.viterbi_decode | audio\.functional\.(functional|window) | metric\.metrics
    | compat(\.nn\.functional(\..+)?)? | incubate\.(nn|operators|tensor)(\..+)?
    )""",
    re.VERBOSE,
)
"""The modules in which Paddle defines operators."""

_NO_OPERATORS = {
    "paddle.monkey_patch_generated_methods_for_tensor": "changes the class of tensors",
    "paddle.compat.seed": "changes the state of all generators",
    "paddle.create_parameter": "makes a parameter of the running program",
    "paddle.nn.functional.sdp_kernel": "changes which kernels are chosen from then on",
}
"""Functions that stand among operators and are none, with the reason."""

_FILES = frozenset({"filename", "file_name", "file", "path", "file_path", "url", "save_dir", "root"})
"""Names of parameters that say where to read or write."""

_METHODS = """
    __bool__ __complex__ __float__ __index__ __int__ __len__ __nonzero__ dim element_size is_complex is_contiguous
    is_empty is_floating_point is_integer is_same_shape item ndimension tolist
    """.split()
"""Methods that only tell something about a tensor, but are operators of other frameworks."""

_FUNCTIONS: tuple[tuple[str, Any, str], ...] = (
    ("paddle.nn.utils", paddle.nn.utils, "parameters_to_vector vector_to_parameters"),
)
"""Functions of tensors that are defined elsewhere."""

_OUT_OF_REACH = frozenset({"backward", "register_hook", "set_value", "data_ptr", "gradient", "clear_grad",
                           "clear_gradient"})  # fmt: skip
"""Depend on more than their arguments, or reach out of the call."""


def operator_named(api: str) -> Function | None:
    """The function of an API name such as ``paddle.Tensor.add`` or ``paddle.Tensor.T`` (a property); None where
    Paddle declares no such operator."""
    name = api.removesuffix(".__get__")
    place = places().get(name)
    if place is None:
        return None
    return _reader(place[1]) if name in _properties() else getattr(*place, None)


Place = tuple[Any, str]
"""A module of Paddle's or its class of tensors, and the name of an operator there."""


@cache
def places() -> dict[str, Place]:
    """Where all operators stand, by all the names that they have."""
    found = {f"{prefix}.{name}": (place, name) for prefix, place, name in _all()}
    return {
        name: place
        for name, place in found.items()
        if name not in _NO_OPERATORS and place[1] not in _OUT_OF_REACH
    }


def _all() -> Iterator[tuple[str, Any, str]]:
    namespaces = dict(names.namespaces())
    for prefix, place in namespaces.items():
        yield from ((prefix, place, name) for name in _public_functions(prefix))
    for prefix, place, listed in _FUNCTIONS:
        yield from ((prefix, place, name) for name in listed.split())
    methods = [name for name, method in names.tensor_methods().items() if takes_no_file(method)]
    for name in (*methods, *_METHODS, *names.tensor_properties()):
        yield "paddle.Tensor", paddle.Tensor, name
    yield from _kernels()
    # What the tables of operators name, whatever is there in this version.
    for api in known_apis("paddle"):
        prefix, _, name = api.rpartition(".")
        if prefix in namespaces:
            yield prefix, namespaces[prefix], name


@cache
def _properties() -> frozenset[str]:
    return frozenset(f"paddle.Tensor.{name}" for name in names.tensor_properties())


@cache
def _reader(name: str) -> Function:
    def read(tensor: Any) -> Any:
        return getattr(tensor, name)

    return read


def _public_functions(prefix: str) -> Iterator[str]:
    declared = declared_kernels()
    for name, function in names.members(prefix):
        home = getattr(function, "__module__", "") or ""
        builtin = inspect.isbuiltin(function)
        if (function.__name__ in declared if builtin else _HOMES.fullmatch(home)) and takes_no_file(function):
            yield name


def takes_no_file(function: Function) -> bool:
    """Whether no parameter of a function says where to read or write."""
    try:
        return not _FILES & set(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # a builtin one, of which its declaration says what it takes
        return True


def _kernels() -> Iterator[tuple[str, Any, str]]:
    declared = declared_kernels()
    for module, functions in names.kernels().items():
        place = sys.modules[module]
        for name in functions:
            forward = _forward_of(name)
            if name in declared or forward in declared or f"{forward}_" in declared:
                yield module, place, name


def _forward_of(kernel: str) -> str:
    """``conv2d`` for ``conv2d_grad`` and ``conv2d_double_grad_``: the headers declare the forward alone."""
    return re.sub(r"(_double|_triple)?_grad_?$", "", kernel)


_HEADERS = {"api.h": "", "fused_api.h": "", "sparse_api.h": "sparse_"}
"""Where kernels are declared, with what Python puts before their names."""
_DECLARATION = re.compile(r"^PADDLE_API\s+.+?\s(\w+)\((.*)\);\s*$", re.MULTILINE)
_PARAMETER = re.compile(
    r"((?:const )?[\w:]+(?:<[\w:<>,* ]*>)?[&*]?) (\w+)(?: = (?:\{[^}]*\}|\"[^\"]*\"|[^,\"{]*))?(?:, |$)"
)
_PLAIN_TYPE = re.compile(
    r"(const )?(paddle::optional<|std::vector<|std::tuple<)*"
    r"((paddle::)?Tensor\*?|(phi::)?Scalar|IntArray|int|int64_t|float|double|bool|DataType|Place)[>&, \w:*]*"
)
OPTIONS = frozenset(
    """
    UPLO act_method act_type activation activation_type algo bias_type_str candidate_activation cell_activation
    chunk_scheme code_type compute_dtype curve data_format data_layout dropout_implementation driver equation
    fuse_activation gate_activation interp_method key mask_type_str match_type message_op mode norm_type normalization
    output_dtype padding_algorithm padding_mode pooling_type pooltype reduce reduce_op reduction regularization_method
    rng_name trans uplo weight_dtype
    """.split()
)
"""Parameters whose text chooses between ways to compute. Any other text may be a path or a name of anything."""
_RANKS = frozenset({"ring_id", "nranks", "peer", "rank"})
"""Parameters of kernels that talk to other processes."""


@cache
def declared_kernels() -> frozenset[str]:
    """The kernels that Paddle's headers declare with tensors, numbers and options alone; none where it came without
    headers."""
    folder = Path(paddle.__file__).parent / "include" / "paddle" / "phi" / "api" / "include"
    found: set[str] = set()
    for header, prefix in _HEADERS.items():
        path = folder / header
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        found.update(prefix + name for name, parameters in _DECLARATION.findall(text) if is_operator(parameters))
    return frozenset(found)


def is_operator(parameters: str) -> bool:
    """Whether a declaration's parameters are those of an operator."""
    position = 0
    while position < len(parameters):
        match = _PARAMETER.match(parameters, position)
        if match is None or match[2] in _RANKS:
            return False
        text = match[1] == "const std::string&"
        if not (match[2] in OPTIONS if text else _PLAIN_TYPE.fullmatch(match[1])):
            return False
        position = match.end()
    return bool(parameters)
