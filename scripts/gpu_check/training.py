# SPDX-License-Identifier: Apache-2.0
"""Tiny configs trained several ways on one rank and compared: CPU and GPU, twice, with and without graphs."""
from basics import VERBOSE, require_cudnn_attention, require_cudnn_convolution
from harness import Row, failed, falls, judged, not_proved, proved, same_bits, worst_relative

MODELS = ("gpt", "resnet")
FUSED_CONVOLUTIONS = r"cuDNN \S+ runs convolution_.* added,"
# Largest relative difference of a loss over ten steps. bf16 rounds to 8 bits, and every product may be summed in
# another order; losses are sums over a thousand tokens, which average roundings out. AdamW divides by the root of the
# second moment, which enlarges small differences of early gradients.
BOUNDS = {"fp32": 5e-5, "bf16": 2e-2}


def against_cpu(model, precision, extra=None):
    def run(check):
        settings = {"precision": precision, **(extra or {})}
        reference = check.train(model, {**settings, "device.type": "cpu"})
        device = check.train(model, settings, environment=VERBOSE)
        worst, norms = (worst_relative(*pair) for pair in ((device.losses, reference.losses), (device.norms, reference.norms)))
        seen = (f"losses of {len(device.losses)} steps differ by {worst:.1e} (bound {BOUNDS[precision]:g}), gradient norms by "
                f"{norms:.1e}, loss {device.losses[0]:.4f} to {device.losses[-1]:.4f}")
        if worst > BOUNDS[precision] or not falls(device.losses):
            return failed(seen)
        if check.on_gpu and (model == "resnet" or precision == "bf16"):
            engine, fault = (require_cudnn_convolution if model == "resnet" else require_cudnn_attention)(device)
            if fault:
                return failed(f"{seen}; {fault}")
            seen += "; " + engine
        return proved(seen)
    return run


def fused_convolutions(check):
    """Gradients summed by cuDNN compared with those summed by our kernel."""
    apart = check.train("resnet", {"precision": "bf16"})
    fused = check.train("resnet", {"precision": "bf16", "device.fused_epilogues": "on"}, environment=VERBOSE)
    worst = worst_relative(fused.losses, apart.losses)
    plans = fused.lines(FUSED_CONVOLUTIONS)
    seen = f"losses of {len(fused.losses)} steps differ by {worst:.1e} (bound {BOUNDS['bf16']:g}); {len(plans)} sums by cuDNN"
    return judged(worst <= BOUNDS["bf16"] and falls(fused.losses) and bool(plans), seen)


def evaluates(check):
    """One run's weights on both devices."""
    trained = check.train("gpt", {"precision": "fp32", "device.type": "cpu", "train.steps": 3})
    losses = [check.evaluate(trained, f"{check.place}/text/train", 4, f"device.type={device}") for device in ("cpu", check.device)]
    return judged(abs(losses[0] - losses[1]) <= 1e-5 * losses[0], f"loss {losses[1]:.6f}, on the CPU {losses[0]:.6f}")


def parity(_check):
    rows = [Row(f"{model} {precision}", f"{model} in {precision} trains as on the CPU", 30, against_cpu(model, precision))
            for precision in BOUNDS for model in MODELS]
    return rows + [
        Row("gpt dropout", "dropout draws the CPU's masks", 30, against_cpu("gpt", "fp32", {"model.dropout": 0.1})),
        Row("gpt recompute", "recomputed activations are those of the CPU", 30,
            against_cpu("gpt", "fp32", {"train.recompute": "full"})),
        Row("documents bf16", "documents that are kept apart train as on the CPU, in ragged plans of cuDNN", 30,
            against_cpu("documents", "bf16")),
        Row("evaluation", "trireme eval computes the CPU's loss", 30, evaluates),
        Row("resnet fused", "device.fused_epilogues adds gradients of convolutions and stays near", 30, fused_convolutions,
            lacks="fused epilogues")]


def twice(model, precision):
    def run(check):
        one, two = (check.train(model, {"precision": precision}) for _ in range(2))
        return same_bits(one, two)
    return run


def repeat(_check):
    return [Row(f"{model} {precision} twice", f"{model} in {precision} has the same bits twice", 20, twice(model, precision))
            for precision in BOUNDS for model in MODELS] + [
                Row("documents bf16 twice", "documents that are kept apart have the same bits twice", 20, twice("documents", "bf16"))]


def graph_verdict(mode, run, eager):
    """Equal bits prove something only if a graph was recorded, which the program logs."""
    refused = run.lines(r"run without graphs|device\.graphs")
    if refused:
        return not_proved(f"recording was refused: {refused[0].strip()}")
    if not run.lines({"layer": r"layers are replayed as CUDA graphs", "step": r"steps are replayed as CUDA graphs"}[mode]):
        return failed("the log does not say that anything was recorded")
    return judged(run.bits() == eager.bits(), f"weights {run.weights()}, without graphs {eager.weights()}")


def replayed(config, mode, settings, ranks=1):
    def run(check):
        eager = check.once(f"eager {config} {settings} {ranks}", lambda: check.train(config, settings, ranks))
        graphs = check.train(config, {**settings, "device.graphs": mode}, ranks)
        return graph_verdict(mode, graphs, eager)
    return run


def graphs(_check):
    return [Row(f"{model} graphs {mode}", f"{model}: device.graphs: {mode} records, replays and has the bits of no graphs", 25,
                replayed(model, mode, {"precision": "bf16"}), lacks="graphs")
            for mode, models in (("layer", MODELS), ("step", (*MODELS, "documents"))) for model in models]
