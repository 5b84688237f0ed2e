#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares every gradient of a small GPT and a small ResNet with PyTorch in double precision.

    python3 scripts/checks/check_gradients.py

Trireme trains one step of SGD with learning rate 1, so the gradients are the old weights minus the new. PyTorch
computes the same weights and batch in fp64. Takes seconds. Prints the loss, the gradient norm and the worst parameters;
exits 1 if a gradient is off by more than 1e-4 of its norm. Needs a build and: pip install torch numpy safetensors.
"""
import json
import pathlib
import random
import sys
import tempfile

from shared import Program, pack_images, pack_tokens, packages, parser_of, read_steps

with packages("torch numpy safetensors"):
    import numpy
    import torch
    from safetensors.numpy import load_file
    from torch.nn import functional as F
    from torch_models import MODELS, with_weights

TOLERANCE = 1e-4
CONFIG = """
run: {{directory: {run}}}
precision: fp32
model: {model}
data: {{path: {data}{extra}}}
train: {{steps: 1, global_batch: {batch}, micro_batch: {batch}, clip_norm: 0, label_smoothing: {smoothing}}}
optimizer: {{name: sgd, learning_rate: {rate}, momentum: 0.0, weight_decay: 0.0}}
lr_schedule: {{name: constant}}
"""


class Gpt:
    """Odd sizes on purpose. One batch is the whole data set, so the sample order does not matter."""

    batch, context, smoothing, extra = 16, 129, 0.0, ""
    model = {"family": "gpt2", "layers": 3, "hidden": 96, "heads": 3, "context": context, "vocabulary": 256}

    def pack(self, trireme, place):
        tokens = random.Random(1).randbytes(self.batch * self.context + 1)
        pack_tokens(trireme, place, tokens)
        stream = torch.tensor(list(tokens))
        return stream[:-1].view(self.batch, -1), stream[1:]


class ResNet:
    batch, side, classes, smoothing = 24, 13, 5, 0.1
    mean, deviation = 0.4, 0.3
    model = {"family": "resnet", "block": "basic", "stem": "small", "stages": [1, 2], "width": 8, "image_size": side, "channels": 1,
             "classes": classes}
    extra = f", mean: [{mean}], std: [{deviation}]"

    def pack(self, trireme, place):
        pixels = random.Random(2).randbytes(self.batch * self.side * self.side)
        labels = bytes(index * 7 % self.classes for index in range(self.batch))
        pack_images(trireme, place, pixels, self.side, labels, self.classes)
        images = torch.tensor(list(pixels), dtype=torch.float64).view(self.batch, 1, self.side, self.side)
        return (images / 255 - self.mean) / self.deviation, torch.tensor(list(labels))


def check(kind, trireme):
    case = kind()
    with tempfile.TemporaryDirectory(prefix="trireme-gradients-") as place:
        place = pathlib.Path(place)
        inputs, targets = case.pack(trireme, place)
        weights = {}
        # The second run's steps are too small to change weights, so it ends with the initial ones.
        for rate in ("1.0", "1e-30"):
            run, config = place / f"run_{rate}", place / "config.yaml"
            config.write_text(CONFIG.format(run=run, model=json.dumps(case.model), data=place / "data/train", extra=case.extra,
                                            batch=case.batch, smoothing=case.smoothing, rate=rate))
            trireme("train", config)
            weights[rate] = load_file(run / "weights.safetensors")
            metrics = read_steps(run)[0]
    start = {name: value.astype(numpy.float64) for name, value in weights["1e-30"].items() if "running_" not in name}
    # The tiny step replaces exact zeros, which would move units off the kink of their ReLU.
    parameters = {name: torch.tensor(numpy.where(abs(value) < 1e-20, 0, value), requires_grad=True)
                  for name, value in start.items()}
    model = MODELS[case.model["family"]]({f"model.{key}": value for key, value in case.model.items()}).double()
    logits = with_weights(model, parameters)(inputs)
    loss = F.cross_entropy(logits.view(targets.numel(), -1), targets, label_smoothing=case.smoothing)
    loss.backward()
    errors, squares = {}, 0.0
    for name, parameter in parameters.items():
        reference = parameter.grad.numpy()
        squares += (reference**2).sum()
        # Weights near one are stored with a rounding error of their own, which is no error of the gradient. A zero
        # gradient must be zero here too: the floor below only avoids 0/0.
        rounding = numpy.linalg.norm(start[name]) * 2.0**-23
        difference = numpy.linalg.norm(start[name] - weights["1.0"][name] - reference)
        errors[name] = max(difference - rounding, 0.0) / max(numpy.linalg.norm(reference), 1e-7)
    worst = sorted(errors, key=errors.get, reverse=True)[:3]
    print(f"{kind.__name__}: loss {metrics['loss']:.7f}, PyTorch {loss.item():.7f}; gradient norm "
          f"{metrics['grad_norm']:.6f}, PyTorch {squares ** 0.5:.6f}")
    print("   worst of", len(errors), "gradients:", ", ".join(f"{name} {errors[name]:.1e}" for name in worst))
    return errors[worst[0]] <= TOLERANCE and abs(metrics["loss"] - loss.item()) <= 1e-5


def main():
    arguments = parser_of(__doc__).parse_args()
    torch.set_num_threads(1)
    results = [check(kind, Program(arguments.trireme)) for kind in (Gpt, ResNet)]
    if not all(results):
        print(f"a gradient is off by more than {TOLERANCE}", file=sys.stderr)
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
