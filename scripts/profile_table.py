#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the time of a training step on one core by operation, as a Markdown table: runs `trireme bench machine CONFIG
--profile` in several rounds and precisions in turns, and takes for each operation the round with the median step.

    python3 scripts/profile_table.py                                           configs/gpt_tiny.yaml, the GPT of the quickstart
    python3 scripts/profile_table.py configs/gpt_tiny.yaml --precision fp32 --rounds 5 --set model.layers=2

Takes about a minute on an idle core. Exits 1 if a run fails.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROW = re.compile(r"^(?P<name>\S+|outside of operations)\s+(?:(?P<calls>[\d.]+)\s+)?(?P<ms>[\d.]+)\s+(?P<share>[\d.]+) %"
                 r"(?:\s+(?P<lost>[\d.]+)(?:\s+(?P<mflop>[\d.]+)\s+[\d.]+)?\s+(?P<rate>[\d.]+))?$")
HEAD = re.compile(r"a step of ([\d.]+) ms .* reach ([\d.]+) GFLOP/s here, copies ([\d.]+) GB/s")


def profile(arguments, precision):
    """(ms of a step, limits as text, {operation: (ms, share, GFLOP/s, GB/s)})"""
    command = ["taskset", "-c", str(arguments.core), arguments.trireme, "bench", "machine", arguments.config, "--profile",
               "--seconds", str(arguments.seconds), "--set", f"precision={precision}", "--set", "device.type=cpu"]
    for setting in arguments.set:
        command += ["--set", setting]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=dict(os.environ, OMP_NUM_THREADS="1"))
    head = HEAD.search(done.stdout)
    if done.returncode != 0 or head is None:
        sys.exit(f"{' '.join(map(str, command))}\nended with status {done.returncode}:\n{done.stdout[-1000:]}{done.stderr[-1000:]}")
    sums = {}  # {operation: [ms, share, GFLOP, MB]}, over its sizes
    for row in filter(None, map(ROW.match, map(str.rstrip, done.stdout.splitlines()))):
        milliseconds = float(row["ms"])
        each = (milliseconds, float(row["share"]), 1e-3 * float(row["calls"] or 0) * float(row["mflop"] or 0),
                milliseconds * float(row["rate"] or 0))
        sums[row["name"]] = [sum(pair) for pair in zip(sums.get(row["name"], [0] * 4), each)]
    rows = {name: (milliseconds, share, f"{1e3 * flops / milliseconds:.1f}" if flops else "",
                   f"{moved / milliseconds:.1f}" if moved else "") for name, (milliseconds, share, flops, moved) in sums.items()}
    return float(head[1]), f"matmuls {float(head[2]):.0f} GFLOP/s, copies {float(head[3]):.0f} GB/s", rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", nargs="?", default="configs/gpt_tiny.yaml")
    parser.add_argument("--precision", nargs="+", default=["fp32", "bf16"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5, help="of steps in each round (default: 5)")
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--least", type=float, default=0.5, help="rows of at least so many %% of a step (default: 0.5)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--trireme", type=pathlib.Path, default=ROOT / "build" / "cpu" / "trireme")
    arguments = parser.parse_args()
    arguments.trireme = arguments.trireme.resolve()
    rounds = [{precision: profile(arguments, precision) for precision in arguments.precision} for _ in range(arguments.rounds)]
    median = {precision: sorted((each[precision] for each in rounds), key=lambda one: one[0])[arguments.rounds // 2]
              for precision in arguments.precision}
    print(f"| {arguments.config} | " + " | ".join(f"{precision}: ms, share | GFLOP/s | GB/s" for precision in median) + " |")
    print("|---|" + "---|" * (3 * len(median)))
    print("| **a step** (and what very large ones reach) | " +
          " | ".join(f"{step:.1f} | {limits.split(', ')[0]} | {limits.split(', ')[1]}" for step, limits, _ in median.values()) + " |")
    names = list(dict.fromkeys(name for _, _, rows in median.values() for name in rows))
    for name in names:
        found = [rows.get(name) for _, _, rows in median.values()]
        if max(row[1] for row in found if row) < arguments.least:
            continue
        cells = [f"{row[0]:.2f}, {row[1]:.1f} % | {row[2]} | {row[3]}" if row else "| |" for row in found]
        print(f"| {name.replace('_', ' ')} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
