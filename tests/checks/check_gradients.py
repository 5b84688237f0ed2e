#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares every gradient of a small GPT, ResNet (images and volumes), CosmoFlow, U-Net and DeepCAM with PyTorch in double precision.

    python3 tests/checks/check_gradients.py

Trireme trains one step of SGD with learning rate 1, so the gradients are the old weights minus the new. PyTorch
computes the same weights and batch in fp64. Takes seconds. Prints the loss, the gradient norm and the worst parameters;
exits 1 if a gradient is off by more than 1e-4 of its norm. Needs a build and: pip install torch numpy safetensors h5py.
"""
import json
import pathlib
import random
import sys
import tempfile

from shared import Program, pack_images, pack_tokens, packages, parser_of, read_steps

with packages("torch numpy safetensors h5py"):
    import h5py
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
data: {{{data}}}
train: {{steps: 1, loss: {loss}, global_batch: {batch}, micro_batch: {batch}, clip_norm: 0, label_smoothing: {smoothing}}}
optimizer: {{name: sgd, learning_rate: {rate}, momentum: 0.0, weight_decay: 0.0}}
lr_schedule: {{name: constant}}
"""


def packed(place, more=""):
    return f"path: {place / 'data/train'}{more}"


class Gpt:
    """Odd sizes on purpose. One batch is the whole data set, so the sample order does not matter."""

    batch, context, smoothing, train_loss = 16, 129, 0.0, "auto"
    model = {"family": "gpt2", "layers": 3, "hidden": 96, "heads": 3, "context": context, "vocabulary": 256}

    def pack(self, trireme, place):
        tokens = random.Random(1).randbytes(self.batch * self.context + 1)
        pack_tokens(trireme, place, tokens)
        stream = torch.tensor(list(tokens))
        return packed(place), stream[:-1].view(self.batch, -1), stream[1:]

    def loss(self, logits, targets):
        return F.cross_entropy(logits.view(targets.numel(), -1), targets, label_smoothing=self.smoothing)


class ResNet(Gpt):
    batch, side, classes, smoothing = 24, 13, 5, 0.1
    mean, deviation = 0.4, 0.3
    model = {"family": "resnet", "block": "basic", "stem": "small", "stages": [1, 2], "width": 8, "image_size": side, "channels": 1,
             "classes": classes}

    def pack(self, trireme, place):
        pixels = random.Random(2).randbytes(self.batch * self.side * self.side)
        labels = bytes(index * 7 % self.classes for index in range(self.batch))
        pack_images(trireme, place, pixels, self.side, labels, self.classes)
        images = torch.tensor(list(pixels), dtype=torch.float64).view(self.batch, 1, self.side, self.side)
        data = packed(place, f", mean: [{self.mean}], std: [{self.deviation}]")
        return data, (images / 255 - self.mean) / self.deviation, torch.tensor(list(labels))


class ResNetOfVolumes(ResNet):
    """Not with any draw: where pooling leaves no zeros, the next norm removes what the first one's bias adds, and its gradient is
    rounding alone."""

    model = {"family": "resnet", "block": "basic", "stem": "imagenet", "stages": [1, 2], "width": 6, "depth": 9, "image_size": 14,
             "image_width": 11, "channels": 3, "classes": 5}

    def pack(self, trireme, place):
        draw = numpy.random.default_rng(8)
        x = draw.normal(size=(self.batch, 9, 14, 11, 3)).astype(numpy.float32)
        y = numpy.arange(self.batch) * 7 % self.classes
        for sample in range(self.batch):
            with h5py.File(place / f"{sample}.h5", "w") as file:
                file["x"], file["y"] = x[sample], y[sample]
        data = f"files: ['{place}/*.h5'], samples: file, inputs: [x], target: y, axes: DHWC"
        return data, torch.from_numpy(x).double().movedim(-1, 1), torch.from_numpy(y).long()


class CosmoFlow:
    batch, side, channels, targets, smoothing, train_loss = 6, 13, 3, 4, 0.0, "auto"
    model = {"family": "cosmoflow", "size": side, "channels": channels, "targets": targets, "filters": 5, "halvings": 3,
             "dense": [11, 7], "dropout": 0, "leaky_slope": 0.3, "target_scale": 1.2}

    def pack(self, trireme, place):
        draw = numpy.random.default_rng(3)
        x = draw.normal(size=(self.batch, *[self.side] * 3, self.channels)).astype(numpy.float32)
        y = draw.uniform(-1, 1, (self.batch, self.targets)).astype(numpy.float32)
        for sample in range(self.batch):
            with h5py.File(place / f"{sample}.h5", "w") as file:
                file["x"], file["y"] = x[sample], y[sample]
        data = f"files: ['{place}/*.h5'], samples: file, inputs: [x], target: y, axes: DHWC"
        return data, torch.from_numpy(x).double().movedim(-1, 1), torch.from_numpy(y).double()

    def loss(self, predictions, targets):
        return F.mse_loss(predictions, targets)


class UNet:
    batch, smoothing, weights, train_loss = 5, 0.0, [1.0, 0.25, 2.0], "auto"
    model = {"family": "unet", "image_size": 19, "image_width": 26, "channels": 3, "classes": 3, "filters": 5, "levels": 2,
             "class_weights": weights}

    def pack(self, trireme, place):
        draw = numpy.random.default_rng(4)
        extents = [self.model[key] for key in ("depth", "image_size", "image_width") if key in self.model]
        x = draw.normal(size=(self.batch, *extents, 3)).astype(numpy.float32)
        y = draw.integers(0, 3, (self.batch, *extents)).astype(numpy.uint8)
        for sample in range(self.batch):
            with h5py.File(place / f"{sample}.h5", "w") as file:
                file["x"], file["y"] = x[sample], y[sample]
        axes = "DHWC" if len(extents) == 3 else "HWC"
        data = f"files: ['{place}/*.h5'], samples: file, inputs: [x], target: y, axes: {axes}"
        return data, torch.from_numpy(x).double().movedim(-1, 1), torch.from_numpy(y).long()

    def loss(self, logits, targets):
        return F.cross_entropy(logits.flatten(0, -2), targets.flatten(), torch.tensor(self.weights, dtype=torch.float64),
                               reduction="none").mean()


class UNetOfVolumes(UNet):
    model = UNet.model | {"depth": 9, "image_size": 12, "image_width": 13, "levels": 1}


class UNetOfMlperf(UNet):
    """Instance norm, strides, filters that stop growing, dice and cross-entropy, as in MLPerf's U-Net 3D."""

    model = UNet.model | {"depth": 8, "image_size": 12, "image_width": 20, "widest": 7, "down": "stride", "norm": "instance"}
    train_loss = "dice_cross_entropy"

    def loss(self, logits, targets):
        wanted, found = F.one_hot(targets, 3).flatten(1, -2).double(), logits.softmax(-1).flatten(1, -2)
        both, sums = (wanted * found).sum(1), (wanted + found).sum(1)
        dice = (2 * both + 1e-6) / (sums + 1e-6)
        return ((1 - dice[:, 1:]).mean() + super().loss(logits, targets)) / 2


class UNetOfTheWell(UNet):
    """Tanh and maps of values, as in The Well's classic U-Net."""

    model = {key: value for key, value in UNet.model.items() if "class" not in key} | {"values": 2, "nonlinearity": "tanh"}

    def pack(self, trireme, place):
        data, inputs, _ = super().pack(trireme, place)
        targets = numpy.random.default_rng(5).normal(size=(self.batch, 19, 26, 2)).astype(numpy.float32)
        for sample in range(self.batch):
            with h5py.File(place / f"{sample}.h5", "a") as file:
                file["values"] = targets[sample]
        return data.replace("target: y", "target: values"), inputs, torch.from_numpy(targets).double()

    def loss(self, predictions, targets):
        return F.mse_loss(predictions, targets)


class UNetOfGroups(UNet):
    model = UNet.model | {"filters": 6, "norm": "group", "norm_groups": 3, "nonlinearity": "leaky_relu"}


class DeepCam(UNet):
    model = {"family": "deepcam", "image_size": 67, "image_width": 98, "channels": 3, "classes": 3, "filters": 6, "middle_blocks": 1,
             "class_weights": UNet.weights}


def check(kind, trireme):
    case = kind()
    with tempfile.TemporaryDirectory(prefix="trireme-gradients-") as place:
        place = pathlib.Path(place)
        data, inputs, targets = case.pack(trireme, place)
        weights = {}
        # The second run's steps are too small to change weights, so it ends with the initial ones.
        for rate in ("1.0", "1e-30"):
            run, config = place / f"run_{rate}", place / "config.yaml"
            config.write_text(CONFIG.format(run=run, model=json.dumps(case.model), data=data, batch=case.batch,
                                            smoothing=case.smoothing, rate=rate, loss=case.train_loss))
            trireme("train", config)
            weights[rate] = load_file(run / "weights.safetensors")
            metrics = read_steps(run)[0]
    start = {name: value.astype(numpy.float64) for name, value in weights["1e-30"].items() if "running_" not in name}
    # The tiny step replaces exact zeros, which would move units off the kink of their ReLU.
    parameters = {name: torch.tensor(numpy.where(abs(value) < 1e-20, 0, value), requires_grad=True)
                  for name, value in start.items()}
    model = MODELS[case.model["family"]]({f"model.{key}": value for key, value in case.model.items()}).double()
    logits = with_weights(model, parameters)(inputs)
    loss = case.loss(logits, targets)
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
    kinds = (Gpt, ResNet, ResNetOfVolumes, CosmoFlow, UNet, UNetOfVolumes, UNetOfMlperf, UNetOfTheWell, UNetOfGroups, DeepCam)
    results = [check(kind, Program(arguments.trireme)) for kind in kinds]
    if not all(results):
        print(f"a gradient is off by more than {TOLERANCE}", file=sys.stderr)
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
