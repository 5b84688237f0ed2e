#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of telemetry. Trains the quickstart's GPT on random bytes with everything on (the defaults,
TensorBoard, Prometheus) and suspends all reporting in every other block of steps, within one process
(tests/launch/fixture/test_rests.cpp), so a drift of the machine is not counted. For each pair of adjacent blocks it
compares the wall time of steps and the CPU time of rank 0's threads, including flushes of files. Then some runs trace
100 steps, compared with the 50 before and the 50 after. Intervals have 95 % confidence (bootstrap over pairs of blocks,
and over runs). Needs a quiet machine, and the targets trireme and trireme_delayed.

  python3 tests/checks/check_telemetry_cost.py              # about 4 minutes
"""
import pathlib
import random
import shutil
import statistics
import sys
import tempfile

from shared import add_built, parser_of, prepare, run, sets

CONFIG = """
run: {directory: run, seed: 7}
device: {type: cpu}
precision: auto
model: {family: gpt2, layers: 4, hidden: 192, heads: 8, context: 128, vocabulary: 256}
data: {path: text/train, validation_path: ""}
parallel: {zero: 1}
train: {global_batch: 8, micro_batch: 2, log_every: 50}
optimizer: {name: adamw, learning_rate: 1e-3}
"""
ON = [f"telemetry.{key}=true" for key in ("tensorboard", "prometheus")]
FIRST_TRACED, TRACED, BESIDE = 61, 100, 50


def train(runs, steps, settings, block):
    """[(wall, cpu, resting)] of every step, in milliseconds."""
    command = [*runs.mpiexec.split(), "-np", runs.ranks, runs.trireme_delayed, "train", "gpt.yaml"]
    run([*command, *sets([f"train.steps={steps}", *settings])], cwd=runs.directory, timeout=900,
        variables={"TRIREME_TEST_RESTS": str(block), "TRIREME_TEST_STEP_TIMES": "times"})
    times = pathlib.Path(runs.directory, "times").read_text()
    begins = [[int(word) for word in line.split()] for line in times.splitlines()]
    shutil.rmtree(pathlib.Path(runs.directory, "run"))
    return [(1e-6 * (after[1] - begin[1]), 1e-6 * (after[2] - begin[2]), begin[3])
            for begin, after in zip(begins, begins[1:])]


def interval_of(values, of):
    draw = random.Random(1)
    drawn = sorted(of(draw.choices(values, k=len(values))) for _ in range(2000))
    return drawn[50], drawn[-51]


def text_of(values, of):
    low, high = interval_of(values, of)
    return f"{100 * (of(values) - 1):+.2f} % ({100 * (low - 1):+.2f} to {100 * (high - 1):+.2f})"


def ratio_of_sums(pairs):
    return sum(on for on, _ in pairs) / sum(off for _, off in pairs)


def rests(runs):
    """In each pair of adjacent blocks one is without reporting."""
    steps = train(runs, runs.steps, ON, runs.block)
    blocks = [steps[first:first + runs.block] for first in range(0, len(steps) - runs.block + 1, runs.block)]
    wall, cpu = [], []
    # The first pair warms up.
    for first, second in list(zip(blocks[::2], blocks[1::2]))[1:]:
        assert first[0][2] != second[0][2]
        on, off = (second, first) if first[0][2] else (first, second)
        wall.append(statistics.mean(s[0] for s in on) / statistics.mean(s[0] for s in off))
        cpu.append((sum(s[1] for s in on), sum(s[1] for s in off)))
    off_ms = statistics.median(s[0] for s in steps if s[2])
    print(f"all on, {len(wall)} pairs of blocks of {runs.block} steps of {off_ms:.2f} ms on {runs.ranks} ranks:")
    print(f"  clock: {text_of(wall, statistics.median)}, the median pair")
    print(f"  cores: {text_of(cpu, ratio_of_sums)}, what rank 0 computes in all", flush=True)


def traced(runs):
    """Skips three steps next to the traced ones, which count, measure clocks or write."""
    ratios = []
    for _ in range(runs.traces):
        last = FIRST_TRACED + TRACED - 1
        steps = train(runs, last + BESIDE + 8, ON + [f"telemetry.trace={FIRST_TRACED}-{last}"], 0)
        inside = steps[FIRST_TRACED - 1:last]
        before = steps[FIRST_TRACED - 4 - BESIDE:FIRST_TRACED - 4]
        behind = steps[last + 4:last + 4 + BESIDE]
        ratios.append(statistics.median(s[0] for s in inside) / statistics.median(s[0] for s in before + behind))
    print(f"a traced step, {runs.traces} runs with {TRACED} of them: {text_of(ratios, statistics.median)} on the clock")


def main():
    parser = parser_of(__doc__)
    add_built(parser, "--trireme-delayed", "tests/trireme_delayed")
    parser.add_argument("--mpiexec", default="mpirun --bind-to none", help="how to start ranks")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=4800)
    parser.add_argument("--block", type=int, default=10, help="steps in a row that report, or do not")
    parser.add_argument("--traces", type=int, default=10, help="runs with traced steps")
    runs = parser.parse_args()
    with tempfile.TemporaryDirectory() as runs.directory:
        text = "".join(map(chr, random.Random(1).choices(range(1, 128), k=400_000)))
        prepare(runs.trireme, runs.directory, CONFIG, text, "--validation", "0.1")
        rests(runs)
        if runs.traces > 0:
            traced(runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
