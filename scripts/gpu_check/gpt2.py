# SPDX-License-Identifier: Apache-2.0
"""GPT-2 124M at its real size: next to PyTorch from the same weights on the same data, and under every precision and
switch. Tiny runs never use the kernels of this size: cross-entropy with 1024 threads, the embedding's three-pass
sort, cuDNN's attention over 1024 tokens.
"""
import itertools
import json
import os
import pathlib
import re
import random
import subprocess

import basics
import training
from basics import VERBOSE, require_cudnn_attention
from harness import NotProvable, Row, RunFailed, failed, falls, judged, not_proved, proved, worst_relative
from workloads import write_tokens

REAL = {"layers": 12, "hidden": 768, "heads": 12, "context": 1024, "vocabulary": 50257}
REHEARSED = {"layers": 2, "hidden": 128, "heads": 4, "context": 64, "vocabulary": 1000}
ADAMW = {"learning_rate": 6e-4, "betas": [0.9, 0.95], "epsilon": 1e-8, "weight_decay": 0.1, "clip": 1.0}
# Largest relative differences of the first gradient norm and of the losses of all steps. AdamW's first steps divide
# every gradient by its magnitude, so weights with tiny gradients follow their rounding; the loss hardly depends on
# them.
PYTORCH_BOUNDS = {"fp32": (5e-5, 1e-4), "bf16": (1e-2, 3e-3)}


class Size:
    """The trained model: the real size, or a small one for a rehearsal on the CPU."""

    def __init__(self, check):
        self.model = dict(REAL if check.on_gpu else REHEARSED)
        self.steps, self.global_batch, self.micro_batch = (20, 16, 8) if check.on_gpu else (10, 4, 2)
        self.short = 10  # steps of the switches

    def token_count(self):
        return self.steps * self.global_batch * self.model["context"] + 1


def data(check):
    """The prefix of learnable tokens over the whole vocabulary: Zipf's law, shuffled, so that ids of all sizes are
    frequent as in text."""
    size, generator = Size(check), random.Random(1)
    ids = list(range(size.model["vocabulary"]))
    generator.shuffle(ids)
    weights = list(itertools.accumulate(1 / (place + 10) for place in range(len(ids))))
    prefix = os.path.join(check.place, "gpt2_tokens")
    write_tokens(prefix, generator.choices(ids, cum_weights=weights, k=size.token_count()))
    return prefix


def settings(check, precision, steps, extra=None):
    size, tokens = Size(check), check.once("gpt2 data", lambda: data(check))
    model = {f"model.{name}": value for name, value in size.model.items()}
    return {**model, "precision": precision, "data.path": tokens, "data.validation_path": '""', "data.shuffle": False,
            "reproducibility": "run", "train.steps": steps, "train.global_batch": size.global_batch,
            "train.micro_batch": size.micro_batch, "train.clip_norm": ADAMW["clip"], "train.eval_every": 0, "train.log_every": 5,
            "optimizer.learning_rate": ADAMW["learning_rate"], "optimizer.epsilon": ADAMW["epsilon"],
            "lr_schedule.name": "constant", "lr_schedule.warmup_steps": 0, **(extra or {})}


def train(check, precision, extra=None, steps=None, ranks=1):
    return check.train("configs/gpt2_124m.yaml", settings(check, precision, steps or Size(check).short, extra), ranks,
                       environment=VERBOSE)


# ---- Next to PyTorch. ----

def why_no_torch(python, device):
    probe = "import torch" + ("; assert torch.cuda.is_available(), 'PyTorch sees no GPU'" if device == "cuda" else "")
    try:
        done = subprocess.run([python, "-c", probe], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["cannot import torch"])[-1]


def pytorch_files(check):
    return os.path.join(check.place, "gpt2.safetensors"), os.path.join(check.place, "gpt2_torch")


def pytorch_runs(check):
    """PyTorch's side of all precisions; partial results count at the limit."""
    missing = why_no_torch(check.arguments.torch_python, check.device)
    if missing:
        raise NotProvable(f"no PyTorch in {check.arguments.torch_python}: {missing}")
    size, tokens = Size(check), check.once("gpt2 data", lambda: data(check))
    weights, out = pytorch_files(check)
    task = {"model": size.model, "steps": size.steps, "global_batch": size.global_batch, "micro_batch": size.micro_batch,
            "device": check.device, "tokens": tokens + ".bin", "weights": weights, "out": out, "precisions": list(PYTORCH_BOUNDS), **ADAMW}
    done = check.run([check.arguments.torch_python, os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_gpt2.py"),
                      json.dumps(task)])
    if done.code != 0:
        raise RunFailed("PyTorch's side", done)
    return proved("losses and gradient norms of " + " and ".join(PYTORCH_BOUNDS))


def beside_pytorch(precision):
    def run(check):
        weights, out = pytorch_files(check)
        path = f"{out}.{precision}.json"
        if not os.path.exists(path):
            raise NotProvable(f"PyTorch's side left no losses in {precision}, see above")
        theirs = json.loads(pathlib.Path(path).read_text())
        ours = train(check, precision, {"train.initial_weights": weights}, Size(check).steps)
        norm, loss = worst_relative(ours.norms[:1], theirs["norms"][:1]), worst_relative(ours.losses, theirs["losses"])
        norms = worst_relative(ours.norms, theirs["norms"])
        seen = (f"PyTorch {theirs['version']}: {len(ours.losses)} losses differ by {loss:.1e} (bound {PYTORCH_BOUNDS[precision][1]:g}), "
                f"the first gradient norm by {norm:.1e} (bound {PYTORCH_BOUNDS[precision][0]:g}), all by {norms:.1e}; loss "
                f"{ours.losses[0]:.4f} to {ours.losses[-1]:.4f}, PyTorch {theirs['losses'][0]:.4f} to {theirs['losses'][-1]:.4f}")
        if norm > PYTORCH_BOUNDS[precision][0] or loss > PYTORCH_BOUNDS[precision][1] or not falls(ours.losses):
            return failed(seen)
        if check.on_gpu and precision == "bf16":
            engine, fault = require_cudnn_attention(ours)
            return failed(f"{seen}; {fault}") if fault else proved(f"{seen}; {engine}")
        return proved(seen)
    return run


def parity(_check):
    return [Row("PyTorch", "PyTorch trains the reference here", 120, pytorch_runs)] + [
        Row(f"beside PyTorch {precision}", f"GPT-2 124M in {precision} has PyTorch's 20 losses and first gradient norm, from the same "
            "weights and data", 60, beside_pytorch(precision)) for precision in PYTORCH_BOUNDS]


# ---- Precisions and switches, against bf16 or fp32 without them. ----

def reference(check, precision):
    return check.once(f"gpt2 {precision}", lambda: train(check, precision))


def near(precision, base, bound, extra=None, evidence=None):
    """Losses near those of `base`; `evidence`(run) returns a fault if the log does not show that the feature was
    used."""
    def run(check):
        expected, found = reference(check, base), train(check, precision, extra)
        worst = worst_relative(found.losses, expected.losses)
        seen = f"losses of {len(found.losses)} steps differ by {worst:.1e} from {base} (bound {bound:g})"
        fault = evidence(found) if evidence and check.on_gpu else ""
        if fault:
            return failed(f"{seen}; {fault}")
        return judged(worst <= bound and falls(found.losses), seen)
    return run


def shows(pattern, what):
    return lambda run: "" if basics.products(run, pattern) else f"no matrix product {what} in the log"


# A line of the file: the matmul, its algorithm, microseconds with the epilogue, the choice, microseconds without.
COMPARED = re.compile(r"^(\d+ \d+ \d+) .* (gelu_bias|dgelu|bias_gradient) .* (\S+) (fused|apart) (\S+) \S+$", re.MULTILINE)


def fp8_blocks(recipe, pattern):
    """Skips on a GPU that the engine refuses for this recipe."""
    def run(check):
        try:
            return near("fp8", "bf16", 1e-2, {"fp8_recipe": recipe}, shows(pattern, f"with scales of {recipe}"))(check)
        except RunFailed as failure:
            refusal = re.search(rf"{recipe} needs a GPU of [^;]+", failure.finished.output)
            if refusal is None:
                raise
            return not_proved(refusal.group())
    return run


def autotune(check):
    file = os.path.join(check.place, "tuned.txt")
    settled = {"device.autotune": file, "device.fused_epilogues": "on"}
    first = train(check, "bf16", settled)
    text = pathlib.Path(file).read_text()
    second = train(check, "bf16", settled)
    worst = worst_relative(second.losses, reference(check, "bf16").losses)
    same, compared = first.bits() == second.bits(), COMPARED.findall(text)
    epilogues = "; ".join(f"{kind} of {shape} {choice} ({fused} us fused, {apart} apart)"
                          for shape, kind, fused, choice, apart in compared)
    return judged(bool(compared) and same and worst <= 2e-3, f"{len(text.splitlines())} lines; the measuring run has the bits of the "
                  f"next one: {same}; the losses of one without differ by {worst:.1e}; {epilogues}")


def dropout(check):
    plain = reference(check, "bf16")
    one, two = (train(check, "bf16", {"model.dropout": 0.1}) for _ in range(2))
    return judged(one.bits() == two.bits() and one.losses != plain.losses and falls(one.losses),
                  f"weights {one.weights()} and {two.weights()}, without dropout {plain.weights()}")


def resumes(check):
    """Half of the steps with a checkpoint, then the rest in another process."""
    whole, steps = reference(check, "bf16"), Size(check).short
    directory = os.path.join(check.place, "resumed")
    settled = {"run.directory": directory, "checkpoint.every_steps": steps // 2}
    train(check, "bf16", settled, steps // 2)
    rest = train(check, "bf16", settled)
    went_on = rest.lines(rf"step_0*{steps // 2}\b")
    return judged(bool(went_on) and rest.weights() == whole.weights() and rest.losses == whole.losses,
                  f"weights {rest.weights()}, without a stop {whole.weights()}; {len(rest.losses)} losses")


def evaluates(check):
    trained, tokens = reference(check, "bf16"), settings(check, "bf16", 1)["data.path"]
    losses = [check.evaluate(trained, tokens, 1, f"precision={precision}") for precision in ("bf16", "fp32")]
    return judged(worst_relative(losses[:1], losses[1:]) <= 2e-3 and losses[0] < trained.losses[0],
                  f"loss {losses[0]:.6f} in bf16, {losses[1]:.6f} in fp32")


def repeats(check):
    one, two = reference(check, "bf16"), train(check, "bf16")
    if check.on_gpu:
        engine, fault = require_cudnn_attention(two)
        if fault or not basics.products(two):
            return failed(fault or "the log names no product of cuBLASLt")
        engine += f", {len(basics.products(two))} kinds of products by cuBLASLt"
    else:
        engine = "on the CPU"
    return judged(one.bits() == two.bits() and falls(one.losses), f"weights {one.weights()} and {two.weights()}; {engine}; "
                  f"loss {one.losses[0]:.4f} to {one.losses[-1]:.4f}")


def graphs(check):
    return training.graph_verdict("step", train(check, "bf16", {"device.graphs": "step"}), reference(check, "bf16"))


def switches(_check):
    return [
        Row("bf16 twice", "GPT-2 124M in bf16 learns, on cuDNN's attention, with the same bits twice", 40, repeats),
        Row("fp32", "bf16 stays near fp32", 40, near("fp32", "bf16", 2e-3)),
        Row("tf32", "tf32 stays near fp32, on products as TF32", 25,
            near("tf32", "fp32", 1e-3, evidence=shows(r" tf32$", "as TF32")), lacks="TF32"),
        Row("fp16", "fp16 with its loss scale stays near bf16", 25, near("fp16", "bf16", 2e-3)),
        Row("fp8", "fp8 stays near bf16, on products of 8-bit numbers", 25,
            near("fp8", "bf16", 1e-2, evidence=shows(r"f8e4m3", "of 8-bit numbers"))),
        Row("fp8 blockwise", "fp8_recipe: blockwise stays near bf16, on products with scales of 128 values", 25,
            fp8_blocks("blockwise", r" 128x128\*1x128$")),
        Row("fp8 mxfp8", "fp8_recipe: mxfp8 stays near bf16, on products with scales of 32 values", 25,
            fp8_blocks("mxfp8", r" 1x32\*1x32$")),
        Row("dropout", "dropout changes the losses, and two runs with it have the same bits", 30, dropout),
        Row("checkpoint and resume", "a run that stops and goes on has the bits of one that does not", 30, resumes),
        Row("evaluation", "trireme eval computes the loss of the trained weights in bf16 and fp32", 30, evaluates),
        Row("fused epilogues", "device.fused_epilogues fuses GELU into products and stays near bf16", 25,
            near("bf16", "bf16", 2e-3, {"device.fused_epilogues": "on"}, shows(r"gelu_bias|dgelu", "with a fused GELU")),
            lacks="fused epilogues"),
        Row("graphs", "device.graphs: step at the real size records and has the bits of no graphs", 25, graphs, lacks="graphs"),
        Row("autotune", "device.autotune measures algorithms and epilogues before the first step, and the next run has the same bits",
            60, autotune, lacks="algorithms to tune")]
