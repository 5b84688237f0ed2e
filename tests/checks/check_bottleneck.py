#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the bottleneck names the rank that was slowed down.

Trains a small GPT with trireme_delayed (tests/launch/fixture/test_delays.cpp). All ranks sleep in their steps, so that
steps last equally long on a busy machine, and one rank sleeps for a known additional share of a step: in its
computation, its loader, its message stream, or its checkpoints. Prints a table of the bottlenecks: the rank, the cause,
and its seconds beside the slept ones. Before each goes a clean run, in which no rank may be named.

  python3 tests/checks/check_bottleneck.py                  # every place, layout and share: about 7 minutes
  python3 tests/checks/check_bottleneck.py --clean 100      # 100 clean runs alone
"""
import pathlib
import re
import shutil
import statistics
import sys
import tempfile

from shared import parser_of, prepare, read_steps, run, sets

LAYOUTS = {  # name: (ranks, the rank that stands still, settings)
    "data 2": (2, 1, ["parallel.data=2"]),
    "tensor 2": (2, 1, ["parallel.tensor=2"]),
    "pipeline 2 x data 2": (4, 3, ["parallel.pipeline=2", "parallel.data=2"]),
    "ZeRO 3, data 2": (2, 0, ["parallel.zero=3", "parallel.data=2"]),
}
CAUSES = {
    "compute": "its own work takes longer",
    "batch": "it waits for its data",
    "messages": "its messages leave late",
    "checkpoint": "its checkpoints take longer",
}
SHARES = (0.05, 0.20, 0.50)
SAVE_EVERY = 5
LATE = re.compile(r"\brank (\d+) on \S+ arrives ([\d.e+]+) ms late at (\d+) % of steps: (.*), ([\d.]+) s in all")

CONFIG = """
run: {directory: run, seed: 7}
device: {type: cpu}
precision: fp32
model: {family: gpt2, layers: 2, hidden: 32, heads: 2, context: 24, vocabulary: 256}
data: {path: text/train, workers: 1, prefetch: 2}
train: {global_batch: 8, micro_batch: 4, log_every: 1000}
optimizer: {name: adamw, learning_rate: 1e-3}
"""


class Runs:
    def __init__(self, program, mpiexec, directory):
        self.program, self.mpiexec, self.directory, self.count = program, mpiexec, pathlib.Path(directory), 0
        prepare(program, directory, CONFIG, "oar rower keel bench trireme sea pull the " * 300, "--validation", "0.1")

    def run(self, ranks, settings, delays):
        """Returns the output, the rank's total sleep in seconds, and the median step in milliseconds."""
        self.count += 1
        directory, total = self.directory / f"run{self.count}", self.directory / "total"
        total.write_text("0")
        command = [*self.mpiexec, "-np", ranks, self.program, "train", "gpt.yaml"]
        done = run([*command, *sets([f"run.directory={directory}", *settings])], cwd=self.directory, timeout=300,
                   variables={"TRIREME_TEST_DELAY": ",".join(delays), "TRIREME_TEST_DELAY_TOTAL": str(total)})
        step_ms = statistics.median(step["step_ms"] for step in read_steps(directory))
        shutil.rmtree(directory)
        return done.stdout + done.stderr, 1e-3 * float(total.read_text().split()[0]), step_ms


def settings_of(layout, place, steps):
    saves = [f"checkpoint.every_steps={SAVE_EVERY}"] if place == "checkpoint" else []
    return [*LAYOUTS[layout][2], f"train.steps={steps}", *saves]


def check(runs, layout, place, share, steps, step_ms):
    """One row of the table, whether it is correct, the bottleneck, and whether the preceding clean run, which gives the
    step time, named a rank."""
    ranks, rank, _ = LAYOUTS[layout]
    micro_batches = 8 // 4 // (1 if layout == "tensor 2" else 2)
    settings = settings_of(layout, place, steps)
    clean, _, clean_ms = runs.run(ranks, settings, [f"compute:all:{step_ms}"])
    length = share * clean_ms * {"checkpoint": SAVE_EVERY, "batch": 1 / micro_batches}.get(place, 1)
    alarm = LATE.search(clean)
    output, slept, _ = runs.run(ranks, settings, [f"compute:all:{step_ms}", f"{place}:{rank}:{length:.3f}"])
    found = LATE.search(output)
    bottleneck = next((line for line in output.splitlines() if line.startswith("bottleneck: ")), "none")
    if found is None:
        return f"| {layout} | {place} | {share:.0%} | {slept:.2f} | nobody | | | NO |", False, bottleneck, alarm
    seconds = float(found[5])
    error = seconds / slept - 1
    good = int(found[1]) == rank and found[4].startswith(CAUSES[place]) and abs(error) <= 0.1
    row = (f"| {layout} | {place} of rank {rank} | {share:.0%} | {slept:.2f} | rank {found[1]}: {found[4]} "
           f"({found[2]} ms at {found[3]} % of steps) | {seconds:.2f} | {error:+.1%} | {'yes' if good else 'NO'} |")
    return row, good, bottleneck, alarm


def clean_runs(runs, count, steps, step_ms):
    alarms = []
    for number in range(count):
        layout = list(LAYOUTS)[number % len(LAYOUTS)]
        output, _, _ = runs.run(LAYOUTS[layout][0], settings_of(layout, "none", steps), [f"compute:all:{step_ms}"])
        found = LATE.search(output)
        if found:
            alarms.append(f"{layout}: {found[0]}")
        print(f"clean run {number + 1}: {alarms[-1] if found else 'nobody'}", flush=True)
    return alarms


def main():
    parser = parser_of(__doc__, "tests/trireme_delayed")
    parser.add_argument("--mpiexec", default="mpirun --oversubscribe --bind-to none", help="how to start ranks")
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--step-ms", type=float, default=100, help="how long a step of every rank sleeps")
    parser.add_argument("--clean", type=int, help="so many clean runs, and no others")
    parser.add_argument("--layout", choices=LAYOUTS, help="this layout alone")
    parser.add_argument("--place", choices=CAUSES, help="this place alone")
    parser.add_argument("--verbose", action="store_true", help="the bottlenecks too")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        runs = Runs(arguments.trireme, arguments.mpiexec.split(), directory)
        if arguments.clean is not None:
            alarms = clean_runs(runs, arguments.clean, arguments.steps, arguments.step_ms)
            print(f"{arguments.clean} clean runs: {len(alarms)} false alarms")
            return 1 if alarms else 0
        print("| layout | delay | of a step | slept, s | found | s | off by | right |\n|---|---|---|---|---|---|---|---|")
        wrong, alarms = 0, []
        for layout in [arguments.layout] if arguments.layout else LAYOUTS:
            for place in [arguments.place] if arguments.place else CAUSES:
                for share in SHARES:
                    row, good, bottleneck, alarm = check(runs, layout, place, share, arguments.steps, arguments.step_ms)
                    wrong += not good
                    alarms += [f"{layout}: {alarm[0]}"] if alarm else []
                    print(row, flush=True)
                    if arguments.verbose:
                        print(bottleneck, flush=True)
        print("\n".join([*alarms, f"{wrong} wrong; {runs.count // 2} clean runs: {len(alarms)} false alarms"]))
    return 1 if wrong or alarms else 0


if __name__ == "__main__":
    sys.exit(main())
