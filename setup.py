"""The C extensions; everything else about the package is in pyproject.toml.

They are optional: without a compiler the package installs and works, with numpy and Python in their place, slower.
"""

from __future__ import annotations

import sysconfig
from pathlib import Path

from setuptools import Extension, setup

FOLDER = Path("src/trueline/numerics")
FRAMEWORKS_FOLDER = Path("src/trueline/frameworks")
TORCH_FOLDER = Path("src/trueline/frameworks/torch")

# One build serves every Python from 3.10 on, except those without the global lock, which have no stable interface.
STABLE = not sysconfig.get_config_var("Py_GIL_DISABLED")

setup(
    package_dir={"": "src"},
    ext_modules=[
        Extension(
            "trueline.numerics._kernels",
            sources=[str(FOLDER / "_kernels.c")],
            depends=sorted(str(header) for header in FOLDER.glob("_kernels*.h")),
            define_macros=[("Py_LIMITED_API", "0x030A0000")] if STABLE else [],
            extra_compile_args=["-O3", "-std=gnu11", "-fno-math-errno", "-fno-trapping-math"],
            libraries=["m"],
            py_limited_api=STABLE,
            optional=True,
        ),
        Extension(
            "trueline.frameworks._depth",
            sources=[str(FRAMEWORKS_FOLDER / "_depth.c")],
            depends=[str(FRAMEWORKS_FOLDER / "_depth.h")],
            define_macros=[("Py_LIMITED_API", "0x030A0000")] if STABLE else [],
            extra_compile_args=["-O2", "-std=gnu11"],
            py_limited_api=STABLE,
            optional=True,
        ),
        Extension(
            "trueline.frameworks.torch._look",
            sources=[str(TORCH_FOLDER / "_look.c")],
            depends=sorted(str(header) for header in TORCH_FOLDER.glob("_*.h")),
            define_macros=[("Py_LIMITED_API", "0x030A0000")] if STABLE else [],
            extra_compile_args=["-O2", "-std=gnu11"],
            py_limited_api=STABLE,
            optional=True,
        ),
        Extension(
            "trueline.frameworks.torch._calls",
            sources=[str(TORCH_FOLDER / "_calls.c")],
            depends=[*sorted(str(header) for header in TORCH_FOLDER.glob("_*.h")), str(FRAMEWORKS_FOLDER / "_depth.h")],
            define_macros=[("Py_LIMITED_API", "0x030A0000")] if STABLE else [],
            extra_compile_args=["-O2", "-std=gnu11"],
            py_limited_api=STABLE,
            optional=True,
        ),
    ],
    options={"bdist_wheel": {"py_limited_api": "cp310"}} if STABLE else {},
)
