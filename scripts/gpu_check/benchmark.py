# SPDX-License-Identifier: Apache-2.0
"""Speed: first Trireme alone, then next to PyTorch, one call of compare_pytorch.py per row."""
import json
import os
import pathlib
import sys

import gpu_info
from gpt2 import why_no_torch
from harness import NotProvable, Row, RunFailed, proved
from workloads import CPU_MODELS, REPOSITORY, Workload, set_options

# The smallest and the largest first: if time runs out, the report still spans the range.
CUDA_ORDER = ["gpt2_124m", "resnet50", "gpt2_1558m", "gpt2_350m", "gpt2_774m"]
# Goals on one H200: MFU or images per second, and the ratio to PyTorch on every row. Missing a goal is no error of the
# program.
GOAL_RATIO = 1.15
GOAL_MFU = {"gpt2_124m": 0.55, "gpt2_1558m": 0.60}
GOAL_RATE = {"resnet50": 3400}
GOAL_EXPOSED = 0.02
REHEARSED_BATCH = 2
HARDWARE = {"H200": "h200", "H100": "h100", "B200": "b200", "A100": "a100"}


def planned(check, model):
    """The prediction of `trireme plan` for the benchmark's step, or None for a GPU without a description in
    configs/hardware."""
    name = (gpu_info.query("name") or [""])[0]
    hardware = next((file for part, file in HARDWARE.items() if part in name), None) if check.on_gpu else "cpu_example"
    if hardware is None:
        return None
    work, out = Workload(model), os.path.join(check.place, f"plan_{model}.json")
    batch = work.batch if check.on_gpu else REHEARSED_BATCH
    settings = {**work.overrides, "train.micro_batch": batch, "train.global_batch": batch, "device.type": check.device,
                "precision": "bf16" if check.on_gpu else "fp32"}
    check.tool("plan", work.path, "--ranks", "1", "--hardware", f"configs/hardware/{hardware}.yaml", "--json", out,
               *set_options(settings))
    plan = json.loads(pathlib.Path(out).read_text())
    return {"hardware": hardware, "memory": plan["memory"]["needed"] / 2**20,
            **{part: 1000 * plan["step_seconds"][part] for part in ("total", "forward", "backward", "optimizer")}}


def measured(model, beside):
    def run(check):
        arguments, missing = check.arguments, ""
        if beside:
            missing = check.once("no torch", lambda: (why_no_torch(arguments.torch_python, check.device),))[0]
        if missing:
            raise NotProvable(f"no PyTorch in {arguments.torch_python}: {missing}")
        out = os.path.join(check.place, f"benchmark_{model}_{beside}.json")
        steps, warmup = (25, 5) if check.on_gpu else (3, 1)
        command = [sys.executable, os.path.join(REPOSITORY, "scripts", "compare_pytorch.py"), "--device", check.device,
                   "--model", model, "--ranks", "1", "--rounds", "1", "--steps", str(steps), "--warmup", str(warmup),
                   "--precision", "bf16" if check.on_gpu else "fp32", "--json", out, "--trireme", check.trireme,
                   *(["--torch-python", arguments.torch_python] if beside else ["--without-torch"]),
                   *([] if check.on_gpu else ["--batch", str(REHEARSED_BATCH)])]
        for setting in arguments.set:
            command += ["--set", setting]
        finished = check.run(command)
        if finished.code != 0:
            raise RunFailed("", finished)
        row = json.loads(pathlib.Path(out).read_text())[0]
        row["planned"] = planned(check, model)
        return proved(summary(row), row)
    return run


def models_of(check):
    return check.arguments.models or (CUDA_ORDER if check.on_gpu else CPU_MODELS)


def alone(check):
    return [Row(model, f"{model}: speed, share of the peak, memory and phases of a step", 45, measured(model, False))
            for model in models_of(check)]


def beside_pytorch(check):
    return [Row(f"{model} beside PyTorch", f"{model}: speed and memory beside PyTorch", 150, measured(model, True))
            for model in models_of(check)]


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


def beside_plan(row):
    """(what, measured, planned, unit) of a row; empty without a plan."""
    side, plan = ours(row), row.get("planned")
    if not plan:
        return
    yield "step", side["step_ms"], plan["total"], "ms"
    for part in ("forward", "backward", "optimizer"):
        yield part, side["phases"][part + "_ms"], plan[part], "ms"
    if side["peak"]:
        yield "memory", side["peak"], plan["memory"], "MiB"


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
