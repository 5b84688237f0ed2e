#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares every gradient of a small GPT and a small ResNet with PyTorch in double precision.

    python3 scripts/checks/check_gradients.py

Trireme trains one step of SGD with learning rate 1, so the gradients are the old weights minus the new. PyTorch
computes the same weights and batch in fp64. Takes seconds. Prints the loss, the gradient norm and the worst parameters;
exits 1 if a gradient is off by more than 1e-4 of its norm. Needs a build and: pip install torch numpy.
"""
import argparse
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

try:
    import numpy
    import torch
    from torch.nn import functional as F
except ImportError as error:
    sys.exit(f"{error}; install with: pip install torch numpy")

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
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


def read_safetensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    header.pop("__metadata__", None)
    return {name: numpy.frombuffer(data[slice(*entry["data_offsets"])], numpy.float32).reshape(entry["shape"])
            for name, entry in header.items()}


class Gpt:
    """Odd sizes on purpose. One batch is the whole data set, so the sample order does not matter."""

    layers, hidden, heads, context, batch = 3, 96, 3, 129, 16
    model = f"{{family: gpt2, layers: {layers}, hidden: {hidden}, heads: {heads}, context: {context}, vocabulary: 256}}"
    smoothing, extra = 0.0, ""

    def pack(self, place, tool):
        self.tokens = random.Random(1).randbytes(self.batch * self.context + 1)
        raw = os.path.join(place, "tokens.bin")
        with open(raw, "wb") as file:
            file.write(self.tokens)
        tool("data", "pack-text", raw, "--out", os.path.join(place, "data"), "--split", "train")

    def loss(self, p):
        stream = torch.tensor(list(self.tokens))
        inputs, targets = stream[:-1].view(self.batch, -1), stream[1:]
        parts = (self.batch, self.context, self.heads, self.hidden // self.heads)

        def norm(x, name):
            return F.layer_norm(x, (self.hidden,), p[name + ".weight"], p[name + ".bias"])

        def linear(x, name):
            return F.linear(x, p[name + ".weight"], p[name + ".bias"])

        x = p["embedding.token.weight"][inputs] + p["embedding.position.weight"]
        for block in (f"blocks.{index}." for index in range(self.layers)):
            qkv = linear(norm(x, block + "norm1"), block + "attention.qkv").split(self.hidden, 2)
            q, k, v = (part.view(parts).transpose(1, 2) for part in qkv)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
            x = x + linear(y, block + "attention.output")
            wide = F.gelu(linear(norm(x, block + "norm2"), block + "mlp.expand"), approximate="tanh")
            x = x + linear(wide, block + "mlp.contract")
        logits = norm(x, "final_norm") @ p["embedding.token.weight"].t()
        return F.cross_entropy(logits.view(targets.numel(), -1), targets)


class ResNet:
    batch, side, classes, smoothing = 24, 13, 5, 0.1
    mean, deviation = 0.4, 0.3
    model = (f"{{family: resnet, block: basic, stem: small, stages: [1, 2], width: 8, image_size: {side}, channels: 1, "
             f"classes: {classes}}}")
    extra = f", mean: [{mean}], std: [{deviation}]"

    def pack(self, place, tool):
        self.pixels = random.Random(2).randbytes(self.batch * self.side * self.side)
        self.labels = [index * 7 % self.classes for index in range(self.batch)]
        images, labels = os.path.join(place, "images.idx"), os.path.join(place, "labels.idx")
        with open(images, "wb") as file:
            file.write(struct.pack(">IIII", 0x803, self.batch, self.side, self.side) + self.pixels)
        with open(labels, "wb") as file:
            file.write(struct.pack(">II", 0x801, self.batch) + bytes(self.labels))
        tool("data", "pack-images", images, "--labels", labels, "--out", os.path.join(place, "data"), "--split", "train",
             "--classes", str(self.classes))

    def loss(self, p):
        def unit(x, convolution, norm, stride=1):
            weight = p[convolution + ".weight"].permute(0, 3, 1, 2)
            y = F.conv2d(x, weight, stride=stride, padding=weight.shape[2] // 2)
            return F.batch_norm(y, None, None, p[norm + ".weight"], p[norm + ".bias"], training=True)

        pixels = torch.tensor(list(self.pixels), dtype=torch.float64).view(self.batch, 1, self.side, self.side)
        x = F.relu(unit((pixels / 255 - self.mean) / self.deviation, "stem.convolution", "stem.norm"))
        for block, stride in (("stages.0.0.", 1), ("stages.1.0.", 2), ("stages.1.1.", 1)):
            y = F.relu(unit(x, block + "convolution1", block + "norm1", stride))
            y = unit(y, block + "convolution2", block + "norm2")
            if stride != 1:
                x = unit(x, block + "convolution_shortcut", block + "norm_shortcut", stride)
            x = F.relu(x + y)
        logits = F.linear(x.mean((2, 3)), p["classifier.weight"], p["classifier.bias"])
        return F.cross_entropy(logits, torch.tensor(self.labels), label_smoothing=self.smoothing)


def check(kind, trireme):
    model = kind()
    with tempfile.TemporaryDirectory(prefix="trireme-gradients-") as place:
        def tool(*arguments):
            done = subprocess.run([trireme, *arguments], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                sys.exit(f"trireme {' '.join(arguments)} ended with status {done.returncode}:\n{done.stderr}")

        model.pack(place, tool)
        weights = {}
        # The second run's steps are too small to change weights, so it ends with the initial ones.
        for rate in ("1.0", "1e-30"):
            run = os.path.join(place, "run_" + rate)
            with open(os.path.join(place, "config.yaml"), "w", encoding="utf-8") as file:
                file.write(CONFIG.format(run=run, model=model.model, data=os.path.join(place, "data", "train"),
                                         extra=model.extra, batch=model.batch, smoothing=model.smoothing, rate=rate))
            tool("train", file.name)
            weights[rate] = read_safetensors(os.path.join(run, "weights.safetensors"))
            with open(os.path.join(run, "metrics.jsonl"), encoding="utf-8") as file:
                metrics = json.loads(file.readline())
    start = {name: value.astype(numpy.float64) for name, value in weights["1e-30"].items() if "running_" not in name}
    # The tiny step replaces exact zeros, which would move units off the kink of their ReLU.
    parameters = {name: torch.tensor(numpy.where(abs(value) < 1e-20, 0, value), requires_grad=True)
                  for name, value in start.items()}
    loss = model.loss(parameters)
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", default=os.path.join(REPOSITORY, "build", "cpu", "trireme"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results = [check(kind, os.path.abspath(arguments.trireme)) for kind in (Gpt, ResNet)]
    if not all(results):
        print(f"a gradient is off by more than {TOLERANCE}", file=sys.stderr)
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
