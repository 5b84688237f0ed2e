# SPDX-License-Identifier: Apache-2.0
"""Sections that train one tiny config several ways and compare: devices, layouts, graphs, repetition."""
import json
import os

from harness import OK, SKIPPED, worst_relative

# Largest relative difference of a loss over ten steps. bf16 rounds to 8 bits, and every product may be summed in another
# order; the losses themselves are sums over a thousand tokens, over which roundings average out.
PARITY_BOUNDS = {"fp32": 1e-5, "bf16": 2e-2}


def parity(check):
    """The same config on the CPU and on the GPU."""
    for model in ("gpt", "resnet"):
        for precision, bound in PARITY_BOUNDS.items():
            name = f"{model} {precision}"
            reference = check.train(model, {"precision": precision, "device.type": "cpu"})
            run = check.train(model, {"precision": precision})
            if not (check.ended_well(name + " on the CPU", reference) and check.ended_well(name, run)):
                continue
            worst = worst_relative(run.losses, reference.losses)
            norms = worst_relative(*([step["grad_norm"] for step in one.steps] for one in (run, reference)))
            learned = run.losses[-1] < run.losses[0]
            check.judge(name, worst <= bound and learned, f"losses of {len(run.losses)} steps differ by {worst:.1e} (bound "
                        f"{bound:g}), gradient norms by {norms:.1e}, loss {run.losses[0]:.4f} to {run.losses[-1]:.4f}",
                        reference.seconds + run.seconds)


# ranks, what it is, settings; compared with one rank in fp32. Rows with layout mode must have its very bits.
LAYOUTS = [
    (2, "data 2", {}),
    (2, "data 2, inline reduction", {"parallel.reducer": "inline"}),
    (2, "tensor 2", {"parallel.tensor": 2}),
    (2, "pipeline 2, 1f1b", {"parallel.pipeline": 2}),
    (2, "ZeRO 1", {"parallel.zero": 1}),
    (2, "ZeRO 3", {"parallel.zero": 3}),
    (2, "data 2, layout mode", {"reproducibility": "layout"}),
    (2, "tensor 2, layout mode", {"parallel.tensor": 2, "reproducibility": "layout"}),
    (4, "data 2 x tensor 2, ZeRO 1", {"parallel.tensor": 2, "parallel.zero": 1}),
    (4, "data 2 x pipeline 2, ZeRO 2", {"parallel.pipeline": 2, "parallel.zero": 2}),
    (4, "tensor 2 x pipeline 2, zero-bubble", {"parallel.tensor": 2, "parallel.pipeline": 2,
                                               "parallel.schedule": "zero-bubble"}),
    (4, "data 4, ZeRO 3, layout mode", {"parallel.zero": 3, "reproducibility": "layout"}),
]
QUICK_LAYOUTS = ["data 2", "tensor 2, layout mode"]
LAYOUT_BOUND = 1e-5


def ranks(check):
    """Several ranks on one device against one rank."""
    if not check.mpirun:
        check.add("all layouts", SKIPPED, "no mpirun on PATH; scripts/install_deps.sh --from unpacks one without root")
        return
    base = {"precision": "fp32", "parallel.tensor_blocks": 2}
    alone = {mode: check.train("gpt", {**base, "reproducibility": mode}) for mode in ("run", "layout")}
    if not all(check.ended_well(f"one rank, {mode} mode", run) for mode, run in alone.items()):
        return
    bits = {}
    for count, name, settings in LAYOUTS:
        if check.quick and name not in QUICK_LAYOUTS:
            continue
        run = check.train("gpt", {**base, **settings}, ranks=count)
        if not check.ended_well(name, run):
            continue
        mode = settings.get("reproducibility", "run")
        bits[name] = run.bits()
        worst = worst_relative(run.losses, alone[mode].losses)
        if mode == "layout":
            equal = bits[name] == alone[mode].bits()
            check.judge(name, equal, "the bits of one rank" if equal else f"other bits than one rank: losses differ by {worst:.1e}",
                        run.seconds)
        else:
            check.judge(name, worst <= LAYOUT_BOUND, f"losses differ by {worst:.1e} from one rank (bound {LAYOUT_BOUND:g})",
                        run.seconds)
    if "data 2" in bits and "data 2, inline reduction" in bits:
        check.judge("overlapped equals inline reduction", bits["data 2"] == bits["data 2, inline reduction"],
                    "losses, norms and weights bit for bit")


def graphs(check):
    """A replayed CUDA graph against the eager step, bit for bit."""
    if check.device != "cuda":
        check.add("graphs", SKIPPED, "only the cuda device has graphs")
        return
    for model in ("gpt",) if check.quick else ("gpt", "resnet"):
        eager = check.train(model, {"precision": "bf16", "device.graphs": "off"})
        if not check.ended_well(f"{model}, off", eager):
            continue
        for mode in ("layer", "step"):
            run = check.train(model, {"precision": "bf16", "device.graphs": mode})
            name = f"{model}, {mode}"
            if not check.ended_well(name, run):
                continue
            # The program says in one line where it could not capture; equal bits then prove nothing.
            reason = next((line.strip() for line in run.output.splitlines() if "device.graphs" in line), "")
            equal = run.bits() == eager.bits()
            check.judge(name, equal, ("equals the eager step" if equal else "differs from the eager step")
                        + (f"; {reason}" if reason else ""), run.seconds)


def repeat(check):
    """The same config twice: reproducibility `run` promises the same bits."""
    for model in ("gpt", "resnet"):
        for precision in ("bf16",) if check.quick else ("fp32", "bf16"):
            name = f"{model} {precision}"
            one, two = (check.train(model, {"precision": precision}) for _ in range(2))
            if check.ended_well(name, one) and check.ended_well(name, two):
                losses, weights = one.bits()
                check.judge(name, weights is not None and one.bits() == two.bits(),
                            f"{len(losses)} steps, weights {weights} and {two.bits()[1]}", one.seconds + two.seconds)


def engine(check):
    """Fails early, and once, where the program cannot train on the device at all."""
    run = check.train("gpt", {"train.steps": 2})
    if run.code == 0:
        with open(os.path.join(run.directory, "environment.json"), encoding="utf-8") as file:
            check.environment = json.load(file)
        check.add("train two steps", OK, f"loss {run.losses[-1]:.4f}", run.seconds)
    else:
        check.ended_well("train two steps", run)
    return run.code == 0
