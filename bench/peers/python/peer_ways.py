# SPDX-License-Identifier: Apache-2.0
"""What the libraries share: a problem is computed in the fastest of the ways that are right."""
import time

from peer_layer import read_problem
from peer_problem import read_safetensors
from peer_refusal import Refusal, Unsupported, first_line, is_unsupported, need

CLOCK = time.perf_counter
TRIAL_SECONDS = 0.2    # Of each way, at least one computation after the first.
TRIALS_SECONDS = 20.0  # After which no other way is tried: who asked is waiting.


class Peer:
    """One library and the problem that is open. What it knows are `ways`: a name, a function that
    takes a set of tensors and gives a function without arguments, which computes, and whether it
    is worth a trial only if nothing else worked."""
    operations, options = ["fwd"], []

    def __init__(self):
        self.close()

    def close(self):
        self.problem, self.computations, self.turn = None, [], 0

    def open(self, request):
        self.close()
        copies = need(request, "copies", int)
        self.take(need(request, "fields", dict), read_safetensors(need(request, "data", str)))
        name, prepare, compute, first, self.seconds = self.fastest()
        self.computations = [compute] + [prepare(self.tensors()) for _ in range(1, copies)]
        return {"first_seconds": first, "configuration": name}

    def take(self, fields, tensors):
        operation = need(fields, "operation", str)
        if operation not in self.operations:
            raise Unsupported(f"It does not compute '{operation}'.")
        if any(fields.get(name, "").startswith("q") for name in ("k_dtype", "v_dtype")):
            raise Unsupported("It has no attention on quantized caches.")
        self.problem = read_problem(fields, tensors)

    def fastest(self):
        """Tries every way on one set of tensors. A last resort is tried if nothing else works."""
        tensors, best, failures, began = self.tensors(), None, [], CLOCK()
        for name, prepare, last_resort in self.ways(tensors):
            if best and (last_resort or CLOCK() - began > TRIALS_SECONDS):
                continue
            try:
                start = CLOCK()
                compute = prepare(tensors)
                output = compute()
                self.finish()
                first = seconds = CLOCK() - start
                if not self.problem.is_right(self.to_numpy(output)):
                    raise Refusal("its result is wrong")
                trial = CLOCK()
                while CLOCK() - trial < TRIAL_SECONDS:
                    start = CLOCK()
                    compute()
                    self.finish()
                    seconds = min(seconds, CLOCK() - start)
            except Exception as error:  # Whatever a library raises: there may be another way.
                failures.append((name, error))
                continue
            if best is None or seconds < best[4]:
                best = (name, prepare, compute, first, seconds)
        if best is None:
            why = "; ".join(f"{name}: {first_line(error)}" for name, error in failures)
            unsupported = all(is_unsupported(error) for _, error in failures)
            raise (Unsupported if unsupported else Refusal)(why)
        return best

    def next(self):
        self.turn = (self.turn + 1) % len(self.computations)
        return self.computations[self.turn]

    def finish(self):
        """Waits until all that was begun is done."""

    def sample(self, busy):
        seconds = []
        end = CLOCK() + busy
        while not seconds or CLOCK() < end:
            compute = self.next()
            start = CLOCK()
            compute()
            seconds.append(CLOCK() - start)
        return seconds, None

    def result(self):
        return self.raw(self.computations[0]())
