# SPDX-License-Identifier: Apache-2.0
"""A call gives up the GIL while the library waits: else nobody could set the event that it waits for."""
import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys, threading, clattn, numpy as np, pyopencl as cl
name = clattn.default_context().device.name.decode()
context = cl.Context([d for p in cl.get_platforms() for d in p.get_devices() if d.name == name][:1])
queue, gate = cl.CommandQueue(context), cl.UserEvent(context)
q = np.ones((1, 1, 4, 16), np.float32)
clattn.attention(q, q, q, queue=queue)
cl.enqueue_barrier(queue, wait_for=[gate])
begun, opened = threading.Event(), threading.Event()

def open_gate():
    begun.wait()
    opened.set()
    gate.set_status(cl.command_execution_status.COMPLETE)

thread = threading.Thread(target=open_gate)
thread.start()
sys.setswitchinterval(1000)  # the thread runs only where a call lets it
begun.set()
assert not opened.is_set()
o = clattn.attention(q, q, q, queue=queue)
assert opened.is_set() and (o == 1).all()
thread.join()
print("computed")
"""


def test_a_call_that_waits_lets_other_threads_run():
    pytest.importorskip("pyopencl")
    told = subprocess.run([sys.executable, "-c", PROGRAM], env=os.environ, capture_output=True, text=True, timeout=120)
    assert told.stdout == "computed\n", told.stderr
