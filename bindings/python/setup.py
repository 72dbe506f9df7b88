# SPDX-License-Identifier: Apache-2.0
"""Packs what CMake puts together (CMakeLists.txt beside this file) into a wheel for any Python 3.

The wheel is named after the newest glibc that its files need (PEP 600), not after the machine that it was
built on: libOpenCL.so.1 aside, which every machine with an OpenCL driver has, it brings what it needs.

The environment's CLATTN_BUILD is the folder to build in; one that was built in before saves the time. By default it is
build/cmake beside this file, for any version of Python. Where there is no CMake, pip fetches it. CLATTN_WHEEL_PLATFORM names
the platform of a build for another system (packaging/release.sh).
"""
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
HEADER = ROOT / "include" / "clattn" / "version.h"


def version():
    if not HEADER.exists():
        raise SystemExit("clattn is built from its whole source tree: pip install ./bindings/python there")
    return re.search(r'CLATTN_VERSION_STRING "([^"]+)"', HEADER.read_text())[1]


def run(*command):
    try:
        subprocess.run(command, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"clattn's library was not built: {error}. It needs a C compiler, OpenCL's headers and loader, "
                         "jansson and xxhash; on Debian and Ubuntu `sh tests/packages.sh build` installs them.") from None


class BuildPackage(build_py):
    def run(self):
        build = Path(os.environ.get("CLATTN_BUILD") or HERE / "build" / "cmake").resolve()
        run("cmake", "-S", ROOT, "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-DCLATTN_BUILD_PYTHON=ON",
            *([] if (build / "CMakeCache.txt").exists() else
              ["-DCLATTN_BUILD_TESTS=OFF", "-DCLATTN_BUILD_MAN=OFF"]))
        run("cmake", "--build", build, "--target", "clattn_python", "--parallel",
            os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count() or 1)))
        target = Path(self.build_lib) / "clattn"
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(build / "bindings" / "python" / "clattn", target,
                        ignore=shutil.ignore_patterns("__pycache__"))


class Wheel(bdist_wheel):
    def get_tag(self):
        _, _, tag = super().get_tag()
        named = os.environ.get("CLATTN_WHEEL_PLATFORM")
        if named:
            tag = named
        elif platform.system() == "Linux":
            needed = [tuple(map(int, found)) for file in Path(self.bdist_dir).rglob("clattn/*") if file.is_file()
                      for found in re.findall(rb"GLIBC_(\d+)\.(\d+)", file.read_bytes())]
            tag = "manylinux_{}_{}_{}".format(*max(needed, default=(2, 17)), platform.machine())
        return "py3", "none", tag


class Binary(Distribution):
    def has_ext_modules(self):
        return True


setup(version=version(), setup_requires=[] if shutil.which("cmake") else ["cmake>=3.22"], distclass=Binary, cmdclass={"build_py": BuildPackage, "bdist_wheel": Wheel})
