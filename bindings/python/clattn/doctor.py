# SPDX-License-Identifier: Apache-2.0
"""python -m clattn doctor: loaders, drivers, devices, caches and what was tuned, each with what to do about it."""
from __future__ import annotations

import ctypes
import glob
import os
import sys
import sysconfig
from pathlib import Path
from typing import Iterator

from . import _declarations as c
from . import _library, errors
from .context import Context

_ICD_FOLDERS = ["/etc/OpenCL/vendors", os.path.join(sys.prefix, "etc", "OpenCL", "vendors")]
_WINDOWS_ADVICE = """what to install:
  GPU    the driver of its maker (AMD, Intel, NVIDIA, Qualcomm), which brings OpenCL.dll
  CPU    Intel's OpenCL runtime for processors, of other makers' as well
a machine without any: "OpenCL and OpenGL Compatibility Pack" of the Microsoft Store"""
_MAC_ADVICE = "macOS brings OpenCL with it: a device is missing where a machine is virtual"
_ADVICE = """what to install, as root:
  CPU          apt install pocl-opencl-icd
  Intel GPU    apt install intel-opencl-icd
  AMD GPU      apt install mesa-opencl-icd, or ROCm's rocm-opencl-runtime
  NVIDIA GPU   the driver of the GPU, with nvidia-opencl-icd
without root, a CPU of x86-64: pip install pocl-binary-distribution, and in the environment
  OCL_ICD_VENDORS={libs} LD_LIBRARY_PATH={libs}
as a user of a GPU: be in the groups that own /dev/dri/render* (render, video)"""


def _variables() -> None:
    print("environment")
    for name in (*c.VARIABLES, "OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "OPENCL_VENDOR_PATH", "OPENCL_LAYERS",
                 "LD_LIBRARY_PATH", "POCL_CACHE_DIR"):
        if name in os.environ:
            print(f"  {name}={os.environ[name]}")


def _mapped(name: str) -> list[str]:
    """Files of that name that are loaded in this process."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return []
    return sorted({line.split(None, 5)[5] for line in lines if "/" in line and name in line.rsplit("/", 1)[-1]})


def _loader() -> None:
    print("loader")
    loaded = _library.load()
    for file in _mapped("libOpenCL") or [loaded.opencl_file]:
        print(f"  {file}")
    print(f"library\n  {loaded.file}, version {loaded.lib.clattn_version_string().decode()}")
    if len(_mapped("libOpenCL")) > 1:
        print("  several loaders in one process: objects of one may be unknown to drivers of another; CLATTN_LIBOPENCL "
              "chooses")


def _registered() -> list[str]:
    """Drivers that Windows' registry has, for the loader."""
    found: list[str] = []
    if sys.platform == "win32":
        import winreg

        try:
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, r"SOFTWARE\Khronos\OpenCL\Vendors") as key:
                found = [winreg.EnumValue(key, index)[0] for index in range(winreg.QueryInfoKey(key)[1])]
        except OSError:
            pass
    return found


def _drivers() -> None:
    if sys.platform == "win32":
        print("drivers (of the registry; those of display drivers are found besides)")
        print("\n".join(f"  {file}{_why_not(file)}" for file in _registered()) or "  none")
    elif sys.platform != "darwin":
        _icd_files()


def _icd_files() -> None:
    print("drivers (ICD files)")
    named = os.environ.get("OCL_ICD_VENDORS") or os.environ.get("OPENCL_VENDOR_PATH")
    folders = [named] if named else dict.fromkeys(_ICD_FOLDERS)
    found = [file for folder in folders
             for file in ([folder] if folder.endswith(".icd") else sorted(glob.glob(os.path.join(folder, "*.icd"))))]
    for file in found:
        try:
            library = Path(file).read_text().strip()
        except OSError as error:
            library = f"cannot be read: {error.strerror}"
        print(f"  {file}: {library}{_why_not(library)}")
    if not found:
        print(f"  none in {', '.join(folders)}")
    if not named and sys.prefix != "/usr" and Path(_ICD_FOLDERS[1]).is_dir():
        print(f"  a loader of this environment may look in {_ICD_FOLDERS[1]} alone; conda install ocl-icd-system shows it "
              "the system's drivers, and so does OCL_ICD_VENDORS=/etc/OpenCL/vendors")


def _why_not(library: str) -> str:
    if os.sep in library and not os.path.exists(library):
        return " (there is no such file)"
    return ""


def _device_ids() -> list[int]:
    lib = _library.load().lib
    count = ctypes.c_size_t()
    status = lib.clattn_device_list(None, 0, ctypes.byref(count))
    if count.value == 0:
        _library.check(status, "there is no OpenCL device" if status == c.NO_DEVICE else
                       "a driver is installed, but failed when it was asked for its devices")
    ids = (ctypes.c_void_p * count.value)()
    _library.check(lib.clattn_device_list(ids, count.value, ctypes.byref(count)))
    return [one for one in ids if one]


def _devices() -> None:
    print("devices (CLATTN_DEVICE chooses by number or by a part of a name)")
    lib = _library.load().lib
    for index, device in enumerate(_device_ids()):
        info = c.clattn_device_info(struct_size=ctypes.sizeof(c.clattn_device_info))
        if lib.clattn_device_query(device, ctypes.byref(info)) != 0:
            print(f"  {index}  refuses a query that OpenCL 1.2 demands")
            continue
        print(f"  {index}  {info.name.decode()}, {info.compute_units} units, {info.global_memory_bytes >> 20} MiB; "
              f"{info.platform_name.decode()}, driver {info.driver_version.decode()}")
        if not info.compiler_available:
            print("     has no OpenCL C compiler: only programs that are in the cache run")


def _tuned(context: Context) -> Iterator[str]:
    lines: list[str] = []

    @c.clattn_tuning_visitor
    def visit(entry: int, _user: int) -> int:
        one = ctypes.cast(entry, ctypes.POINTER(c.clattn_tuning_entry)).contents
        if one.rank == 0 and not one.quarantine:
            lines.append(f"  {(one.problem_class or b'').decode()}: {(one.family or b'').decode()}, {one.seconds * 1e3:.3g} ms"
                         f"{', measured with another driver or version' if one.stale else ''}")
        return 0

    _library.check(_library.load().lib.clattn_tuning_list(context.handle, None, visit, None))
    return iter(lines)


def _default() -> None:
    context = Context()
    print(f"what calls take that choose no device\n  {context.device.name.decode()}")
    path = _library.ask_text(_library.load().lib.clattn_tuning_path, context.handle)
    print("cache of programs and tuning\n  " + (os.path.dirname(os.path.dirname(path)) if path else "none"))
    lines = list(_tuned(context))
    print(f"tuned problems ({path})" if path else "tuned problems")
    print("\n".join(lines) or "  none; python -m clattn tune finds what is fastest")


def doctor() -> int:
    """Prints what there is. 0 if attention can be computed, else 1, with what to do."""
    _variables()
    try:
        for part in (_drivers, _loader, _devices, _default):
            part()
    except errors.Error as error:
        libs = os.path.join(sysconfig.get_path("purelib"), "pyopencl", ".libs")
        advice = {"win32": _WINDOWS_ADVICE, "darwin": _MAC_ADVICE}.get(sys.platform, _ADVICE.format(libs=libs))
        print(f"\n{error}\n{advice}")
        return 1
    return 0
