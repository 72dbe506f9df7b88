# SPDX-License-Identifier: Apache-2.0
# brew install --HEAD packaging/homebrew/clattn.rb, in a clone, installs what its last commit has.
class Clattn < Formula
  desc "Attention for every OpenCL device"
  head "file://#{File.expand_path("../..", __dir__)}", using: :git
  license "Apache-2.0"

  depends_on "cmake" => :build
  depends_on "pkgconf" => :build
  depends_on "xxhash" => :build
  depends_on "jansson"

  on_linux do
    depends_on "opencl-headers" => :build
    depends_on "opencl-icd-loader"
  end

  def install
    system "cmake", "-S", ".", "-B", "build", "-DCLATTN_BUILD_TESTS=OFF", "-DCLATTN_BUILD_MPI=OFF", *std_cmake_args
    system "cmake", "--build", "build"
    system "cmake", "--install", "build"
  end

  test do
    (testpath/"test.c").write <<~C
      #include <clattn/clattn.h>
      #include <string.h>
      int main(void) { return strcmp(clattn_version_string(), CLATTN_VERSION_STRING) != 0; }
    C
    opencl = OS.mac? ? ["-framework", "OpenCL"] : ["-lOpenCL"]
    system ENV.cc, "test.c", "-I#{include}", "-L#{lib}", "-lclattn", *opencl, "-o", "test"
    system "./test"
  end
end
