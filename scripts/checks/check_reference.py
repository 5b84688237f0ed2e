#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Evaluates a run's weights with an independent PyTorch model and compares with `trireme eval`.

Command:  python3 scripts/checks/check_reference.py RUN_DIRECTORY [--data SHARDS] [--trireme FILE] [--samples 64]
Cost:     seconds for the quickstart's models.
Expected: "trireme 1.234567  pytorch 1.234567  difference 1e-07" and exit code 0; 1 beyond --tolerance.
Needs:    pip install torch numpy h5py pyyaml
"""

import argparse
import json
import pathlib
import re
import struct
import subprocess
import sys

try:
    import h5py
    import numpy
    import torch
    import torch.nn.functional as F
    import yaml
except ImportError as error:
    sys.exit(f"{error}; run: pip install torch numpy h5py pyyaml")

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def load_weights(path):
    """A safetensors file as {name: tensor}; every tensor of a run is F32."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    weights = {}
    for name, entry in header.items():
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        values = numpy.frombuffer(data[begin:end], dtype=numpy.float32).reshape(entry["shape"])
        weights[name] = torch.from_numpy(values.copy())
    return weights


def validation_path(config, run, given):
    """Path of the validation data: as given, else as trireme resolves a config's path (here, or beside it), else in
    the clone."""
    path = given or config["data"]["validation_path"]
    if not path:
        sys.exit(f"{run}/config.yaml: data.validation_path is empty; say --data SHARDS")
    for place in (pathlib.Path.cwd(), run, REPOSITORY):
        if (place / path).exists():
            return (place / path).resolve()
    sys.exit(f"{path}: the run's validation data are not there; say --data SHARDS")


def shards(path):
    if (path / "validation").is_dir():
        path = path / "validation"
    return sorted(path.glob("*.h5")) if path.is_dir() else [path]


ACTIVATIONS = {"gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "gelu_exact": F.gelu, "silu": F.silu,
               "relu2": lambda x: F.relu(x).square()}


def gpt_logits(weights, model, tokens):
    """(B, T) -> (B, T, vocabulary), written from the GPT-2 paper, not from the C++."""
    _, time = tokens.shape
    activate = ACTIVATIONS[model.get("activation", "gelu_tanh")]
    hidden, heads = model["hidden"], model["heads"]

    def linear(x, name):
        return F.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def norm(x, name):
        return F.layer_norm(x, (hidden,), weights[f"{name}.weight"], weights[f"{name}.bias"])

    table = weights["embedding.token.weight"]
    x = table[tokens] + weights["embedding.position.weight"][:time]
    for index in range(model["layers"]):
        block = f"blocks.{index}"
        q, k, v = linear(norm(x, f"{block}.norm1"), f"{block}.attention.qkv").split(hidden, dim=2)
        q, k, v = (t.unflatten(2, (heads, hidden // heads)).transpose(1, 2) for t in (q, k, v))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + linear(attended, f"{block}.attention.output")
        inner = activate(linear(norm(x, f"{block}.norm2"), f"{block}.mlp.expand"))
        x = x + linear(inner, f"{block}.mlp.contract")
    return norm(x, "final_norm") @ table.T[:, : model["vocabulary"]]


def gpt_loss(weights, config, limit):
    model = config["model"]
    time = model["context"]
    stream = numpy.concatenate([h5py.File(shard)["tokens"][...] for shard in shards(config["data"]["validation_path"])])
    count = min((len(stream) - 1) // time, limit)
    total = 0.0
    for sample in range(count):
        window = torch.from_numpy(stream[sample * time : (sample + 1) * time + 1].astype(numpy.int64))
        logits = gpt_logits(weights, model, window[None, :-1])
        total += F.cross_entropy(logits[0].double(), window[1:]).item()
    return total / count


def resnet_logits(weights, model, x):
    """(B, C, H, W) -> (B, classes)."""

    def convolve(x, name, stride):
        weight = weights[f"{name}.weight"].permute(0, 3, 1, 2)  # OHWI -> OIHW
        return F.conv2d(x, weight, stride=stride, padding=weight.shape[2] // 2)

    def norm(x, name):
        mean, variance = weights[f"{name}.running_mean"], weights[f"{name}.running_variance"]
        return F.batch_norm(x, mean, variance, weights[f"{name}.weight"], weights[f"{name}.bias"], eps=1e-5)

    small = model["stem"] == "small"
    x = F.relu(norm(convolve(x, "stem.convolution", 1 if small else 2), "stem.norm"))
    if not small:
        x = F.max_pool2d(x, 3, 2, 1)
    for stage, blocks in enumerate(model["stages"]):
        for index in range(blocks):
            block = f"stages.{stage}.{index}"
            stride = 2 if stage > 0 and index == 0 else 1
            strides = [1, stride, 1] if model["block"] == "bottleneck" else [stride, 1]
            branch = x
            for unit, unit_stride in enumerate(strides, start=1):
                branch = norm(convolve(branch, f"{block}.convolution{unit}", unit_stride), f"{block}.norm{unit}")
                branch = F.relu(branch) if unit < len(strides) else branch
            if f"{block}.convolution_shortcut.weight" in weights:
                x = norm(convolve(x, f"{block}.convolution_shortcut", stride), f"{block}.norm_shortcut")
            x = F.relu(branch + x)
    return F.linear(x.mean(dim=(2, 3)), weights["classifier.weight"], weights["classifier.bias"])


def resnet_loss(weights, config, limit):
    files = [h5py.File(shard) for shard in shards(config["data"]["validation_path"])]
    images = torch.from_numpy(numpy.concatenate([file["images"][...] for file in files])[:limit])
    labels = torch.from_numpy(numpy.concatenate([file["labels"][...] for file in files])[:limit]).long()
    mean, deviation = (torch.tensor(config["data"][key], dtype=torch.float32) for key in ("mean", "std"))
    x = ((images.float() / 255 - mean) / deviation).permute(0, 3, 1, 2)
    total = 0.0
    for part, target in zip(x.split(64), labels.split(64)):
        total += F.cross_entropy(resnet_logits(weights, config["model"], part).double(), target, reduction="sum").item()
    return total / len(labels)


def trireme_loss(binary, run, data, batches):
    command = [str(binary), "eval", str(run), "--set", f"data.validation_path={data}",
               "--set", f"train.eval_batches={batches}", "--set", "train.micro_batch=1", "--set", "train.global_batch=1"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        sys.exit(f"{error}; build it or say where it is with --trireme")
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with status {done.returncode}:\n{done.stderr}")
    return float(re.search(r"loss\s+([0-9.]+)", done.stdout).group(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("--data", help="validation shards (default: the run's)")
    parser.add_argument("--trireme", type=pathlib.Path, default=REPOSITORY / "build/cpu/trireme")
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--tolerance", type=float, default=2e-5)
    arguments = parser.parse_args()

    for name in ("config.yaml", "weights.safetensors"):
        if not (arguments.run / name).is_file():
            sys.exit(f"{arguments.run}: holds no {name}; name the directory of a finished run")
    config = yaml.safe_load((arguments.run / "config.yaml").read_text())
    data = validation_path(config, arguments.run, arguments.data)
    config["data"]["validation_path"] = data
    weights = load_weights(arguments.run / "weights.safetensors")
    torch.set_num_threads(1)
    with torch.no_grad():
        reference = (gpt_loss if config["model"]["family"] == "gpt2" else resnet_loss)(weights, config, arguments.samples)
    ours = trireme_loss(arguments.trireme.absolute(), arguments.run, data, arguments.samples)
    difference = abs(ours - reference)
    print(f"trireme {ours:.6f}  pytorch {reference:.6f}  difference {difference:.1e}")
    return 0 if difference <= arguments.tolerance else 1


if __name__ == "__main__":
    sys.exit(main())
