#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What does telemetry cost a run? Trains the quickstart's GPT on random bytes with all of it off, with all of it on (the
defaults, TensorBoard, Prometheus, W&B, MLflow), and with traced steps besides, by turns, and prints the ratio of the median
step's period (with what lies between steps) to that of the run that is off, and an interval that holds the median ratio in
95 of 100 cases (bootstrap over the rounds). Wants a quiet machine.

  python3 scripts/check_telemetry_cost.py              # ten rounds: about 5 minutes
"""
import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

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
OFF = ["telemetry.tensorboard=false", "telemetry.health_minutes=0", "telemetry.warning_minutes=0"]
ON = [f"telemetry.{key}=true" for key in ("tensorboard", "prometheus", "wandb", "mlflow")]
LEFT_OUT = 5  # steps that warm up


def period_of(runs, settings):
    """The median over the steps, in milliseconds."""
    command = [*runs.mpiexec.split(), "-np", str(runs.ranks), runs.trireme, "train", "gpt.yaml", "--split-times",
               "--set", f"train.steps={runs.steps}", *(word for setting in settings for word in ("--set", setting))]
    done = subprocess.run(command, cwd=runs.directory, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False, timeout=600)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}")
    run = os.path.join(runs.directory, "run")
    with open(os.path.join(run, "time_split.jsonl"), encoding="utf-8") as file:
        periods = [line["period_ms"] for line in map(json.loads, file)]
    shutil.rmtree(run)
    return statistics.median(periods[LEFT_OUT:])


def interval_of(ratios):
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(2000))
    return medians[50], medians[-51]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", default="build/cpu/trireme")
    parser.add_argument("--mpiexec", default="mpirun --bind-to none", help="how to start ranks")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=10)
    runs = parser.parse_args()
    runs.trireme = os.path.abspath(runs.trireme)
    if not os.access(runs.trireme, os.X_OK):
        raise SystemExit(f"{runs.trireme}: no such program; build the target trireme, or name it by --trireme")
    trace = [f"telemetry.trace={LEFT_OUT + 1}-{min(runs.steps, LEFT_OUT + 100)}"]
    kinds = {"off": OFF, "on": ON, "on, all steps traced": ON + trace}
    periods = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory() as runs.directory:
        draw = random.Random(1)
        with open(os.path.join(runs.directory, "text.bin"), "wb") as file:
            file.write(bytes(draw.choices(range(1, 128), k=400_000)))
        with open(os.path.join(runs.directory, "gpt.yaml"), "w", encoding="utf-8") as file:
            file.write(CONFIG)
        subprocess.run([runs.trireme, "data", "pack-text", "--quiet", "--out", "text", "--validation", "0.1", "text.bin"],
                       cwd=runs.directory, check=True)
        for number in range(runs.rounds):
            # Each is first, second and last equally often.
            order = list(kinds)[number % 3:] + list(kinds)[:number % 3]
            for kind in order:
                periods[kind].append(period_of(runs, kinds[kind]))
            print(f"round {number + 1}: " + ", ".join(f"{kind} {periods[kind][-1]:.3f} ms" for kind in kinds), flush=True)
    for kind in list(kinds)[1:]:
        ratios = [on / off for on, off in zip(periods[kind], periods["off"])]
        low, high = interval_of(ratios)
        print(f"{kind}: {statistics.median(ratios):.4f} times the step that is off ({low:.4f} to {high:.4f}, "
              f"{runs.rounds} rounds, {statistics.median(periods['off']):.2f} ms off)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
