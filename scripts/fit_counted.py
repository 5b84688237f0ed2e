#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits counted.matmul and counted.half_dimension of configs/hardware/h100.yaml to LLMQ's bf16 rows on one H100, and
reports the errors of `trireme plan` on the other rows. The models are our configs with LLMQ's sizes, so the counted
operations are those of our engine; the fit assumes equally fast matmuls and attention, since both use cuBLASLt and
cuDNN.

    python3 scripts/fit_counted.py                 the table, with the file unchanged
    python3 scripts/fit_counted.py --fit           tries every pair first (about 4 minutes)

Rows: IST-DASLab/llmq at b77d9691, benchmarks/H100x1.md and H100x8.md, the last step shown; llm.c as in tests/plan.
"""
import argparse
import collections
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
HARDWARE = ROOT / "configs" / "hardware" / "h100.yaml"
MATMUL = [i / 100 for i in range(60, 86)]
HALF = [25, 50, 75, 100, 125, 150, 200, 250, 300]
Row = collections.namedtuple("Row", "label ranks config settings published use")

# layers, hidden, heads, key heads, intermediate, vocabulary, tied head
QWEN = {"0.5B": (24, 896, 14, 2, 4864, 151936, "true"), "1.5B": (28, 1536, 12, 2, 8960, 151936, "true"),
        "3B": (36, 2048, 16, 2, 11008, 151936, "true"), "7B": (28, 3584, 28, 4, 18944, 152064, "false")}
KEYS = ["layers", "hidden", "heads", "kv_heads", "intermediate", "vocabulary", "tied_head"]


def llmq(size, ranks, precision, batch, tokens, use, recompute="none"):
    settings = {f"model.{key}": value for key, value in zip(KEYS, QWEN[size])}
    settings |= {"model.context": 1024, "precision": precision, "train.micro_batch": batch, "train.global_batch": 512,
                 "train.recompute": recompute, "parallel.zero": 0 if ranks == 1 else 1}
    return Row(f"LLMQ, Qwen2.5 {size} {precision}", ranks, "configs/qwen2_5_7b.yaml", settings, tokens, use)


def llm_c(size, batch, samples, tokens):
    return Row(f"llm.c, GPT-2 {size}", 8, f"configs/gpt2_{size.lower()}.yaml",
               {"train.micro_batch": batch, "train.global_batch": samples}, tokens, "seen")


ROWS = [
    llmq("0.5B", 1, "bf16", 32, 149_500, "fit"), llmq("1.5B", 1, "bf16", 32, 58_710, "fit"),
    llmq("3B", 1, "bf16", 16, 30_958, "fit"), llmq("7B", 1, "bf16", 4, 13_863, "fit"),
    llmq("0.5B", 8, "bf16", 32, 1_127_000 / 8, "seen"), llmq("1.5B", 8, "bf16", 32, 456_000 / 8, "seen"),
    llmq("3B", 8, "bf16", 16, 240_000 / 8, "seen"), llmq("7B", 8, "bf16", 8, 112_000 / 8, "seen"),
    llmq("0.5B", 1, "fp8", 32, 164_000, "seen"), llmq("1.5B", 1, "fp8", 32, 72_777, "seen"),
    llmq("3B", 1, "fp8", 16, 40_473, "seen"), llmq("7B", 1, "fp8", 16, 19_194, "seen"),
    llmq("0.5B", 8, "fp8", 64, 1_285_000 / 8, "seen"), llmq("1.5B", 8, "fp8", 32, 564_000 / 8, "seen"),
    llmq("3B", 8, "fp8", 16, 313_000 / 8, "seen"),
    llm_c("124M", 64, 512, 468_114), llm_c("1558M", 16, 1024, 46_811),
]


class Planner:
    def __init__(self, binary, place):
        self.binary, self.plan = binary, pathlib.Path(place) / "plan.json"
        self.hardware = pathlib.Path(place) / "h100.yaml"
        # LLMQ keeps 16-bit states; our f32 states need not fit to be counted.
        self.text = re.sub(r"(?m)^(  memory_bytes: )\S+", r"\g<1>1e15", HARDWARE.read_text())

    def set(self, matmul, half):
        section = re.search(r"(?m)^counted:.*\n(?:  .*\n)+", self.text)
        if section is None:
            sys.exit(f"{HARDWARE} has no section counted")
        changed = section.group()
        for key, value in {"matmul": matmul, "half_dimension": half}.items():
            changed = re.sub(rf"(?m)^(  {key}: )\S+", rf"\g<1>{value}", changed)
        self.text = self.text.replace(section.group(), changed)

    def error(self, row):
        """Predicted / published - 1, in tokens per second and GPU."""
        self.hardware.write_text(self.text)
        command = [self.binary, "plan", row.config, "--ranks", str(row.ranks), "--hardware", self.hardware, "--json", self.plan]
        for key, value in row.settings.items():
            command += ["--set", f"{key}={value}"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{row.label}: {done.stderr}")
        return json.loads(self.plan.read_text())["tokens_per_second"] / row.ranks / row.published - 1

    def loss(self):
        return sum(math.log1p(self.error(row)) ** 2 for row in ROWS if row.use == "fit")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", type=pathlib.Path, default=ROOT / "build" / "cpu" / "trireme")
    parser.add_argument("--fit", action="store_true", help="try every pair and take the best")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        planner = Planner(arguments.trireme.resolve(), place)
        if arguments.fit:
            tried = []
            for half in HALF:
                for matmul in MATMUL:
                    planner.set(matmul, half)
                    tried.append((planner.loss(), matmul, half))
            for loss, matmul, half in sorted(tried)[:5]:
                print(f"counted.matmul {matmul}, counted.half_dimension {half}: loss {loss:.5f}")
            planner.set(*min(tried)[1:])
        print("| row | GPUs | published | predicted | error | use |\n|---|---|---|---|---|---|")
        for row in ROWS:
            error = planner.error(row)
            print(f"| {row.label} | {row.ranks} | {row.published:,.0f} | {row.published * (1 + error):,.0f} | "
                  f"{100 * error:+.1f} % | {row.use} |")


if __name__ == "__main__":
    main()
