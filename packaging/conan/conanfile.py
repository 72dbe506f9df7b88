# SPDX-License-Identifier: Apache-2.0
"""conan create packaging/conan: the library of the clone that this file lies in, shared or static. The package's own CMake files
are used, so that find_package(clattn) gives the same targets as without Conan."""
import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeToolchain
from conan.tools.files import copy, load, rmdir


class Clattn(ConanFile):
    name = "clattn"
    description = "Attention for every OpenCL device"
    license = "Apache-2.0"
    topics = ("attention", "opencl", "gpu")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "system_opencl": [True, False]}
    default_options = {"shared": True, "system_opencl": False}

    def _sources(self):
        return os.path.join(self.recipe_folder, "..", "..")

    def set_version(self):
        header = load(self, os.path.join(self._sources(), "include", "clattn", "version.h"))
        self.version = re.search(r'CLATTN_VERSION_STRING "([^"]+)"', header)[1]

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "README.md", "CHANGELOG.md", "include/*", "src/*", "cl/*", "doc/*",
                        "tests/examples/*"):
            copy(self, pattern, self._sources(), self.export_sources_folder)

    def validate(self):
        if self.settings.arch in ("x86", "armv7", "armv7hf", "armv6"):
            raise ConanInvalidConfiguration("clattn needs a 64-bit target")

    def configure(self):
        self.settings.rm_safe("compiler.libcxx")
        self.settings.rm_safe("compiler.cppstd")

    def requirements(self):
        if not self.options.system_opencl: # else OpenCL's headers and loader, and xxhash's header, are the system's
            self.requires("opencl-icd-loader/[>=2023.04.17]", transitive_headers=True, transitive_libs=True)
            self.requires("xxhash/[>=0.8]", visible=False)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for option in ("TESTS", "BENCH", "TUNER", "MAN", "MPI"):
            toolchain.cache_variables[f"CLATTN_BUILD_{option}"] = False
        if not self.options.system_opencl:
            loader = self.dependencies["opencl-icd-loader"]
            headers = self.dependencies["opencl-headers"]
            toolchain.cache_variables["XXHASH_INCLUDE"] = self.dependencies["xxhash"].cpp_info.includedirs[0]
            toolchain.cache_variables["OpenCL_INCLUDE_DIR"] = headers.cpp_info.includedirs[0]
            toolchain.cache_variables["OpenCL_LIBRARY"] = os.path.join(
                loader.cpp_info.aggregated_components().libdirs[0],
                "OpenCL.lib" if self.settings.os == "Windows" else "libOpenCL.so" if loader.options.get_safe("shared") else "libOpenCL.a")
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()
        rmdir(self, os.path.join(self.package_folder, "share"))

    def package_info(self):
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "clattn")]
        self.cpp_info.libs = ["clattn_static" if self.settings.os == "Windows" and not self.options.shared else "clattn"]
        if not self.options.shared:
            self.cpp_info.defines = ["CLATTN_STATIC"]
            if self.settings.os == "Linux":
                self.cpp_info.system_libs = ["m", "dl", "pthread"]
        if self.options.system_opencl:
            self.cpp_info.system_libs.append("OpenCL")
