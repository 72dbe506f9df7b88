# SPDX-License-Identifier: Apache-2.0
"""A stranger's project, tests/install, that finds the package of `conan create`; it computes on the device of this machine."""
import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout


class ClattnTest(ConanFile):
    settings = "os", "arch", "compiler", "build_type"

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        self.requires(self.tested_reference_str)

    def generate(self):
        CMakeDeps(self).generate()
        CMakeToolchain(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure(build_script_folder=os.path.join("..", "..", "..", "tests", "install"))
        cmake.build()

    def test(self):
        if can_run(self):
            self.run(os.path.join(self.build_folder, "outside_shared"), env="conanrun")
