"""Which backends there are, what files they run, and what is said where one is not to be had."""

from __future__ import annotations

import importlib.util
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from trueline.errors import UsageError
from trueline.frameworks.exports import (
    BACKENDS,
    Settings,
    Unsupported,
    artifacts_in,
    backend_named,
    exporter,
    require_packages,
)


def test_a_backend_is_found_by_its_name() -> None:
    assert backend_named("onnx") is BACKENDS["torch:onnx"]
    assert backend_named("torch:eager") is BACKENDS["torch:eager"]
    assert backend_named("eager", "paddle") is BACKENDS["paddle:eager"]
    with pytest.raises(UsageError, match="torch:eager or paddle:eager"):
        backend_named("eager")
    with pytest.raises(UsageError, match="known: torch:eager"):
        backend_named("tensorrt")


def test_settings_are_checked() -> None:
    assert Settings(precision="fp16").precision == "float16"
    with pytest.raises(Unsupported, match="quantised"):
        Settings(precision="int8")
    with pytest.raises(UsageError, match="int32"):
        Settings(precision="int32")
    with pytest.raises(UsageError, match="unknown dtype"):
        Settings(precision="fp31")
    with pytest.raises(UsageError, match="negative"):
        Settings(threads=-1)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    there = importlib.util.find_spec

    def find(name: str, *more: Any) -> Any:
        return None if name in ("onnxruntime", "torch") else there("json" if name.startswith("onnx") else name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", find)
    with pytest.raises(Unsupported, match=r"pip install onnxruntime$"):
        require_packages(BACKENDS["torch:onnx"])
    with pytest.raises(Unsupported, match="torch is not installed"):
        exporter("torch")


def archive(path: Path, *names: str) -> None:
    with zipfile.ZipFile(path, "w") as made:
        for name in names:
            made.writestr(name, b"")


def test_exported_files_are_told_by_their_content(tmp_path: Path) -> None:
    archive(tmp_path / "checkpoint.pt", "archive/data.pkl", "archive/version")
    archive(tmp_path / "graph.pt", "graph/code/__torch__.py", "graph/constants.pkl", "graph/data.pkl")
    archive(tmp_path / "package.pt2", "package/data/aotinductor/model/a.so")
    (tmp_path / "broken.pt2").write_bytes(b"PK\x03\x04 broken")
    (tmp_path / "net.onnx").write_bytes(b"")
    for name in ("inference.pdmodel", "inference.pdiparams", "other.pdmodel"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "inference.json").write_text(json.dumps({"base_code": {"magic": "pir"}}), encoding="utf-8")
    (tmp_path / "other.json").write_text("{}", encoding="utf-8")
    found = {one.path.name: [row.key for row in one.backends] for one in artifacts_in(tmp_path)}
    assert found == {
        "graph.pt": ["torch:script"],
        "package.pt2": ["torch:aoti"],
        "net.onnx": ["torch:onnx"],
        "inference.pdmodel": ["paddle:inference-legacy", "paddle:jit-legacy"],
        "inference.json": ["paddle:inference", "paddle:jit"],
    }
    assert artifacts_in(tmp_path / "nowhere") == []
