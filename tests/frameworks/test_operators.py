"""What a file may name is a closed table: all that we know is in it, and nothing in it reaches out of a call."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from trueline.formats.configs import ConfigError, parse_config
from trueline.ops.known import known_apis

SAMPLE = Path(__file__).resolve().parents[3] / "shared" / "data" / "api_configs_sample.txt"

REACHING = frozenset(
    """
    open exec eval compile __import__ import_module importlib os sys subprocess ctypes pickle socket urllib shutil Path
    tempfile system popen globals setattr delattr load save set_num_threads set_default_dtype set_flags seed manual_seed
    set_rng_state
    """.split()
)
"""Names that a function uses where it reaches out of its call."""

HARMLESS = {
    "torch.nn.functional.interpolate": "importlib: imports a module of torch whose name it writes itself",
    "torch.nn.functional.pad": "importlib: imports a module of torch whose name it writes itself",
    "torch.nn.functional.max_pool3d_with_indices": "importlib: imports a module of torch whose name it writes itself",
    "torch.functional.stft": "importlib: imports a module of torch whose name it writes itself",
    "paddle.tensor.creation.tensor": "re.compile, of a pattern that it writes itself",
    "paddle.tensor.einsum.plan_broadcast": "evaluates a product of the names op0, op1, … that it makes itself",
    "paddle.tensor.einsum.einsum": "os.environ: asks for a flag",
    "paddle.base.framework._cuda_ids": "os.environ: asks for a flag",
    "paddle.base.framework._xpu_ids": "os.environ: asks for a flag",
    "paddle.base.framework._custom_device_ids": "os.environ: asks for a flag",
}


def table(framework: str) -> tuple[dict[str, Callable[..., Any]], Callable[[str], Any]]:
    pytest.importorskip(framework)
    if framework == "torch":
        from trueline.frameworks.torch import operators
    else:
        from trueline.frameworks.paddle import operators  # type: ignore[no-redef]
    found = {name: operators.operator_named(name) for name in operators.places()}
    return {name: item for name, item in found.items() if item is not None}, operators.operator_named


@pytest.mark.parametrize("framework", ["torch", "paddle"])
def test_all_operators_that_are_known_here_are_in_the_table(framework: str) -> None:
    _, named = table(framework)
    wanted = known_apis(framework)
    assert len(wanted) > 900
    assert [api for api in sorted(wanted) if named(api) is None] == []


@pytest.mark.skipif(not SAMPLE.is_file(), reason=f"reads {SAMPLE}, which a clone does not have")
def test_all_operators_of_real_configs_are_in_the_table() -> None:
    _, named = table("paddle")
    apis = set()
    for line in SAMPLE.read_text(encoding="utf-8").splitlines():
        try:
            apis.add(parse_config(line).api)
        except ConfigError:
            continue
    assert len(apis) > 600
    # It lists the names of attributes: no tensor goes out of it, and none ever could be compared.
    assert sorted(api for api in apis if named(api) is None) == ["paddle.Tensor.__dir__"]


@pytest.mark.parametrize("framework", ["torch", "paddle"])
def test_nothing_in_the_table_is_a_module_or_a_class(framework: str) -> None:
    found, _ = table(framework)
    wrong = {name for name, item in found.items() if isinstance(item, types.ModuleType | type) or not callable(item)}
    assert wrong == set()


def functions_used(function: Any, depth: int = 4) -> Iterator[types.FunctionType]:
    """A Python function and those that it calls by their names."""
    seen: set[int] = set()
    waiting = [(function, 0)]
    while waiting:
        one, level = waiting.pop()
        one = getattr(one, "__wrapped__", one)
        if not isinstance(one, types.FunctionType) or id(one) in seen or level > depth:
            continue
        seen.add(id(one))
        yield one
        waiting += [(one.__globals__.get(name), level + 1) for name in names_in(one.__code__)]


def names_in(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from names_in(constant)


@pytest.mark.parametrize("framework", ["torch", "paddle"])
def test_no_function_of_the_table_reaches_out_of_its_call(framework: str) -> None:
    found, _ = table(framework)
    reaching: dict[str, set[str]] = {}
    for function in found.values():
        for one in functions_used(function):
            used = REACHING & set(names_in(one.__code__))
            if used:
                reaching[f"{one.__module__}.{one.__qualname__}"] = used
    assert {name: used for name, used in reaching.items() if name not in HARMLESS} == {}


def test_that_test_can_fail() -> None:
    def reads(path: str) -> None:
        sys.stdout.write(path)

    assert [REACHING & set(names_in(one.__code__)) for one in functions_used(reads)] == [{"sys"}]


def test_every_builtin_of_torch_has_a_schema_of_tensors_and_options() -> None:
    torch = pytest.importorskip("torch")
    from trueline.frameworks.torch.operators import is_operator

    def schemas(item: Any) -> list[Any]:
        return list(torch._C._jit_get_schemas_for_operator(f"aten::{item.__name__}"))

    builtins = {name: item for name, item in table("torch")[0].items() if isinstance(item, types.BuiltinFunctionType)}
    without = {name for name, item in builtins.items() if not any(map(is_operator, schemas(item)))}
    # Tensors of plain values, and other names of products of matrices.
    assert without <= {f"torch.{name}" for name in ("tensor", "as_tensor", "asarray", "spmm", "dsmm", "hsmm", "saddmm")}


HOSTILE = """
    torch.os.system torch.builtins.eval torch.functional.torch.os.system torch.load torch.save torch.from_file
    torch.hub.load torch.jit.load torch.jit.CompilationUnit torch.compile torch.vmap torch.cond torch.frombuffer
    torch.from_numpy torch._from_blob torch.set_num_threads torch.manual_seed torch.use_deterministic_algorithms
    torch.Tensor.apply_ torch.Tensor.map_ torch.Tensor.register_hook torch.Tensor.__class__ torch.Tensor.__reduce_ex__
    torch.Tensor.__setstate__ torch.Tensor.data_ptr torch.Tensor.set_ torch.Tensor.numpy torch.Tensor.__init_subclass__
    torch.ops.aten.from_file torch.ops.aten.save torch.ops.debugprims.load_tensor
    torch.ops.profiler._record_function_enter
    torch.ops.load_library torch.ops.aten.__class__ torch.ops.c10d.allreduce_ torch.ops._c10d_functional.all_reduce
    torch.classes.load_library torch._C._jit_set_num_profiled_runs torch.nn.functional.torch.os.system
    torch.nn.functional.handle_torch_function torch.nn.init.math.sqrt torch.overrides.handle_torch_function
    torch.utils.cpp_extension.load_inline torch.distributed.init_process_group torch._import_dotted_name
    torch._dynamo.optimize torch.fork torch.parse_ir torch.import_ir_module torch._unsafe_index
    torch.sparse.as_sparse_gradcheck torch torch. .torch.relu torch..relu torch.relu. torch.relu.__call__
    paddle.os.system paddle.load paddle.save paddle.vision.ops.read_file paddle._C_ops.read_file
    paddle._C_ops.check_numerics paddle._C_ops.run_program paddle._C_ops._run_python_op paddle._C_ops.print
    paddle._legacy_C_ops.save paddle._legacy_C_ops.load paddle.base.core.Scope paddle.set_flags paddle.compat.seed
    paddle.compat.enable_torch_proxy paddle.set_printoptions paddle.set_device paddle.enable_static paddle.hub.load
    paddle.jit.load paddle.utils.cpp_extension.load paddle.distributed.all_reduce paddle.Tensor.register_hook
    paddle.Tensor.set_value paddle.Tensor.__class__ paddle.Tensor.__reduce__ paddle.Tensor.__getattribute__
    paddle.nn.Linear paddle.monkey_patch_math_tensor paddle.static.load paddle.inference.create_predictor
    """.split()


@pytest.mark.parametrize("api", HOSTILE)
def test_what_reaches_out_of_a_call_is_no_operator(api: str) -> None:
    framework = "paddle" if "paddle" in api else "torch"
    _, named = table(framework)
    assert named(api) is None


@pytest.mark.parametrize("framework", ["torch", "paddle"])
def test_asking_for_a_name_imports_nothing(framework: str) -> None:
    found, named = table(framework)
    before = set(sys.modules)
    assert found and named(f"{framework}.utils.bottleneck") is None
    assert named(f"{framework}.incubate.autograd.primapi") is None
    assert set(sys.modules) == before


def test_a_schema_with_a_path_is_no_operator() -> None:
    torch = pytest.importorskip("torch")
    from trueline.frameworks.torch.operators import is_operator

    parsed = torch._C.parse_schema
    assert is_operator(parsed("x::y(Tensor self, int[] dims, float? scale=None, *, str? reduce=None) -> Tensor[]"))
    assert not is_operator(parsed("x::y(str filename, int size) -> Tensor"))
    assert not is_operator(parsed("x::y(Tensor self, str[] names) -> Tensor"))
    assert not is_operator(parsed("x::y(Tensor self, Storage source) -> Tensor"))
    assert not is_operator(parsed("x::y(int size) -> int"))


def test_a_declaration_of_paddle_with_a_path_is_no_operator() -> None:
    pytest.importorskip("paddle")
    from trueline.frameworks.paddle.operators import declared_kernels, is_operator

    assert {"conv2d", "matmul", "add_", "adamw_", "layer_norm"} <= declared_kernels()
    listed = 'const std::vector<int>& strides = {1, 1}, const std::string& data_format = "N,C"'
    assert is_operator(f"const Tensor& x, {listed}")
    assert not is_operator('const std::string& filename = "", DataType dtype = DataType::UINT8')
    assert not is_operator("const Tensor& x, int ring_id = 0")
    assert not is_operator("void* pointer, const Tensor& x")
    assert not is_operator("")
