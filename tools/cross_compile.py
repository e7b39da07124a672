"""Compile the kernel for platforms that this machine does not have, link it and run it if possible.

`python tools/cross_compile.py` needs the extra `cross` (zig's clang, with the headers and libraries
of all targets). For every target it compiles each instruction set of the kernel, and links a small
program, tools/cross_compile.cpp. The program runs natively, in qemu's user mode emulation or in
wine, where these are installed, and must print the same numbers everywhere. With `--bindings` the
whole extension module is linked, for the stable ABI: with Python 3.12 or newer. With `--wheel W`,
where W is a wheel of this machine, its Python files and each target's module become a wheel in the
same folder.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
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
    """A platform: zig's name, the tag of its wheels, and the commands that may run its programs."""

    triple: str
    tag: str
    runners: tuple[tuple[str, ...], ...] = ()

    @property
    def architecture(self) -> str:
        """The processor."""
        return self.triple.partition("-")[0]


QEMU_ARM = (("qemu-aarch64-static",), ("qemu-aarch64",))
TARGETS = {
    "win-amd64": Target("x86_64-windows-gnu", "win_amd64", (("wine",), ("wine64",))),
    "win-arm64": Target("aarch64-windows-gnu", "win_arm64"),
    "manylinux-aarch64": Target("aarch64-linux-gnu.2.28", "manylinux_2_28_aarch64"),
    "musllinux-x86_64": Target("x86_64-linux-musl", "musllinux_1_2_x86_64", ((),)),
    "musllinux-aarch64": Target("aarch64-linux-musl", "musllinux_1_2_aarch64", QEMU_ARM),
    "macos-x86_64": Target("x86_64-macos.11.0", "macosx_11_0_x86_64"),
    "macos-arm64": Target("aarch64-macos.11.0", "macosx_11_0_arm64"),
}
REFERENCE = "musllinux-x86_64"  # whose numbers the others must have

# What the headers of the stable ABI ask of Windows' own pyconfig.h.
WINDOWS = """
#define MS_WIN32
#define MS_WIN64
#define MS_WINDOWS
#define Py_ENABLE_SHARED 1
#define HAVE_DECLSPEC_DLL
#define SIZEOF_VOID_P 8
#define SIZEOF_SIZE_T 8
#define SIZEOF_TIME_T 8
#define SIZEOF_INT 4
#define SIZEOF_LONG 4
#define SIZEOF_LONG_LONG 8
#define SIZEOF_WCHAR_T 2
"""


def zig(*arguments: str | Path, tool: str = "c++") -> None:
    """Run zig's C++ compiler, or another of its tools."""
    command = [sys.executable, "-m", "ziglang", tool, *map(str, arguments)]
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


def windows_python(target: Target, folder: Path) -> tuple[Path, Path]:
    """Return headers as on Windows, and an import library of python3.dll made from them."""
    include = folder / "include"
    if not include.exists():
        ignored = shutil.ignore_patterns("pyconfig.h")
        shutil.copytree(sysconfig.get_path("include"), include, ignore=ignored)
        (include / "pyconfig.h").write_text(WINDOWS)
    headers = "".join(path.read_text() for path in include.glob("*.h"))
    declared = re.findall(r"PyAPI_(FUNC|DATA)\([^()]*\)\s*\**(\w+)", headers)
    names = sorted({name + " DATA" * (kind == "DATA") for kind, name in declared})
    definitions, library = folder / "python3.def", folder / "libpython3.a"
    definitions.write_text("\n".join(["LIBRARY python3.dll", "EXPORTS", *names, ""]))
    machine = {"x86_64": "i386:x86-64", "aarch64": "arm64"}[target.architecture]
    zig("-m", machine, "-d", definitions, "-l", library, tool="dlltool")
    return include, library


def link_bindings(target: Target, objects: Sequence[Path], folder: Path) -> Path:
    """Link the whole extension module; its Python symbols are left to the interpreter."""
    import nanobind

    if sys.version_info < (3, 12):
        raise SystemExit("the bindings need the headers of Python 3.12 or newer")
    source = Path(nanobind.source_dir()) / "nb_combined.cpp"
    robin_map = source.parents[1] / "ext" / "robin_map" / "include"
    include, name = Path(sysconfig.get_path("include")), "_kernel.abi3.so"
    rest: tuple[str | Path, ...] = ("-fPIC",)
    if "macos" in target.triple:
        rest = ("-fPIC", "-undefined", "dynamic_lookup")
    elif "windows" in target.triple:
        include, library = windows_python(target, folder)
        name, rest = "_kernel.pyd", (library,)
    includes = (nanobind.include_dir(), robin_map, include)
    zig(f"--target={target.triple}", *FLAGS, "-DPy_LIMITED_API=0x030C0000", "-DNDEBUG", "-shared",
        "-fvisibility=hidden", "-fno-strict-aliasing", "-s", "-w", "-include", "stdio.h",
        *(f"-I{path}" for path in includes), *sorted((ROOT / "cpp").glob("bindings*.cpp")),
        source, *objects, *rest, "-o", folder / name)  # fmt: skip
    return folder / name


def write_wheel(target: Target, module: Path, own: Path) -> Path:
    """Write the wheel of a target next to the wheel `own` of this machine."""
    name, version = own.name.split("-")[:2]
    path = own.with_name(f"{name}-{version}-cp312-abi3-{target.tag}.whl")
    record = f"{name}-{version}.dist-info/RECORD"
    lines = []
    with zipfile.ZipFile(own) as source, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        files = {i.filename: source.read(i) for i in source.infolist() if not i.is_dir()}
        files = {k: v for k, v in files.items() if not re.search(r"_kernel\.[\w-]*\.?(so|pyd)$", k)}
        files[f"{name}/{module.name}"] = module.read_bytes()
        tags = record.replace("RECORD", "WHEEL")
        tag = f"Tag: cp312-abi3-{target.tag}".encode()
        files[tags] = re.sub(rb"Tag: [^\r\n]*", tag, files[tags])
        del files[record]
        for file, content in files.items():
            wheel.writestr(file, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode()
            lines.append(f"{file},sha256={digest.rstrip('=')},{len(content)}\n")
        wheel.writestr(record, "".join([*lines, f"{record},,\n"]))
    return path


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
    parser.add_argument(
        "--wheel", type=Path, help="wheel of this machine; make the targets' wheels"
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.targets) - set(TARGETS):
        parser.error(f"unknown targets {sorted(unknown)}; choose from {', '.join(TARGETS)}")
    expected: str | None = None
    with tempfile.TemporaryDirectory() as scratch:
        for name in dict.fromkeys((REFERENCE, *(arguments.targets or TARGETS))):
            target, folder = TARGETS[name], Path(scratch, name)
            program = build(target, folder)
            done = "compiled and linked"
            if arguments.bindings or arguments.wheel:
                module = link_bindings(target, sorted(folder.glob("*.o")), folder)
                done += ", with the bindings"
                if arguments.wheel:
                    done += f", in {write_wheel(target, module, arguments.wheel)}"
            output = output_of(target, program)
            expected = expected or output
            if expected is None:
                raise SystemExit(f"{REFERENCE} does not run here: use Linux on x86-64")
            ran = "not run" if output is None else f"run ({compare(output, expected)})"
            print(f"{name}: {done}; {ran}", flush=True)


if __name__ == "__main__":
    main()
