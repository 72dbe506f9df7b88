# SPDX-License-Identifier: Apache-2.0
"""Ends that come in the middle: exceptions between any two bytecodes, and the interpreter's end beside calls."""
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import clattn
import numpy as np
import pytest
from clattn import _memory, context, plan
from clattn._library import load
from conftest import run_number

EXECUTION = {Path(module.__file__).name for module in (_memory, plan)}  # of which nothing takes a lock


class Interrupts:
    """Raises KeyboardInterrupt at the n-th place in an execution's bytecode, where Python's handlers of signals may run."""

    def __init__(self, number):
        self.left = number

    def __call__(self, frame, event, _argument):
        if Path(frame.f_code.co_filename).name not in EXECUTION:
            return None
        frame.f_trace_opcodes = True
        if event in ("opcode", "line"):  # some Pythons tell of lines alone
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


def interrupt(call, number):
    """Whether the n-th place was reached."""
    before = sys.gettrace()
    try:
        sys.settrace(Interrupts(number))
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def numbers():
    """Of places, a ninth of all, in steps that have nothing to do with how the code is laid out."""
    return range(1 + run_number() % 9, 10 ** 6, 9)


def test_after_an_exception_no_kernel_writes_to_host_memory(rng):
    q = rng.normal(size=(1, 4, 300, 64)).astype(np.float32)
    out = np.empty_like(q)
    clattn.attention(q, q, q, out=out)
    queue, interrupted, done = clattn.default_context().queue(), 0, 0
    for number in numbers():
        out[:] = np.nan
        if not interrupt(lambda: clattn.attention(q, q, q, out=out), number):
            break
        seen = out.copy()
        load().cl.clFinish(queue)
        np.testing.assert_array_equal(out, seen)
        interrupted, done = interrupted + 1, done + (not np.isnan(out).any())
    assert interrupted > 20 and done > 0


def test_after_an_exception_no_kernel_writes_to_a_buffer():
    cl, cla = pytest.importorskip("pyopencl"), pytest.importorskip("pyopencl.array")
    name = clattn.default_context().device.name.decode()
    device = next(d for platform in cl.get_platforms() for d in platform.get_devices() if d.name == name)
    queue = cl.CommandQueue(cl.Context([device]))
    q = cla.to_device(queue, np.ones((1, 4, 300, 64), np.float32))
    memory = np.empty(q.shape, np.float32)
    buffer = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR, hostbuf=memory)
    out = cla.Array(queue, q.shape, np.float32, data=buffer)
    clattn.attention(q, q, q, out=out).get()
    interrupted = 0
    for number in numbers():
        memory[:] = np.nan
        if not interrupt(lambda: clattn.attention(q, q, q, out=out), number):
            queue.finish()
            break
        out.finish()  # the array may have its event already: a caller waits for it as after a call that returned
        seen = memory.copy()  # what a device that shares the host's memory has written so far
        queue.finish()
        np.testing.assert_array_equal(memory, seen)
        interrupted += 1
    assert interrupted > 20


PROGRAMS = {
    "a function that was registered before the first call": """
        atexit.register(lambda: print(clattn.attention(x, x, x).shape))
        clattn.attention(x, x, x)""",
    "a function that was registered before the import": """
        clattn.attention(x, x, x)""",
    "threads that compute": """
        threads(lambda: clattn.attention(x, x, x))""",
    "threads that make plans and contexts": """
        threads(lambda: (clattn.Plan("fwd f32 h2 q33 d16"), clattn.Context()))""",
    "threads of a layer and of a queue": """
        layer = clattn.Multihead("layer fwd f32 h2 q5 d16 model=24")
        threads(lambda: clattn.Multihead("layer fwd f32 h2 q5 d16 model=24"))
        clattn.attention(x, x, x)""",
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_interpreters_end(program):
    """Beside calls in functions of atexit and in threads that nobody joins: many processes, since each ends elsewhere."""
    code = textwrap.dedent("""
        import atexit, sys, threading, time
        import numpy as np
        atexit.register(lambda: print(sys.modules["clattn"].attention(x, x, x).shape))
        import clattn

        x = np.ones((1, 2, 33, 16), np.float32)

        def threads(work):
            def loop():
                while True:
                    work()
                    begun.set()
            begun = threading.Event()
            for _ in range(3):
                threading.Thread(target=loop, daemon=True).start()
            begun.wait()
            time.sleep(float(sys.argv[1]))
        """) + textwrap.dedent(PROGRAMS[program])
    clattn.Plan("fwd f32 h2 q33 d16")
    began = [subprocess.Popen([sys.executable, "-c", code, str(n / 100)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
             for n in range(4)]
    for process in began:
        said, complained = process.communicate()
        assert process.returncode == 0 and said.endswith("(1, 2, 33, 16)\n") and not complained, (process.returncode, complained)


def test_the_end_waits_for_threads_that_compile(monkeypatch):
    """Not for ever, and not for those that begin meanwhile, which are delayed."""
    monkeypatch.setattr(context.Compiling, "ending", False)
    inside, leave, left = threading.Event(), threading.Event(), []

    def compile():
        with context.Compiling():
            inside.set()
            leave.wait()
            left.append(True)

    thread = threading.Thread(target=compile)
    thread.start()
    inside.wait()
    context._leave(patience=0.01)
    assert context.Compiling.ending and not left
    threading.Timer(0.05, leave.set).start()
    context._leave()
    assert left
    thread.join()
    slept = []
    monkeypatch.setattr(context.time, "sleep", slept.append)
    late = threading.Thread(target=compile, daemon=True)
    late.start()
    late.join()
    assert slept == [1.0] and not context.Compiling.threads
    with context.Compiling():  # functions of atexit may go on
        assert slept == [1.0]


def test_programs_are_stored_at_the_end_beside_threads(tmp_path):
    code = textwrap.dedent("""
        import threading, numpy as np, clattn
        x = np.ones((1, 2, 33, 16), np.float32)
        def work():
            while True:
                clattn.attention(x, x, x)
                begun.set()
        begun = threading.Event()
        threading.Thread(target=work, daemon=True).start()
        begun.wait()
        """)
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "CLATTN_CACHE_DIR": str(tmp_path)}, check=True)
    assert sum(file.stat().st_size for file in tmp_path.glob("programs/*.clbin")) > 4096
    other = clattn.Context(cache_directory=str(tmp_path))
    clattn.Plan("fwd f32 h2 q33 d16", context=other)
    assert other.builds == 0
