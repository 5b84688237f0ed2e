#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Evaluates the weights of a run of a GPT or a ResNet with an independent PyTorch model and compares with `trireme eval`.

Command:  python3 tests/checks/check_reference.py RUN_DIRECTORY [--data SHARDS] [--trireme FILE] [--samples 64]
Cost:     seconds for the quickstart's models.
Expected: "trireme 1.234567  pytorch 1.234567  difference 1e-07" and exit code 0; 1 beyond --tolerance.
Needs:    pip install torch numpy h5py pyyaml safetensors
"""
import pathlib
import re
import sys

from shared import REPOSITORY, Program, packages, parser_of, sets

with packages("torch numpy h5py pyyaml safetensors"):
    import h5py
    import numpy
    import torch
    import torch.nn.functional as F
    import yaml
    from safetensors.torch import load_file
    from torch_models import MODELS, with_weights


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


def read_shards(path, name):
    if (path / "validation").is_dir():
        path = path / "validation"
    shards = sorted(path.glob("*.h5")) if path.is_dir() else [path]
    return torch.from_numpy(numpy.concatenate([h5py.File(shard)[name][...] for shard in shards]))


def gpt_loss(model, config, data, limit):
    time, vocabulary = config["model"]["context"], config["model"]["vocabulary"]
    stream = read_shards(data, "tokens").long()
    count = min((len(stream) - 1) // time, limit)
    total = 0.0
    for sample in range(count):
        window = stream[sample * time:(sample + 1) * time + 1]
        total += F.cross_entropy(model(window[None, :-1])[0, :, :vocabulary].double(), window[1:]).item()
    return total / count


def resnet_loss(model, config, data, limit):
    images, labels = read_shards(data, "images")[:limit], read_shards(data, "labels")[:limit].long()
    mean, deviation = (torch.tensor(config["data"][key], dtype=torch.float32) for key in ("mean", "std"))
    x = ((images.float() / 255 - mean) / deviation).permute(0, 3, 1, 2)
    total = 0.0
    for part, target in zip(x.split(64), labels.split(64)):
        total += F.cross_entropy(model(part).double(), target, reduction="sum").item()
    return total / len(labels)


LOSSES = {"gpt2": gpt_loss, "resnet": resnet_loss}


def main():
    parser = parser_of(__doc__)
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("--data", help="validation shards (default: the run's)")
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--tolerance", type=float, default=2e-5)
    arguments = parser.parse_args()

    for name in ("config.yaml", "weights.safetensors"):
        if not (arguments.run / name).is_file():
            sys.exit(f"{arguments.run}: holds no {name}; name the directory of a finished run")
    config = yaml.safe_load((arguments.run / "config.yaml").read_text())
    family = config["model"]["family"]
    if family not in LOSSES:
        sys.exit(f"{arguments.run}: the model is a {family}; this check knows {', '.join(LOSSES)}")
    data = validation_path(config, arguments.run, arguments.data)
    torch.set_num_threads(1)
    model = MODELS[family]({f"model.{key}": value for key, value in config["model"].items() if value != "auto"}).eval()
    with torch.no_grad():
        model = with_weights(model, load_file(arguments.run / "weights.safetensors"))
        reference = LOSSES[family](model, config, data, arguments.samples)
    said = Program(arguments.trireme)("eval", arguments.run, *sets([
        f"data.validation_path={data}", f"train.eval_batches={arguments.samples}", "train.micro_batch=1", "train.global_batch=1"]))
    ours = float(re.search(r"loss\s+([0-9.]+)", said).group(1))
    difference = abs(ours - reference)
    print(f"trireme {ours:.6f}  pytorch {reference:.6f}  difference {difference:.1e}")
    return 0 if difference <= arguments.tolerance else 1


if __name__ == "__main__":
    sys.exit(main())
