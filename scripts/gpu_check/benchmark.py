# SPDX-License-Identifier: Apache-2.0
"""Speed beside PyTorch: one call of compare_pytorch.py per model, each with a share of the time that is left."""
import json
import os
import subprocess
import sys

from harness import FAILED, OK, SKIPPED
from workloads import CPU_MODELS, REPOSITORY, WORKLOADS

# The smallest and the largest first: where time runs out, the report still spans the range.
CUDA_ORDER = ["gpt2_124m", "resnet50", "gpt2_1558m", "gpt2_350m", "gpt2_774m"]
# What one H200 should reach: MFU or images per second, and the ratio to PyTorch on every row. Missing a goal is not an
# error of the program.
GOAL_RATIO = 1.15
GOAL_MFU = {"gpt2_124m": 0.55, "gpt2_1558m": 0.60}
GOAL_RATE = {"resnet50": 3400}
GOAL_EXPOSED = 0.02


def has_torch(python, device):
    """Why PyTorch cannot be measured, or nothing."""
    probe = "import torch" + ("; assert torch.cuda.is_available(), 'PyTorch sees no GPU'" if device == "cuda" else "")
    try:
        done = subprocess.run([python, "-c", probe], capture_output=True, text=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["cannot import torch"])[-1]


def benchmark(check):
    arguments = check.arguments
    missing = has_torch(arguments.torch_python, check.device)
    if missing:
        check.add("PyTorch", SKIPPED, f"{arguments.torch_python}: {missing}; Trireme is measured alone")
    models = arguments.models or (CUDA_ORDER if check.device == "cuda" else CPU_MODELS)
    if check.quick:
        models = models[:2]
    for index, model in enumerate(models):
        out = os.path.join(check.place, f"benchmark_{model}.json")
        steps, warmup = (3, 1) if check.device == "cpu" else (15, 5) if check.quick else (25, 5)
        command = [sys.executable, os.path.join(REPOSITORY, "scripts", "compare_pytorch.py"), "--device", check.device,
                   "--model", model, "--ranks", "1", "--rounds", "1", "--steps", str(steps), "--warmup", str(warmup),
                   "--precision", "bf16" if check.device == "cuda" else "fp32", "--json", out, "--trireme", check.trireme,
                   "--torch-python", arguments.torch_python]
        command += ["--without-torch"] if missing else []
        command += ["--batch", "2"] if check.device == "cpu" else []
        for setting in arguments.set:
            command += ["--set", setting]
        # A model may take twice its share: those before it seldom need theirs.
        share = 2 * check.left() / (len(models) - index)
        done = check.run(command, share)
        if done.code == 124:
            check.add(model, SKIPPED, f"not done within {done.seconds:.0f} s", done.seconds)
            continue
        if done.code != 0:
            check.add(model, FAILED, f"ended with {done.code}: {done.last_lines()}", done.seconds)
            continue
        with open(out, encoding="utf-8") as file:
            row = json.load(file)[0]
        check.rows.append(row)
        check.add(model, OK, summary(row), done.seconds)


def ours(row):
    return next(side for name, side in row["sides"].items() if name.startswith("Trireme"))


def ratio(row):
    torch = row["sides"].get("PyTorch")
    return ours(row)["rate"] / torch["rate"] if torch else None


def summary(row):
    side = ours(row)
    text = f"{side['rate']:,.0f} {row['unit']}"
    if side["mfu"]:
        text += f", MFU {100 * side['mfu']:.1f} %"
    if ratio(row):
        text += f", {ratio(row):.2f} x PyTorch"
    return text


def goals(row):
    """(goal, reached) of a row."""
    side = ours(row)
    if ratio(row):
        yield f"{row['model']}: {GOAL_RATIO} x PyTorch", ratio(row) >= GOAL_RATIO
    if row["model"] in GOAL_MFU and side["mfu"]:
        yield f"{row['model']}: MFU {100 * GOAL_MFU[row['model']]:.0f} %", side["mfu"] >= GOAL_MFU[row["model"]]
    if row["model"] in GOAL_RATE:
        yield f"{row['model']}: {GOAL_RATE[row['model']]:,} {row['unit']}", side["rate"] >= GOAL_RATE[row["model"]]
    exposed = (side["phases"]["data_wait_ms"] + side["phases"]["exposed_comm_ms"]) / side["step_ms"]
    yield (f"{row['model']}: data and communication exposed below {100 * GOAL_EXPOSED:.0f} % of a step "
           f"({100 * exposed:.1f} %)"), exposed < GOAL_EXPOSED


def known_models():
    return list(WORKLOADS)
