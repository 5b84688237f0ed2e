#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a checkpoint with h5py alone and compares every tensor with a safetensors file of the same weights.

    tests/checks/check_checkpoint.py CHECKPOINT WEIGHTS.safetensors

CHECKPOINT is a directory step_*. Checks that checkpoint.h5 has every tensor of the manifest, finite and in its shape;
model/* equals WEIGHTS bit for bit, also after moving the directory; the slices of manifest.json, assembled from the
rank files, give the same. Prints what it compared; exit 1 at the first difference; exit 77 without h5py, numpy or safetensors.
"""
import json
import pathlib
import shutil
import sys
import tempfile

from shared import packages, same_bits

with packages("h5py numpy safetensors"):
    import h5py
    import numpy as np
    from safetensors.numpy import load_file


def from_slices(checkpoint, manifest, kind):
    """The tensors, assembled from the slices in the manifest."""
    tensors = [np.full(int(np.prod(t["shape"])), np.nan, "<f4") for t in manifest["tensors"]]
    moment = kind.startswith("optimizer/")
    for file in manifest["files"]:
        at = file["offsets"][kind]
        with open(checkpoint / file["name"], "rb") as stream:
            for index, block, first, count, *_ in file["slices"]:
                tensor = manifest["tensors"][index]
                if moment and tensor["kind"] == "statistic":
                    continue
                stream.seek(at)
                at += 4 * count
                i = np.arange(first, first + count)
                run, blocks = tensor["run"], tensor["blocks"]
                lead = tensor.get("lead", 1) * run  # of each block, in its first turn
                places = np.where(i < lead, block * lead + i, (i // run * blocks + block) * run + i % run)
                tensors[index][places] = np.frombuffer(stream.read(4 * count), "<f4")
    return {t["name"]: values.reshape(t["shape"]) for t, values in zip(manifest["tensors"], tensors)
            if not (moment and t["kind"] == "statistic")}


def check(checkpoint, weights):
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    compared = 0
    with h5py.File(checkpoint / "checkpoint.h5") as view:
        for kind in manifest["values"]:
            for name, values in from_slices(checkpoint, manifest, kind).items():
                shown = view[f"{kind}/{name}"][...]
                if not same_bits(shown, values):
                    sys.exit(f"{kind}/{name}: checkpoint.h5 and the slices differ")
                if not np.isfinite(shown).all():
                    sys.exit(f"{kind}/{name}: not all elements are there")
                if kind == "model" and not same_bits(shown, weights[name]):
                    sys.exit(f"{kind}/{name}: differs from the weights")
                compared += 1
        if set(view["model"]) != set(weights):
            sys.exit(f"model: other tensors than the weights: {sorted(set(view['model']) ^ set(weights))}")
    return compared


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    checkpoint, weights = pathlib.Path(sys.argv[1]), load_file(sys.argv[2])
    compared = check(checkpoint, weights)
    with tempfile.TemporaryDirectory() as elsewhere:
        moved = pathlib.Path(elsewhere) / checkpoint.name
        shutil.copytree(checkpoint, moved)
        check(moved, weights)
    print(f"{compared} tensors equal, here and moved")


main()
