"""The WebAssembly module that is checked in is built from the sources."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from importlib.metadata import version
from pathlib import Path

import pytest
from tools import build_wasm

from probprop.web import kernel_module, text_of

RECORD = json.loads(text_of("kernel.json"))


def test_it_was_built_from_these_sources() -> None:
    assert RECORD["sources"] == build_wasm.hash_of_sources(), (
        "cpp/ has changed since src/probprop/web/kernel.wasm was built: run make generated."
    )


def test_it_is_the_one_that_was_built() -> None:
    assert RECORD["module"] == hashlib.sha256(kernel_module()).hexdigest()


def test_the_hash_feels_every_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {path.name for path in build_wasm.sources()}
    assert {"wasm.cpp", "level.cpp", "gamma.cpp", "train.hpp", "adf.hpp", "probit.hpp"} <= names
    for path in build_wasm.sources():
        copy = tmp_path / path.relative_to(build_wasm.ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    monkeypatch.setattr(build_wasm, "ROOT", tmp_path)
    assert build_wasm.hash_of_sources() == RECORD["sources"]
    for path in build_wasm.sources():
        before = path.read_bytes()
        path.write_bytes(before + b"\n")
        assert build_wasm.hash_of_sources() != RECORD["sources"], path
        path.write_bytes(before)


@pytest.mark.slow
def test_building_it_again_gives_the_same_bytes(tmp_path: Path) -> None:
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("the compiler is not installed: pip install 'probprop[cross]'")
    compiler = f"ziglang {version('ziglang')}"
    if compiler != RECORD["compiler"]:
        pytest.skip(f"the compiler is {compiler}, but the module was built by {RECORD['compiler']}")
    build_wasm.compile_to(tmp_path / "kernel.wasm")
    assert (tmp_path / "kernel.wasm").read_bytes() == kernel_module()
