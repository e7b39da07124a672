"""Compile the kernel for platforms that this machine does not have, link it and run it if possible.

`python tools/cross_compile.py` needs the extra `cross` (zig's clang, with the headers and libraries
of all targets). For every target it compiles each instruction set of the kernel, and links a small
program, tools/cross_compile.cpp. The program runs natively, in qemu's user mode emulation or in
wine, where these are installed, and must print the same numbers everywhere. The
bindings are compiled and linked too where the headers of this Python fit: not for Windows.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FLAGS = ("-std=c++17", "-O1", "-Wall", "-Wextra", "-ffp-contract=fast", "-fno-math-errno")
LEVELS: dict[str, dict[str, tuple[str, ...]]] = {
    "x86_64": {
        "generic": (),
        "v2": ("-march=x86_64_v2",),
        "v3": ("-march=x86_64_v3",),
        "v4": ("-march=x86_64_v4",),
    },
    "aarch64": {"generic": ()},
}
TOLERANCES = {"float32": 1e-3}  # relative; all other numbers are of double precision
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Target:
    """A platform, by zig's name and by the commands of which one may run its programs."""

    triple: str
    runners: tuple[tuple[str, ...], ...] = ()
    bindings: bool = True

    @property
    def architecture(self) -> str:
        """The processor."""
        return self.triple.partition("-")[0]


QEMU_ARM = (("qemu-aarch64-static",), ("qemu-aarch64",))
TARGETS = {
    "win-amd64": Target("x86_64-windows-gnu", (("wine",), ("wine64",)), bindings=False),
    "win-arm64": Target("aarch64-windows-gnu", bindings=False),
    "musllinux-x86_64": Target("x86_64-linux-musl", ((),)),
    "musllinux-aarch64": Target("aarch64-linux-musl", QEMU_ARM),
    "macos-x86_64": Target("x86_64-macos.11.0"),
    "macos-arm64": Target("aarch64-macos.11.0"),
}
REFERENCE = "musllinux-x86_64"  # whose numbers the others must have


def zig(*arguments: str | Path) -> None:
    """Run zig's C++ compiler."""
    command = [sys.executable, "-m", "ziglang", "c++", *map(str, arguments)]
    subprocess.run(command, cwd=ROOT, check=True)


def objects_of(target: Target, folder: Path, levels: Collection[str] | None = None) -> list[Path]:
    """Compile the kernel at some or all levels of a target, with what picks the level."""
    units: dict[str, tuple[str, tuple[str, ...]]] = {
        "dispatch": ("cpp/dispatch.cpp", ()),
        "gamma": ("cpp/gamma.cpp", ()),
    }
    for name, flags in LEVELS[target.architecture].items():
        if levels is not None and name not in levels:
            continue
        units[name] = ("cpp/level.cpp", (f"-DPROBPROP_LEVEL={name}", *flags))

    def compiled(name: str) -> Path:
        source, flags = units[name]
        path = folder / f"{name}.o"
        zig(f"--target={target.triple}", *FLAGS, *flags, "-fPIC", "-c", source, "-o", path)
        return path

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(compiled, reversed(units)))  # the slow ones first


def link_bindings(target: Target, objects: Sequence[Path], folder: Path) -> None:
    """Link the whole extension module; its Python symbols are left to the interpreter."""
    import nanobind

    source = Path(nanobind.source_dir()) / "nb_combined.cpp"
    robin_map = source.parents[1] / "ext" / "robin_map" / "include"
    includes = (nanobind.include_dir(), robin_map, sysconfig.get_path("include"))
    undefined = ("-undefined", "dynamic_lookup") if "macos" in target.triple else ()
    zig(f"--target={target.triple}", *FLAGS, "-fPIC", "-shared", "-fvisibility=hidden", "-w",
        *(f"-I{path}" for path in includes), *sorted((ROOT / "cpp").glob("bindings*.cpp")),
        source, *objects, *undefined, "-o", folder / "_kernel.so")  # fmt: skip


def output_of(target: Target, program: Path) -> str | None:
    """Return what the program prints, or None if nothing here runs it."""
    for runner in target.runners:
        own = platform.system() == "Linux" and platform.machine() == target.architecture
        if shutil.which(runner[0]) if runner else own:
            command = [*runner, str(program)]
            return subprocess.run(command, check=True, text=True, capture_output=True).stdout
    return None


def numbers(output: str) -> dict[str, dict[str, list[float]]]:
    """Return the numbers by level and by what they are."""
    found: dict[str, dict[str, list[float]]] = {}
    for level, name, *values in map(str.split, output.splitlines()):
        found.setdefault(level, {})[name] = [float(value) for value in values]
    return found


def compare(output: str, expected: str) -> str:
    """Raise if a number is not the generic level's of this machine; return the levels that ran."""
    reference = numbers(expected)
    reference = reference["any"] | reference["generic"]
    found = numbers(output)
    for level, results in found.items():
        for name, values in results.items():
            tolerance = TOLERANCES.get(name.rpartition("_")[2], TOLERANCE)
            for value, wanted in zip(values, reference[name], strict=True):
                if not abs(value - wanted) <= tolerance * abs(wanted):
                    raise SystemExit(f"{level} {name}: got {value!r}, expected {wanted!r}")
    return ", ".join(level for level in found if level != "any")


def build(target: Target, folder: Path) -> Path:
    """Compile the kernel for a target and link the program with it."""
    folder.mkdir()
    program = folder / ("program.exe" if "windows" in target.triple else "program")
    zig(f"--target={target.triple}", *FLAGS, "tools/cross_compile.cpp",
        *objects_of(target, folder), "-o", program)  # fmt: skip
    return program


def main() -> None:
    """Compile, link and run the requested targets."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--bindings", action="store_true", help="also link the Python module")
    arguments = parser.parse_args()
    if unknown := set(arguments.targets) - set(TARGETS):
        parser.error(f"unknown targets {sorted(unknown)}; choose from {', '.join(TARGETS)}")
    expected: str | None = None
    with tempfile.TemporaryDirectory() as scratch:
        for name in dict.fromkeys((REFERENCE, *(arguments.targets or TARGETS))):
            target, folder = TARGETS[name], Path(scratch, name)
            program = build(target, folder)
            done = "compiled and linked"
            if arguments.bindings and target.bindings:
                link_bindings(target, sorted(folder.glob("*.o")), folder)
                done += ", with the bindings"
            output = output_of(target, program)
            expected = expected or output
            if expected is None:
                raise SystemExit(f"{REFERENCE} does not run here: use Linux on x86-64")
            ran = "not run" if output is None else f"run ({compare(output, expected)})"
            print(f"{name}: {done}; {ran}", flush=True)


if __name__ == "__main__":
    main()
