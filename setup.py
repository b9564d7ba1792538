"""The C extension; everything else about the package is in pyproject.toml.

The extension is optional: without a compiler the package installs and works, with numpy in its place, slower.
"""

from __future__ import annotations

from pathlib import Path

from setuptools import Extension, setup

FOLDER = Path("src/trueline/numerics")

setup(
    ext_modules=[
        Extension(
            "trueline.numerics._kernels",
            sources=[str(FOLDER / "_kernels.c")],
            depends=sorted(str(header) for header in FOLDER.glob("_kernels*.h")),
            extra_compile_args=["-O3", "-std=gnu11", "-fno-math-errno", "-fno-trapping-math", "-Wall", "-Wextra"],
            libraries=["m"],
            py_limited_api=True,
            optional=True,
        )
    ],
    package_dir={"": "src"},
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
