# SPDX-License-Identifier: Apache-2.0
"""A job that loses a rank in a step must end by itself, with a non-zero code, within seconds."""
import os
import signal
import threading
import time

import evidence
import processes
from harness import Row, failed, judged

WATCH = 5  # parallel.timeout_seconds of these runs


def ranks_of(directory):
    """{rank: process} of the run in `directory`, from the launcher's environment variables of the ranks."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        words = evidence.command_line(int(name))
        rank = evidence.rank_of(int(name)) if f"run.directory={directory}" in words and "/trireme train" in words else None
        if rank is not None:
            found[rank] = int(name)
    return found


def struck(signal_name, limit):
    def run(check):
        command, directory = check.train_command(
            "gpt", {"train.steps": 1000000, "train.log_every": 100000, "parallel.timeout_seconds": WATCH}, ranks=2)
        hit, over = threading.Event(), threading.Event()

        def strike():
            metrics = os.path.join(directory, "metrics.jsonl")
            while not over.wait(0.1):
                process = ranks_of(directory).get(1) if os.path.exists(metrics) and os.path.getsize(metrics) > 2000 else None
                if process:
                    hit.time = time.monotonic()
                    hit.set()
                    os.kill(process, getattr(signal, signal_name))
                    return

        thread = threading.Thread(target=strike)
        thread.start()
        finished = check.run(command, environment={"TRIREME_END_SECONDS": "5"}, directory=directory)
        ended = time.monotonic()
        over.set()
        thread.join()
        if not hit.is_set():
            return failed(f"the run logged no steps: {finished.last_lines()}")
        left = ranks_of(directory)
        for process in left.values():
            os.kill(process, signal.SIGKILL)
        took = ended - hit.time
        return judged(finished.code not in (0, processes.TIMED_OUT) and took <= limit and not left,
                      f"the job ended with {finished.code} after {took:.1f} s (limit {limit} s), {len(left)} ranks left behind")
    return run


def faults(_check):
    return [Row(f"rank 1 gets {name}", f"a job whose rank gets {name} in a step ends by itself", limit + 20, struck(name, limit))
            for name, limit in (("SIGKILL", 15), ("SIGSTOP", WATCH + 15))]
