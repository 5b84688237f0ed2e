#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Weights of a GPT run to Hugging Face's libraries and back, bit for bit.

    scripts/check_hugging_face.py RUN --data SHARDS [--trireme FILE]

RUN is a directory with config.yaml and weights.safetensors; SHARDS a directory of one packed shard of its tokens.
- Exports with `trireme checkpoint export`, reads the result with safetensors, loads it with transformers (no key may be
  missing or left over), and compares the mean loss over the data with that of `trireme eval`, to 1e-4: logits that
  differ would show in it.
- Saves with save_pretrained, whole and in small shards, imports both with `trireme checkpoint import`, and compares every
  tensor with RUN's.
- The same for a model that transformers drew at random: import, export, equal bits, equal loss; then, as a run, greedy tokens
  and log-likelihoods of `trireme generate` and `eval` against those of transformers.
Seconds for a small model. Needs: pip install numpy safetensors transformers torch h5py. Exit 77 where one is missing.
"""
import argparse
import pathlib
import random
import re
import sys
import tempfile

from exchange import Program, add_program, compare_texts, h5py, load_file, np, torch, transformers

GPT2LMHeadModel = transformers.GPT2LMHeadModel
LOSS_TOLERANCE = 1e-4
TEXT_TOLERANCE = 1e-5
BATCH = 16


def same(left, right):
    return left.shape == right.shape and np.array_equal(left.view(np.uint32), right.view(np.uint32))


def compare(what, ours, others, rows):
    """All tensors bit for bit; beyond `rows` the tokens' matrix is padding, which nobody else has."""
    if set(ours) != set(others):
        sys.exit(f"{what}: other tensors: {sorted(set(ours) ^ set(others))}")
    for name, values in ours.items():
        count = rows if name == "embedding.token.weight" else len(values)
        if not same(values[:count], others[name][:count]):
            sys.exit(f"{what}: {name} has other values")


def load_in_transformers(directory):
    model, info = GPT2LMHeadModel.from_pretrained(directory, output_loading_info=True)
    # The head is tied to the tokens and is not in the file.
    missing = set(info["missing_keys"]) - {"lm_head.weight"}
    if missing or info["unexpected_keys"] or info["mismatched_keys"]:
        sys.exit(f"transformers: missing {missing}, unexpected {info['unexpected_keys']}, {info['mismatched_keys']}")
    return model.eval()


def loss_in_transformers(model, data):
    """Mean over the same targets as `trireme eval`: windows of the context's length, one after another."""
    (shard,) = sorted(pathlib.Path(data).glob("*.h5"))
    with h5py.File(shard) as file:
        tokens = torch.from_numpy(file["tokens"][...].astype(np.int64))
    length = model.config.n_positions
    count = (len(tokens) - 1) // length
    inputs = tokens[:count * length].view(count, length)
    targets = tokens[1:count * length + 1].view(count, length)
    total = 0.0
    with torch.no_grad():
        for at in range(0, count, BATCH):
            logits = model(inputs[at:at + BATCH]).logits.double()
            total += torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets[at:at + BATCH].flatten(),
                                                       reduction="sum").item()
    return total / (count * length)


class Exchange:
    def __init__(self, arguments, place):
        self.arguments, self.place = arguments, pathlib.Path(place)
        self.config = pathlib.Path(arguments.run) / "config.yaml"
        self.trireme = Program(arguments.trireme)

    def exported(self, weights, name):
        self.trireme("checkpoint", "export", weights, "--config", self.config, "--out", self.place / name)
        return self.place / name

    def imported(self, directory):
        out = self.place / f"{directory.name}.safetensors"
        self.trireme("checkpoint", "import", directory, "--config", self.config, "--out", out)
        return out

    def saved(self, model, name, **options):
        model.save_pretrained(self.place / name, **options)
        return self.place / name

    def compare_losses(self, what, weights, model):
        # The run's own arithmetic may be bf16.
        settings = ["--set", "precision=fp32", "--set", f"data.validation_path={self.arguments.data}"]
        printed = self.trireme("eval", self.arguments.run, "--weights", weights, *settings)
        ours = float(re.search(r"^loss +([0-9.]+)", printed, re.MULTILINE).group(1))
        theirs = loss_in_transformers(model, self.arguments.data)
        print(f"{what}: loss {ours:.6f} here, {theirs:.6f} in transformers")
        if not abs(ours - theirs) < LOSS_TOLERANCE:
            sys.exit(f"{what}: the losses differ by more than {LOSS_TOLERANCE}")

    def there_and_back(self):
        weights = pathlib.Path(self.arguments.run) / "weights.safetensors"
        ours, there = load_file(weights), self.exported(weights, "there")
        model = load_in_transformers(there)
        exported = load_file(there / "model.safetensors")
        state = model.transformer.state_dict()
        for name, values in exported.items():
            if not same(state[name.removeprefix("transformer.")].numpy(), values):
                sys.exit(f"{name}: transformers has other values than the file")
        self.compare_losses("exported", weights, model)
        rows = model.config.vocab_size
        compare("whole", ours, load_file(self.imported(self.saved(model, "whole"))), rows)
        sharded = self.saved(model, "sharded", max_shard_size="1MB")
        compare("sharded", ours, load_file(self.imported(sharded)), rows)
        print(f"{len(ours)} tensors there and back, whole and in {len(list(sharded.glob('*.safetensors')))} shards")
        return model.config

    def random_model(self, config):
        torch.manual_seed(1)
        config.initializer_range = 0.1
        model = GPT2LMHeadModel(config).eval()
        weights = self.imported(self.saved(model, "random"))
        self.compare_losses("imported", weights, model)
        back = load_in_transformers(self.exported(weights, "random_back"))
        theirs, returned = model.state_dict(), back.state_dict()
        if any(not same(values.numpy(), returned[name].numpy()) for name, values in theirs.items()):
            sys.exit("random weights came back with other values")
        print(f"{len(theirs)} random tensors here and back")
        run = self.place / "run"
        self.trireme("checkpoint", "import", self.place / "random_back", "--out", run)
        tokens, error = compare_texts(self.trireme, run, back, random.Random(1))
        print(f"as a run: greedy tokens {'the same' if tokens else 'DIFFERENT'}, log-likelihood off by {error:.1e} a token")
        if not (tokens and error < TEXT_TOLERANCE):
            sys.exit("texts are continued or scored otherwise than in transformers")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--data", required=True, help="directory of one packed shard")
    add_program(parser)
    with tempfile.TemporaryDirectory() as place:
        exchange = Exchange(parser.parse_args(), place)
        exchange.random_model(exchange.there_and_back())


main()
