#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Weights of a GPT run to Hugging Face's libraries and back, bit for bit.

    scripts/check_hugging_face.py WEIGHTS.safetensors CONFIG.yaml [--trireme build/cpu/trireme]

Exports with `trireme checkpoint export`, reads the result with safetensors, loads it with transformers (no key may be
missing or left over), runs it once, saves it with save_pretrained in small shards, imports those with `trireme checkpoint
import`, and compares every tensor with WEIGHTS. Seconds for a small model. Needs: pip install numpy safetensors
transformers torch. Exit 77 where one is missing.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    from safetensors.numpy import load_file
    from transformers import GPT2LMHeadModel
except ImportError as error:
    print(f"skipped: {error}; pip install numpy safetensors transformers torch")
    sys.exit(77)


def same(left, right):
    return left.shape == right.shape and np.array_equal(left.view(np.uint32), right.view(np.uint32))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights")
    parser.add_argument("config")
    parser.add_argument("--trireme", default="build/cpu/trireme")
    arguments = parser.parse_args()
    trireme = [arguments.trireme, "checkpoint"]
    with tempfile.TemporaryDirectory() as directory:
        there, shards, back = (pathlib.Path(directory) / name for name in ("there", "shards", "back.safetensors"))
        subprocess.run([*trireme, "export", arguments.weights, "--config", arguments.config, "--out", there], check=True)
        exported = load_file(there / "model.safetensors")
        model, info = GPT2LMHeadModel.from_pretrained(there, output_loading_info=True)
        # The head is tied to the tokens and is not in the file.
        missing = set(info["missing_keys"]) - {"lm_head.weight"}
        if missing or info["unexpected_keys"] or info["mismatched_keys"]:
            sys.exit(f"transformers: missing {missing}, unexpected {info['unexpected_keys']}, {info['mismatched_keys']}")
        for name, values in model.transformer.state_dict().items():
            if name in exported and not same(values.numpy(), exported[name]):
                sys.exit(f"{name}: transformers has other values than the file")
        with torch.no_grad():
            logits = model(torch.zeros((1, model.config.n_positions), dtype=torch.long)).logits
        if not torch.isfinite(logits).all():
            sys.exit("transformers: logits are not finite")
        model.save_pretrained(shards, max_shard_size="1MB")
        subprocess.run([*trireme, "import", shards, "--config", arguments.config, "--out", back], check=True)
        ours, returned = load_file(arguments.weights), load_file(back)
        if set(ours) != set(returned):
            sys.exit(f"other tensors came back: {sorted(set(ours) ^ set(returned))}")
        rows = model.config.vocab_size
        for name, values in ours.items():
            # Rows beyond the vocabulary are padding, which nobody else has.
            count = rows if name == "embedding.token.weight" else len(values)
            if not same(values[:count], returned[name][:count]):
                sys.exit(f"{name}: came back with other values")
    print(f"{len(ours)} tensors there and back, {len(exported)} in the file")


main()
