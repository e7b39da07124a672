"""Compile the kernel to WebAssembly: src/probprop/web/kernel.wasm and kernel.json.

Run by `make generated`, after a change in cpp/. kernel.json has the hash of the sources, so that a
test can say when the module that is checked in is not theirs.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[1]
WEB = ROOT / "src" / "probprop" / "web"
UNITS = ("wasm.cpp", "level.cpp", "gamma.cpp")
FLAGS = (
    "--target=wasm32-wasi",
    "-mexec-model=reactor",
    "-std=c++17",
    "-O2",
    "-msimd128",
    "-DPROBPROP_LEVEL=generic",
    "-DPROBPROP_DOUBLE_ONLY",
    "-fno-exceptions",
    "-fno-rtti",
    "-D_LIBCPP_VERBOSE_ABORT(...)=__builtin_trap()",
    "-fno-math-errno",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
    "-Wl,--strip-all",
    "-s",
)


def sources() -> list[Path]:
    """The files the module is made of, in order of their names."""
    headers = (p for p in (ROOT / "cpp").rglob("*.hpp") if p.name != "bindings.hpp")
    return sorted([*headers, *(ROOT / "cpp" / unit for unit in UNITS)])


def hash_of_sources() -> str:
    """The SHA-256 of their names and texts, and of the flags."""
    digest = hashlib.sha256(" ".join(FLAGS).encode())
    for path in sources():
        text = path.read_bytes()
        digest.update(f"\0{path.relative_to(ROOT).as_posix()}\0{len(text)}\0".encode() + text)
    return digest.hexdigest()


def compile_to(path: Path) -> None:
    """Write the module."""
    units = [str(Path("cpp", unit)) for unit in UNITS]
    command = [sys.executable, "-m", "ziglang", "c++", *FLAGS, *units, "-o", str(path)]
    subprocess.run(command, cwd=ROOT, check=True)
    path.chmod(0o644)  # it is data


def main() -> None:
    """Build it and say from what."""
    WEB.mkdir(exist_ok=True)
    compile_to(WEB / "kernel.wasm")
    module = (WEB / "kernel.wasm").read_bytes()
    record = {
        "sources": hash_of_sources(),
        "compiler": f"ziglang {version('ziglang')}",
        "module": hashlib.sha256(module).hexdigest(),
    }
    (WEB / "kernel.json").write_text(json.dumps(record, indent=2) + "\n")
    print(f"built src/probprop/web/kernel.wasm, {len(module):,} bytes")


if __name__ == "__main__":
    main()
