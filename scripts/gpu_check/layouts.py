# SPDX-License-Identifier: Apache-2.0
"""Several ranks against one: data, tensor and pipeline parallel, ZeRO; graphs of two ranks. Ranks share a GPU, or
have one each if there are several.
"""
import training
from harness import Row, judged, same_bits, worst_relative

BOUND = 1e-5
BASE = {"precision": "fp32", "parallel.tensor_blocks": 2}
# ranks, description, settings. Those of layout mode must have the bits of one rank. Sorted by risk: rows that may hang
# come last.
SAFE = [
    (2, "data 2", {}),
    (2, "data 2, inline reduction", {"parallel.reducer": "inline"}),
    (2, "ZeRO 1", {"parallel.zero": 1}),
    (2, "data 2, layout mode", {"reproducibility": "layout"}),
    (2, "tensor 2", {"parallel.tensor": 2}),
    (2, "tensor 2, sums in 4 chunks", {"parallel.tensor": 2, "parallel.tensor_chunks": 4}),
    (2, "tensor 2, layout mode", {"parallel.tensor": 2, "reproducibility": "layout"}),
    (2, "ZeRO 3", {"parallel.zero": 3}),
    (2, "context 2, gathered keys", {"parallel.context": 2, "parallel.context_mode": "gather"}),
    (2, "context 2, whole heads", {"parallel.context": 2, "parallel.context_mode": "heads"}),
    (4, "data 2 x tensor 2, ZeRO 1", {"parallel.tensor": 2, "parallel.zero": 1}),
    (4, "data 4, ZeRO 3, layout mode", {"parallel.zero": 3, "reproducibility": "layout"}),
]
PIPELINES = [
    (2, "pipeline 2, gpipe", {"parallel.pipeline": 2, "parallel.schedule": "gpipe"}),
    (2, "pipeline 2, 1f1b", {"parallel.pipeline": 2}),
    (4, "pipeline 4, 1f1b", {"parallel.pipeline": 4}),
    (4, "data 2 x pipeline 2, ZeRO 2", {"parallel.pipeline": 2, "parallel.zero": 2}),
    (4, "tensor 2 x pipeline 2, zero-bubble", {"parallel.tensor": 2, "parallel.pipeline": 2, "parallel.schedule": "zero-bubble"}),
]


def one_rank(check, mode):
    return check.once(f"one rank, {mode}", lambda: check.train("gpt", {**BASE, "reproducibility": mode}))


def against_one(ranks, name, settings):
    mode = settings.get("reproducibility", "run")

    def run(check):
        alone = one_rank(check, mode)
        run = check.once(name, lambda: check.train("gpt", {**BASE, **settings}, ranks))
        worst = worst_relative(run.losses, alone.losses)
        if mode == "layout":
            return judged(run.bits() == alone.bits(), f"weights {run.weights()}, of one rank {alone.weights()}, losses differ by "
                          f"{worst:.1e}")
        return judged(worst <= BOUND, f"losses differ by {worst:.1e} from one rank (bound {BOUND:g})")
    return run


def same_reduction(check):
    overlapped, inline = (check.once(name, lambda settings=settings: check.train("gpt", {**BASE, **settings}, 2))
                          for name, settings in (("data 2", {}), ("data 2, inline reduction", {"parallel.reducer": "inline"})))
    return same_bits(overlapped, inline)


def rows_of(layouts, limit):
    return [Row(name, f"{name} trains as one rank" + (", bit for bit" if "layout" in name else ""), limit,
                against_one(ranks, name, settings)) for ranks, name, settings in layouts]


def safe(_check):
    rows = rows_of(SAFE, 60)  # each makes a dozen communicators
    return [*rows[:2], Row("overlapped reduction", "gradients reduced during backward have the bits of those reduced after it", 60,
                           same_reduction), *rows[2:]]


def graphs(_check):
    return [Row(f"2 ranks, graphs {mode}", f"two data-parallel ranks: device.graphs: {mode} records NCCL's calls and has the bits "
                "of no graphs", 35, training.replayed("gpt", mode, {"precision": "bf16"}, 2), lacks="graphs") for mode in ("layer", "step")]


def pipelines(_check):
    return rows_of(PIPELINES, 25)
