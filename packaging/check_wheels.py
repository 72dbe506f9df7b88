# SPDX-License-Identifier: Apache-2.0
"""python3 packaging/check_wheels.py WHEEL...: whether wheels hold what their names promise.

The tags within are those of the name. The library, what PyTorch calls and both programs are there, for the system and processor of
the tag; they need no newer glibc or macOS than it says, and have no folder of the build in them. Where they are
installed, auditwheel looks at wheels for this machine's system and delvewheel at those for Windows. Prints a line for each wheel; exits with 1 if one is wrong."""
import importlib.util
import platform
import re
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ELF = {62: "x86_64", 183: "aarch64", 243: "riscv64"}
PE = {0x8664: "amd64", 0xAA64: "arm64"}
MACH_O = {0x01000007: "x86_64", 0x0100000C: "arm64"}
FILES = {"linux": ("lib{}.so", "{}"), "macosx": ("lib{}.dylib", "{}"), "win": ("{}.dll", "{}.exe")}


def system_of(data):
    """The system and processor that a file is for, ("", "") of one that is no code."""
    if data[:4] == b"\x7fELF":
        return "linux", ELF.get(struct.unpack_from("<H", data, 18)[0], "?")
    if data[:4] == b"\xcf\xfa\xed\xfe":
        return "macosx", MACH_O.get(struct.unpack_from("<I", data, 4)[0], "?")
    if data[:2] == b"MZ":
        return "win", PE.get(struct.unpack_from("<H", data, struct.unpack_from("<I", data, 0x3C)[0] + 4)[0], "?")
    return "", ""


def oldest_macos(data):
    """The version that a Mach-O file asks for, by its load commands."""
    at, count = 32, struct.unpack_from("<I", data, 16)[0]
    for _ in range(count):
        command, size = struct.unpack_from("<II", data, at)
        if command in (0x32, 0x24):  # LC_BUILD_VERSION, LC_VERSION_MIN_MACOSX
            version = struct.unpack_from("<I", data, at + (12 if command == 0x32 else 8))[0]
            return version >> 16, version >> 8 & 255
        at += size
    return 99, 0


def newest_glibc(data):
    return max((tuple(map(int, found)) for found in re.findall(rb"GLIBC_(\d+)\.(\d+)", data)), default=(0, 0))


def complaints(path):
    tag = path.stem.split("-")[-1]
    system, processor = re.fullmatch(r"(?:many|musl)?(linux|macosx|win)(?:2014|_\d+_\d+)?_(\w+)", tag).groups()
    version = (2, 17) if "2014" in tag else tuple(map(int, re.findall(r"_(\d+)(?=_)", tag)[:2]))
    with zipfile.ZipFile(path) as wheel:
        bad = wheel.testzip()
        if bad:
            yield f"{bad} is damaged"
        said = [wheel.read(name).decode() for name in wheel.namelist() if name.endswith(".dist-info/WHEEL")]
        if [re.findall(r"^Tag: (\S+)$", text, re.M) for text in said] != [[f"py3-none-{tag}"]]:
            yield f"its file WHEEL has other tags: {said}"
        code = {}
        for name in wheel.namelist():
            data = wheel.read(name)
            if system_of(data)[0]:
                code[name] = data
        library, program = FILES[system]
        wanted = {*map(library.format, ("clattn", "clattn_call_on_host")), *map(program.format, ("clattn-bench", "clattn-tune"))}
        if {Path(name).name for name in code} != wanted:
            yield f"has {sorted(code)}, not {sorted(wanted)}"
        for name, data in code.items():
            if system_of(data) != (system, processor):
                yield f"{name} is for {system_of(data)}"
            if system == "macosx" and oldest_macos(data) > version:
                yield f"{name} asks for macOS {oldest_macos(data)}"
            if system == "linux" and newest_glibc(data) > ((0, 0) if "musl" in tag else version):
                yield f"{name} needs glibc {newest_glibc(data)}"
            for folder in re.findall(rb"/(?:home|root|tmp|work|Users|build)/[\w./-]+", data):
                yield f"{name} names {folder.decode()}"


def by_tool(path):
    """What auditwheel says of a wheel for this kind of Linux, and delvewheel of one for Windows; OpenCL's loader is the system's."""
    if "manylinux" in path.stem and path.stem.endswith(platform.machine()) and importlib.util.find_spec("auditwheel"):
        with tempfile.TemporaryDirectory() as folder:
            command = ["auditwheel", "repair", "--plat", path.stem.split("-")[-1], "--exclude", "libOpenCL.so.1", "-w", folder]
            yield from failing(command, path)
    if "win" in path.stem.split("-")[-1] and importlib.util.find_spec("delvewheel"):
        yield from failing(["delvewheel", "show", "--exclude", "OpenCL.dll"], path)


def failing(command, path):
    told = subprocess.run([sys.executable, "-m", *command, path], capture_output=True, text=True)
    if told.returncode != 0:
        yield f"{command[0]}: {told.stdout}{told.stderr}"


def main(paths):
    wrong = 0
    for path in map(Path, paths):
        found = [*complaints(path), *by_tool(path)]
        print(f"{'FAIL' if found else 'ok  '}  {path.name}", *found, sep="\n      " if found else "")
        wrong |= bool(found)
    sys.exit(wrong)


main(sys.argv[1:])
