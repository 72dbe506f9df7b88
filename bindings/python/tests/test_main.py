# SPDX-License-Identifier: Apache-2.0
"""python -m clattn."""
import os
import subprocess
import sys

import pytest

LOADER, ADVICE = {"win32": ("OpenCL.dll", "the driver of its maker"), "darwin": ("OpenCL.framework", "macOS brings OpenCL")}.get(
    sys.platform, ("libOpenCL", "apt install"))


def run(*arguments, **environment):
    return subprocess.run([sys.executable, "-m", "clattn", *arguments], env={**os.environ, **environment},
                          capture_output=True, text=True)


def test_doctor_names_the_loader_the_drivers_and_the_device():
    told = run("doctor", CLATTN_LOG="error")
    assert told.returncode == 0, told.stdout + told.stderr
    for word in ("  CLATTN_LOG=error\n", LOADER, *{"darwin": (), "win32": ("drivers",)}.get(sys.platform, ("drivers", "ICD")), "devices", "tuned problems"):
        assert word in told.stdout


@pytest.mark.parametrize("environment, sentence", [
    (dict(CLATTN_LIBOPENCL="/nowhere/libOpenCL.so"), "there is no OpenCL loader"),
    pytest.param(dict(OCL_ICD_VENDORS="/nowhere", OCL_ICD_FILENAMES="", CLATTN_DEVICE=""), "there is no OpenCL device",
                 marks=pytest.mark.skipif(sys.platform == "win32", reason="loaders of Windows find drivers in the registry alone")),
    (dict(CLATTN_DEVICE="no such device"), "CLATTN_DEVICE"),
])
def test_doctor_says_what_is_missing_and_what_to_install(environment, sentence):
    told = run("doctor", **environment)
    assert told.returncode == 1 and sentence in told.stdout and ADVICE in told.stdout and not told.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="Windows tells a program nothing of a reader that has gone")
def test_doctor_ends_quietly_when_its_reader_goes_away():
    reader, writer = os.pipe()
    os.close(reader)
    told = subprocess.run([sys.executable, "-m", "clattn", "doctor"], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert told.returncode == 1 and "BrokenPipe" not in told.stderr, told.stderr


def test_programs_are_passed_through():
    told = run("bench", "--version")
    assert told.returncode == 0 and told.stdout
    assert run("tune", "--no-such-option").returncode == 2
    assert run().returncode == 2 and run("--help").returncode == 0


def test_import_needs_no_opencl():
    code = "import clattn\ntry:\n clattn.Context()\nexcept clattn.NoDevice as error:\n print(error)"
    told = subprocess.run([sys.executable, "-c", code], env={**os.environ, "CLATTN_LIBOPENCL": "/nowhere.so"},
                          capture_output=True, text=True)
    assert "there is no OpenCL loader" in told.stdout and "python -m clattn doctor" in told.stdout and not told.stderr
