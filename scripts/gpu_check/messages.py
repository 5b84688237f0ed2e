# SPDX-License-Identifier: Apache-2.0
"""Matmuls beside NCCL's calls on two GPUs: the thread blocks that each role of comm.* gives them, against NCCL's own choice."""
import statistics

from first import gpus
from harness import NotProvable, Row, proved, same_bits

# Products of some hundred tiles, and messages that take a good part of a micro-batch.
SIZE = {"precision": "bf16", "model.layers": 8, "model.hidden": 2048, "model.heads": 16, "model.context": 1024,
        "train.micro_batch": 4, "train.global_batch": 64, "train.steps": 12, "parallel.bucket_megabytes": 64}
WARM = 4  # steps left out: products are planned, clocks rise
NCCLS_CHOICE = 64
# What it is, the layout, the key of its role.
LAYOUTS = [("links", {"parallel.pipeline": 2}, "comm.link_ctas"),
           ("gradients", {}, "comm.data_ctas"),
           ("gathers", {"parallel.zero": 3}, "comm.data_ctas")]


def require_two_gpus(check):
    if check.once("GPUs", gpus) < 2:
        raise NotProvable("needs two GPUs: ranks that share one take turns")


def milliseconds(run):
    """(a step, its backward): medians of warm steps."""
    return tuple(statistics.median(step[name] for step in run.steps[WARM:]) for name in ("step_ms", "backward_ms"))


def compared(name, layout, key):
    """Speed never fails: the row is proved by both numbers."""
    def run(check):
        require_two_gpus(check)
        bounded = milliseconds(check.once(f"{name}, default", lambda: check.train("gpt", {**SIZE, **layout}, 2)))
        choice = milliseconds(check.train("gpt", {**SIZE, **layout, key: NCCLS_CHOICE}, 2))
        return proved(f"{bounded[0]:.1f} ms a step, backward {bounded[1]:.1f}; with {key}: {NCCLS_CHOICE} (NCCL's choice, matmuls "
                      f"leave nothing) {choice[0]:.1f} and {choice[1]:.1f}: {choice[0] / bounded[0]:.2f} x as fast",
                      {"bounded_ms": bounded[0], "choice_ms": choice[0]})
    return run


def twice(name, layout):
    def run(check):
        require_two_gpus(check)
        one = check.once(f"{name}, default", lambda: check.train("gpt", {**SIZE, **layout}, 2))
        two = check.train("gpt", {**SIZE, **layout}, 2)
        return same_bits(one, two)
    return run


def rows(_check):
    speed = [Row(name, f"two GPUs: a step beside {name} of few thread blocks, for which matmuls leave room", 60,
                 compared(name, layout, key), lacks="thread blocks") for name, layout, key in LAYOUTS]
    return speed + [Row(f"{name} twice", f"two GPUs: what matmuls leave to {name} is the same in every run", 45,
                        twice(name, layout), lacks="thread blocks") for name, layout, _key in LAYOUTS]
