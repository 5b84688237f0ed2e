#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports weights of a GPT run to Hugging Face's libraries and imports them, bit for bit.

    tests/checks/check_hugging_face.py RUN --data SHARDS [--trireme FILE]
    tests/checks/check_hugging_face.py --expectations DIRECTORY

RUN is a directory with config.yaml and weights.safetensors; SHARDS is a directory with one packed shard of its tokens.
- Exports with `trireme checkpoint export`, reads the result with safetensors, loads it with transformers (no missing or extra key),
  and compares the mean loss over the data with `trireme eval`, to 1e-4, which would show different logits.
- Saves with save_pretrained, whole and in small shards, imports both with `trireme checkpoint import`, and compares every tensor
  with RUN's.
- The same for a random model of transformers: import, export, equal bits, equal loss; then, as a run, greedy tokens and
  log-likelihoods of `trireme generate` and `eval` against transformers.
- `trireme checkpoint import` compares its logits with those of transformers, and refuses weights with one wrong tensor; the logits
  of `export --expectations` equal those of transformers.

With --expectations, for any model: writes transformers' fp32 logits on fixed inputs into the directory as
trireme_expectations.safetensors, which `trireme checkpoint import` reads. Takes seconds for a small model. Needs: pip
install numpy safetensors transformers torch h5py. Exit 77 if one is missing.
"""
import pathlib
import random
import re
import sys
import tempfile

from exchange import class_of, compare_texts, h5py, load_file, np, torch, transformers
from safetensors.numpy import save_file as save_numpy
from safetensors.torch import save_file
from shared import Program, parser_of, run, same_bits

GPT2LMHeadModel = transformers.GPT2LMHeadModel
LOSS_TOLERANCE = 1e-4
TEXT_TOLERANCE = 1e-5
BATCH = 16
LOGIT_TOLERANCE = 1e-4  # of the largest logit
EXPECTED_TOKENS = 16
EXPECTATIONS = "trireme_expectations.safetensors"


def compare(what, ours, others, rows):
    """All tensors bit for bit; beyond `rows` the token matrix is padding, which only we have."""
    if set(ours) != set(others):
        sys.exit(f"{what}: other tensors: {sorted(set(ours) ^ set(others))}")
    for name, values in ours.items():
        count = rows if name == "embedding.token.weight" else len(values)
        if not same_bits(values[:count], others[name][:count]):
            sys.exit(f"{what}: {name} has other values")


def load_in_transformers(directory):
    model, info = GPT2LMHeadModel.from_pretrained(directory, output_loading_info=True)
    # The head is tied to the token embedding and is not in the file.
    missing = set(info["missing_keys"]) - {"lm_head.weight"}
    if missing or info["unexpected_keys"] or info["mismatched_keys"]:
        sys.exit(f"transformers: missing {missing}, unexpected {info['unexpected_keys']}, {info['mismatched_keys']}")
    return model.eval()


def loss_in_transformers(model, data):
    """Mean over the same targets as `trireme eval`: consecutive windows of the context's length."""
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


def fixed_inputs(config):
    """Token ids of two texts, or an image, that depend only on the model's sizes."""
    if hasattr(config, "num_channels"):
        size = getattr(config, "image_size", 224)  # that of published ResNets, whose config does not say it
        shape = (1, config.num_channels, size, size)
        values = torch.arange(np.prod(shape)).mul(37).remainder(255).div(127.5).sub(1)
        return {"pixel_values": values.float().view(shape)}
    # Bidirectional models are compared on whole contexts.
    masks = class_of(config) is transformers.AutoModelForMaskedLM
    length = config.max_position_embeddings if masks else min(EXPECTED_TOKENS, config.max_position_embeddings)
    return {"input_ids": torch.arange(2 * length).mul(7919).add(13).remainder(config.vocab_size).view(2, length)}


def write_expectations(directory):
    config = transformers.AutoConfig.from_pretrained(directory)
    model = class_of(config).from_pretrained(directory, dtype=torch.float32, attn_implementation="eager").eval()
    inputs = fixed_inputs(config)
    with torch.no_grad():
        logits = model(**inputs).logits
    save_file({**inputs, "logits": logits.contiguous()}, pathlib.Path(directory) / EXPECTATIONS)
    print(f"{directory}/{EXPECTATIONS}: {logits.numel()} logits")


def logits_of(directory):
    return load_file(directory / EXPECTATIONS)["logits"]


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
        # The run may compute in bf16.
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
            if not same_bits(state[name.removeprefix("transformer.")].numpy(), values):
                sys.exit(f"{name}: transformers has other values than the file")
        self.compare_losses("exported", weights, model)
        rows = model.config.vocab_size
        compare("whole", ours, load_file(self.imported(self.saved(model, "whole"))), rows)
        sharded = self.saved(model, "sharded", max_shard_size="1MB")
        compare("sharded", ours, load_file(self.imported(sharded)), rows)
        print(f"{len(ours)} tensors exported and imported, whole and in {len(list(sharded.glob('*.safetensors')))} shards")
        return model.config

    def random_model(self, config):
        torch.manual_seed(1)
        config.initializer_range = 0.1
        model = GPT2LMHeadModel(config).eval()
        weights = self.imported(self.saved(model, "random"))
        self.compare_losses("imported", weights, model)
        self.forward_check(self.place / "random")
        back = load_in_transformers(self.exported(weights, "random_back"))
        theirs, returned = model.state_dict(), back.state_dict()
        if any(not same_bits(values.numpy(), returned[name].numpy()) for name, values in theirs.items()):
            sys.exit("random weights came back with other values")
        print(f"{len(theirs)} random tensors here and back")
        run = self.place / "run"
        self.trireme("checkpoint", "import", self.place / "random_back", "--out", run)
        tokens, error = compare_texts(self.trireme, run, back, random.Random(1))
        print(f"as a run: greedy tokens {'the same' if tokens else 'DIFFERENT'}, log-likelihood off by {error:.1e} a token")
        if not (tokens and error < TEXT_TOLERANCE):
            sys.exit("texts are continued or scored otherwise than in transformers")

    def forward_check(self, directory):
        write_expectations(directory)
        if "logits as in" not in self.trireme("checkpoint", "import", directory, "--out", self.place / "checked"):
            sys.exit("import did not check itself")
        theirs = logits_of(directory)
        out = self.place / "told"
        self.trireme("checkpoint", "export", self.place / "checked", "--out", out, "--expectations")
        told = logits_of(out)
        if not np.allclose(told, theirs, rtol=0, atol=LOGIT_TOLERANCE * max(1, np.abs(theirs).max())):
            sys.exit("export --expectations tells other logits than transformers")
        weights = load_file(directory / "model.safetensors")
        name = next(name for name in sorted(weights) if ".h." in name and weights[name].ndim == 2)
        save_numpy({**weights, name: -weights[name]}, directory / "model.safetensors", metadata={"format": "pt"})
        done = run([self.trireme.path, "checkpoint", "import", directory, "--out", self.place / "wrong"], codes=[4])
        if "the largest difference of logits" not in done.stderr:
            sys.exit(f"import took weights with another {name}:\n{done.stdout}{done.stderr}")
        print(f"{told.size} logits told and checked; another {name} is refused")


def main():
    parser = parser_of(__doc__)
    parser.add_argument("run", nargs="?")
    parser.add_argument("--data", help="directory of one packed shard")
    parser.add_argument("--expectations", metavar="DIRECTORY", help="write logits of transformers beside these weights")
    arguments = parser.parse_args()
    if arguments.expectations:
        return write_expectations(arguments.expectations)
    if not (arguments.run and arguments.data):
        parser.error("RUN and --data, or --expectations")
    with tempfile.TemporaryDirectory() as place:
        exchange = Exchange(arguments, place)
        exchange.random_model(exchange.there_and_back())
    return None


main()
