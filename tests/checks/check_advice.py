#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the first advice of a run gains what it promises.

Trains a small GPT with trireme_delayed (tests/launch/fixture/test_delays.cpp) under settings with one known fault each,
takes the first setting of the line "try:", trains with and without it alternating, and prints promised and measured share
of the time. Faults of the environment (slow disk, slow link) are simulated by readers or messages that sleep
(tests/launch/fixture/slow_calls.cpp). Needs a quiet machine with two cores.

  python3 tests/checks/check_advice.py                      # all ten, three times each: about 6 minutes
  python3 tests/checks/check_advice.py --row "slow storage" --repeat 1
"""
import json
import pathlib
import re
import shutil
import statistics
import sys
import tempfile

from shared import add_built, parser_of, prepare, run, sets

TRY = re.compile(r"^suggestion: (.+?) \(predicted -([\d.]+) % time( a sample)?", re.MULTILINE)
ENOUGH = 0.7  # of what is promised
SLOW_LINK = {"TRIREME_TEST_ISEND_MS": "1"}

CONFIG = """
run: {directory: run, seed: 7}
device: {type: cpu}
precision: fp32
model: {family: gpt2, layers: 6, hidden: 96, heads: 4, context: 64, vocabulary: 256}
data: {path: text/train, validation_path: "", workers: 1, prefetch: 2}
train: {steps: 40, global_batch: 16, micro_batch: 2, log_every: 1000}
optimizer: {name: adamw, learning_rate: 1e-3}
telemetry: {tensorboard: false, health_minutes: 0}
"""

# Faults: ranks, settings, environment.
ROWS = {
    "evaluations too often": (1, ["data.validation_path=text/validation", "train.eval_every=2"], {}),
    "checkpoints too often": (
        1, ["checkpoint.every_steps=1", "checkpoint.async=false"], {"TRIREME_TEST_DELAY": "checkpoint:all:40"}),
    "needless recomputation": (1, ["train.recompute=full"], {}),
    "slow storage": (1, [], {"TRIREME_TEST_DELAY": "read:all:10"}),
    "buckets too small": (2, ["parallel.data=2", "parallel.bucket_megabytes=0.02"], SLOW_LINK),
    "ZeRO 3 where all fits": (2, ["parallel.data=2", "parallel.zero=3"], SLOW_LINK),
    "micro-batches too small": (2, ["parallel.tensor=2", "train.micro_batch=1", "train.steps=8"], SLOW_LINK),
    # An odd number of micro-batches cannot be halved, so fewer stages or smaller micro-batches do not help. Wide
    # layers: in narrow ones a split backward costs as much as the bubble.
    "wrong schedule": (2, ["parallel.pipeline=2", "train.micro_batch=3", "train.global_batch=9", "model.hidden=512",
                           "model.layers=4", "train.steps=24"], {}),
    "bad balance": (2, ["parallel.pipeline=2", "train.micro_batch=3", "train.global_batch=15", "model.hidden=192",
                        "parallel.schedule=zero-bubble", "parallel.stage_layers=[2,6]"], {}),
    # With such micro-batches, reducing and updating twice the gradients costs little.
    "too many stages": (2, ["parallel.pipeline=2", "train.micro_batch=5", "train.global_batch=10", "model.hidden=192",
                            "model.context=128", "train.steps=32"], {}),
}


class Runs:
    def __init__(self, arguments, directory):
        self.arguments, self.directory = arguments, pathlib.Path(directory)
        prepare(arguments.trireme, directory, CONFIG, "oar rower keel bench trireme sea pull the " * 2000, "--validation", "0.1")

    def run(self, ranks, settings, variables):
        """Returns the output and the seconds of the loop."""
        if "TRIREME_TEST_ISEND_MS" in variables:
            variables = variables | {"LD_PRELOAD": self.arguments.slow_calls}
        exported = [word for name, value in variables.items() for word in ("-x", f"{name}={value}")]
        command = [*self.arguments.mpiexec.split(), "-np", ranks, *exported, self.arguments.trireme, "train", "gpt.yaml"]
        done = run([*command, *sets(settings)], cwd=self.directory, timeout=600)
        lines = map(json.loads, (self.directory / "run/ranks.jsonl").read_text().splitlines())
        seconds = next(line["wall_s"] for line in lines if "wall_s" in line)
        shutil.rmtree(self.directory / "run")
        return done.stdout + done.stderr, seconds


def check(runs, name, repeat, verbose):
    """One row of the table, and whether the gain is as promised."""
    ranks, settings, variables = ROWS[name]
    output, seconds = runs.run(ranks, settings, variables)
    found = TRY.search(output)
    if verbose:
        print("\n".join(line for line in output.splitlines() if line.startswith(("time ", "suggestion:", "bottleneck:"))), flush=True)
    if found is None:
        return f"| {name} | none | | | NO |", False
    promised = float(found[2]) / 100
    followed = settings + found[1].split()
    before, after = [seconds], []
    for _ in range(repeat):
        after.append(runs.run(ranks, followed, variables)[1])
        if len(before) < repeat:
            before.append(runs.run(ranks, settings, variables)[1])
    # "a sample": the same steps process twice as many.
    samples = 2 if found[3] else 1
    measured = 1 - statistics.median(after) / samples / statistics.median(before)
    good = measured >= ENOUGH * promised
    return (f"| {name} | {found[1]} | {promised:.1%}{found[3] or ''} | {measured:.1%} | "
            f"{'yes' if good else 'NO'}, {measured / promised:.0%} |"), good


def main():
    parser = parser_of(__doc__, "tests/trireme_delayed")
    add_built(parser, "--slow-calls", "tests/launch/job/libtrireme_slow_calls.so")
    parser.add_argument("--mpiexec", default="mpirun --oversubscribe --bind-to none", help="how to start ranks")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each kind, of which the median counts")
    parser.add_argument("--row", choices=ROWS, action="append", help="this row alone; may be given several times")
    parser.add_argument("--verbose", action="store_true", help="what the wrong run says, too")
    arguments = parser.parse_args()
    good = 0
    rows = arguments.row or list(ROWS)
    with tempfile.TemporaryDirectory() as directory:
        runs = Runs(arguments, directory)
        print("| what is wrong | first advice | promised | measured | kept |\n|---|---|---|---|---|", flush=True)
        for name in rows:
            row, kept = check(runs, name, arguments.repeat, arguments.verbose)
            good += kept
            print(row, flush=True)
    print(f"{good} of {len(rows)}: at least {ENOUGH:.0%} of what is promised")
    return 0 if good == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
