#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models of random small sizes against transformers: losses, gradients, AdamW steps, weights both ways.

    tests/checks/parity_huggingface.py [--families LIST] [--models N] [--seed S] [--steps N] [--trireme FILE]
    tests/checks/parity_huggingface.py --context N --context-blocks K [--context-mode M] [--ranks R]      # long sequences, cut in time

Families: gpt2, llama, mistral, qwen2, qwen3, gemma3, mixtral, qwen3_moe, dots1, gpt_oss, phi3, smollm3, olmo2, bert, roberta, vit, deit, resnet, and
bert_heads, llama_heads: padded texts with classes, values, labels or classes of tokens. transformers draws each model, saves it whole or in shards, and
`trireme checkpoint import` reads it without being told what it is. Then, on one batch of random bytes or pictures in fp32:
- The logits, as the import finds them in evaluation, to 1e-5 of the largest of fp64.
- The mean loss of both, to 1e-5.
- Every gradient: one step of SGD with a large learning rate, after which the weights, exported again, are the gradients.
  Within 1e-5 of the gradient's norm of those that PyTorch computes in fp64.
- Fifty steps of AdamW: the loss of each step, to 1e-4 of those of fp64, or five times what rounding alone does to PyTorch in fp32.
- Twenty steps of AdamW on low-rank adapters (lora.rank) of a language model, which PyTorch has as W + alpha / rank B A: the loss of
  each step, to 1e-4, and that of the merged model that transformers makes of the export.
- Weights out again: equal bits, and the same loss of the model that transformers makes of our config.json.
- Running means and variances of a ResNet, to 1e-5 after a step and 1e-3 after fifty; its losses and gradients are those of training, its logits those of evaluation.
Every second model of a language has data.documents: separate.
Sizes are odd: heads that share keys, head sizes off hidden / heads, every rotary scaling, windows, tied heads and not; rows of
1 + patches, both forms of GELU. A few seconds per model. Needs: pip install numpy safetensors transformers torch. Exit 77
where one is missing.
"""
import copy
import pathlib
import random
import re
import sys
import tempfile
import unittest.mock

from shared import REPOSITORY, packages, parser_of, read_steps, run

with packages("numpy safetensors transformers torch"):
    import numpy as np
    import torch
    import transformers
    from drawn_data import HiddenText, LabelledTexts, Pictures, Text, Texts
    from drawn_models import CONTEXTS, DRAWN_BY, GROUPS, balanced
    from safetensors.numpy import load_file, save_file
    from torch_adapters import Adapters

TOLERANCE = 1e-5
ADAMW_RATE, DECAY, ADAMW_TOLERANCE = 1e-3, 0.1, 1e-4
LORA_STEPS, LORA_RATE = 20, 3e-3
ADAMW_EPSILON = 1e-5  # far above the rounding of gradients that are zero, which AdamW would make steps of
STATISTICS_SHARE = 1e-2  # of an error after fifty steps, whose weights differ
SGD_RATE = 512.0  # so large that what the weights were is lost beside it
RUN = """
run: {{directory: {run}}}
precision: fp32
{model}data: {{path: {data}{more}}}
lora: {lora}
parallel: {{{parallel}}}
train: {{steps: {steps}, global_batch: {batch}, micro_batch: {batch}, clip_norm: 0, log_every: 1, initial_weights: {weights}}}
optimizer: {optimizer}
lr_schedule: {{name: constant}}
"""
SGD = f"{{name: sgd, learning_rate: {SGD_RATE}, momentum: 0.0, weight_decay: 0.0}}"
ADAMW = f"{{name: adamw, learning_rate: {ADAMW_RATE}, betas: [0.9, 0.95], epsilon: {ADAMW_EPSILON}, weight_decay: {DECAY}}}"


def in_double(model):
    """A copy in fp64, with its rotary angles, which transformers has in fp32: off by 1e-4 at position 4,000."""
    model = copy.deepcopy(model).double()
    wide = unittest.mock.patch.object(torch, "float", torch.double)
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if "RotaryEmbedding" in type(child).__name__:
                with wide:
                    setattr(parent, name, type(child)(child.config))
                getattr(parent, name).forward = wide(getattr(parent, name).forward)
    return model


def apart(ours, theirs):
    return max(abs(a - b) / max(b, 0.1) for a, b in zip(ours, theirs))


class Comparison:
    allowed = 0.0  # of AdamW's losses, where PyTorch's own in fp32 are far from those in fp64
    BALANCE = 0.1  # coefficient of the balance loss

    def __init__(self, arguments, place, draw, family, index):
        self.program, self.place, self.ranks, self.steps = arguments.trireme, pathlib.Path(place), arguments.ranks, arguments.steps
        self.parallel = (f"context: {self.ranks}, context_blocks: {arguments.context_blocks}, "
                         f"context_mode: {arguments.context_mode}")
        self.model, self.text = DRAWN_BY[family](draw, family, index)
        self.batch = draw.choice([5, 6, 8]) if family == "resnet" else draw.choice([1, 2, 3])
        if arguments.context:
            self.batch = 1
        self.balanced = balanced(family, index) and arguments.context_blocks == 1  # a loss over whole sequences
        if self.balanced:
            self.batch, self.text = 1, self.text + ", balanced"
        index = 0 if self.balanced else index
        kinds = {"vit": Pictures, "deit": Pictures, "resnet": Pictures, "bert": HiddenText, "roberta": HiddenText}
        kind = LabelledTexts if family.endswith("_heads") else kinds.get(family, Texts if index % 2 == 1 else Text)
        self.data = kind(draw, self.model, self.batch)
        if kind is Texts:
            self.text += ", documents apart"
        self.sharded = draw.random() < 0.5

    def trireme(self, *command):
        ranks = [] if command[0] != "train" or self.ranks == 1 else ["bash", REPOSITORY / "launch/mpi_env.sh", self.ranks, "mpirun", "-np", self.ranks]
        try:
            return run([*ranks, self.program, *command]).stdout
        except SystemExit as error:
            sys.exit(f"{self.text}\n{error}")

    def prepare(self):
        theirs = self.place / "theirs"
        self.model.save_pretrained(theirs, max_shard_size="40KB" if self.sharded else "1GB")
        self.weights = self.place / "ours.safetensors"
        save_file(self.expectations(), theirs / "trireme_expectations.safetensors")
        printed = self.trireme("checkpoint", "import", theirs, "--out", self.weights)
        self.logits = float(re.search(r"largest difference is (\S+)", printed)[1]) / self.largest
        self.section = printed[printed.index("model: {"):]
        self.data.pack(self.trireme, self.place)

    def expectations(self):
        """Inputs and logits for the import to compare with; the loss of evaluation."""
        model = in_double(self.model).eval()
        with torch.no_grad():
            self.start_loss = self.data.loss(model).item()
            name, inputs = self.data.inputs()
            if type(self.data) is LabelledTexts:
                logits = self.data.logits(model).float()
            else:
                logits = model(inputs if name == "input_ids" else inputs.double()).logits.float()
        self.largest = max(1.0, logits.abs().max().item())
        mask = {"attention_mask": self.data.batch()[1].numpy()} if type(self.data) is LabelledTexts else {}
        return {name: inputs.numpy(), "logits": logits.contiguous().numpy()} | mask

    def train(self, name, steps, optimizer, lora="{}"):
        """The losses of the steps, and the weights after them."""
        config = self.place / f"{name}.yaml"
        directory = self.place / name
        section = self.section
        if self.balanced and lora == "{}":
            section = section.replace("}", f", sequence_balance_loss: {self.BALANCE * self.model.config.num_experts_per_tok}}}", 1)
        config.write_text(RUN.format(run=directory, model=section, data=self.place / "data/train", more=self.data.more, parallel=self.parallel,
                                     steps=steps, batch=self.batch, weights=self.weights, optimizer=optimizer, lora=lora))
        self.trireme("train", config)
        exported = self.place / f"{name}_exported"
        self.trireme("checkpoint", "export", directory / "weights.safetensors", "--config", config, "--out", exported)
        return [step["loss"] for step in read_steps(directory)], self.read(exported)

    def read(self, directory):
        """The tensors of a file by parameter name; for GPT-2 the common prefix is dropped."""
        prefix = "transformer." if self.model.config.model_type == "gpt2" else ""
        return {prefix + name: values for name, values in load_file(directory / "model.safetensors").items()}

    def saved(self, values):
        """Values of the parameters by their names in files, which may differ from the module's."""
        model = copy.deepcopy(self.model)
        for name, parameter in model.named_parameters():
            parameter.data = values[name]
        with tempfile.TemporaryDirectory() as place:
            model.save_pretrained(place, max_shard_size="1GB")
            return self.unfused(load_file(pathlib.Path(place) / "model.safetensors"))

    def unfused(self, tensors):
        """Phi-3's fused matrices as those of Llama, as which we export it."""
        config, split = self.model.config, {}
        for name, values in tensors.items():
            if ".qkv_proj." in name:
                queries = config.num_attention_heads * config.head_dim
                parts = zip("qkv", np.split(values, [queries, (queries + len(values)) // 2]), strict=True)
                split |= {name.replace("qkv_proj", f"{part}_proj"): rows for part, rows in parts}
            elif ".gate_up_proj." in name and config.model_type == "phi3":
                parts = zip(["gate_proj", "up_proj"], np.split(values, 2), strict=True)
                split |= {name.replace("gate_up_proj", part): rows for part, rows in parts}
            else:
                split[name] = values
        return split

    def with_balance(self, model, loss):
        return loss + self.BALANCE * self.data.balance(model) if self.balanced else loss

    def gradients(self, start):
        losses, after = self.train("sgd", 1, SGD)
        model = in_double(self.model)
        loss = self.data.loss(model)
        self.with_balance(model, loss).backward()
        self.statistics = self.of_statistics(model, after, 1)
        worst, name_of_worst = 0.0, ""
        references = self.saved({name: p.grad for name, p in model.named_parameters()})
        # Biases of keys do not affect probabilities: their gradient is zero up to rounding.
        least = 1e-3 * np.sqrt(sum(np.linalg.norm(values) ** 2 for values in references.values()))
        statistics = {name for name, _ in model.named_buffers()}
        for name, reference in references.items():
            if name in statistics:
                continue
            ours = (start[name].astype(np.float64) - after[name]) / SGD_RATE
            # Subtracting rounds to the weights' precision, so smaller errors of the gradient are invisible.
            rounding = np.linalg.norm(start[name]) * 2.0**-23 / SGD_RATE
            error = max(np.linalg.norm(ours - reference) - rounding, 0) / max(np.linalg.norm(reference), least)
            if error >= worst:
                worst, name_of_worst = error, name
        return abs(losses[0] - loss.item()), worst, name_of_worst

    def adamw(self):
        losses, after = self.train("adamw", self.steps, ADAMW)
        model = in_double(self.model)
        theirs = self.adamw_losses(model)
        worst = apart(losses, theirs)
        if worst > ADAMW_TOLERANCE:
            self.allowed = 5 * apart(self.adamw_losses(copy.deepcopy(self.model)), theirs)
        self.statistics = max(self.statistics, STATISTICS_SHARE * self.of_statistics(model, after, self.steps))
        return worst

    def adamw_losses(self, model):
        parameters = dict(model.named_parameters())
        # Of multi-dimensional weights, positions, class tokens and biases of experts have no weight decay.
        undecayed = ("wpe.weight", "position_embeddings", "position_embeddings.weight", "_token", "_bias")
        decayed = [p for name, p in parameters.items() if p.dim() > 1 and not name.endswith(undecayed)]
        others = [p for name, p in parameters.items() if p.dim() == 1 or name.endswith(undecayed)]
        optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}],
                                      lr=ADAMW_RATE, betas=(0.9, 0.95), eps=ADAMW_EPSILON)
        losses = []
        for step in range(self.steps):
            optimizer.zero_grad()
            loss = self.data.loss(model, step)
            losses.append(loss.item())
            self.with_balance(model, loss).backward()
            optimizer.step()
        return losses

    def of_statistics(self, model, after, steps):
        """The error of batch norm statistics, relative to the largest."""
        worst = 0.0
        for name, theirs in model.named_buffers():
            if name.endswith("num_batches_tracked"):
                worst = max(worst, float(after[name] != steps))
            elif name.endswith(("running_mean", "running_var")):
                worst = max(worst, np.abs(after[name] - theirs.numpy()).max() / max(theirs.abs().max().item(), 0.1))
        return worst

    def adapted(self, draw):
        """Worst loss difference of adapters trained on both sides, and of the merged model."""
        rank, alpha = draw.choice([1, 3, 8]), draw.choice([4.0, 16.0])
        targets = draw.choice([["qkv", "output", "expand", "contract"], ["qkv", "contract"]])
        if "experts" in self.section:
            targets = ["qkv", "output"]
        lora = f"{{rank: {rank}, alpha: {alpha}, targets: [{', '.join(targets)}]}}"
        self.train("lora_begin", 1, ADAMW.replace(str(ADAMW_RATE), "0.0"), lora)
        losses, _ = self.train("lora", min(LORA_STEPS, self.steps), ADAMW.replace(str(ADAMW_RATE), str(LORA_RATE)), lora)
        model = copy.deepcopy(self.model).float()
        begin = load_file(self.place / "lora_begin/weights.safetensors")
        adapters = Adapters(model, {name: torch.tensor(values) for name, values in begin.items() if ".lora_" in name}, alpha / rank)
        optimizer = torch.optim.AdamW(adapters.factors.values(), lr=LORA_RATE, betas=(0.9, 0.95), eps=ADAMW_EPSILON, weight_decay=DECAY)
        worst = 0.0
        for ours in losses:
            optimizer.zero_grad()
            loss = self.data.loss(adapters)
            worst = max(worst, abs(ours - loss.item()) / max(loss.item(), 0.1))
            loss.backward()
            optimizer.step()
        merged = self.loaded("lora_exported")
        with torch.no_grad():
            after, ours = self.data.loss(adapters).item(), self.data.loss(merged).item()
        return max(worst, abs(ours - after) / max(after, 0.1))

    def loaded(self, name):
        # Fused products of experts refuse odd sizes.
        more = {"experts_implementation": "eager"} if "experts" in self.section else {}
        kind = transformers.AutoModelForCausalLM if self.model.config.model_type == "phi3" else type(self.model)
        return kind.from_pretrained(self.place / name, attn_implementation="eager", **more).eval()

    def there_and_back(self, start):
        config = self.place / "sgd.yaml"
        self.trireme("checkpoint", "export", self.weights, "--config", config, "--out", self.place / "again")
        again = self.read(self.place / "again")
        loaded = self.loaded("again")
        with torch.no_grad():
            same_loss = abs(self.data.loss(loaded).item() - self.start_loss) < TOLERANCE
        loaded.save_pretrained(self.place / "theirs_again", max_shard_size="1GB")
        theirs = load_file(self.place / "theirs_again/model.safetensors")
        return same_loss and all(np.array_equal(values, again[name]) and np.array_equal(values, theirs[name])
                                 for name, values in start.items())

    def run(self, draw):
        self.prepare()
        start = self.saved({name: p.detach().clone() for name, p in self.model.named_parameters()})
        loss, gradient, worst = self.gradients(start)
        lora = self.adapted(draw) if type(self.data) in (Text, Texts) else 0.0
        adamw = self.adamw()
        same = self.there_and_back(start)
        statistics = f", statistics {self.statistics:.1e}" if self.statistics > 0 else ""
        good = max(self.logits, self.statistics) < TOLERANCE and loss < TOLERANCE and gradient < TOLERANCE and max(adamw - self.allowed, lora) < ADAMW_TOLERANCE and same
        print(f"{'ok   ' if good else 'WRONG'} {self.text}\n      logits off by {self.logits:.1e}, loss by {loss:.1e}, worst gradient {gradient:.1e} "
              f"({worst}), AdamW losses {adamw:.1e}, of adapters {lora:.1e}{statistics}, back {'with equal bits' if same else 'DIFFERENT'}", flush=True)
        return good


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--families", default=",".join(DRAWN_BY))
    parser.add_argument("--models", type=int, default=4, help="of each family")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=50, help="of AdamW; of adapters at most 20")
    parser.add_argument("--context", type=int, help="tokens of every sequence, instead of 17, 40 or 101; one sequence at a time")
    parser.add_argument("--context-blocks", type=int, default=1, help="parallel.context_blocks")
    parser.add_argument("--context-mode", default="auto", choices=["auto", "gather", "heads"])
    parser.add_argument("--ranks", type=int, default=1, help="parallel.context")
    arguments = parser.parse_args()
    if arguments.context:
        CONTEXTS[:] = [arguments.context]
    if arguments.context_mode == "heads":
        GROUPS[:] = [arguments.context_blocks]
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    families = arguments.families.split(",")
    if unknown := set(families) - set(DRAWN_BY):
        parser.error(f"--families: unknown {', '.join(sorted(unknown))}; there are {', '.join(DRAWN_BY)}")
    good, models = 0, [(family, index) for family in families for index in range(arguments.models)]
    for family, index in models:
        draw = random.Random(f"{arguments.seed} {family} {index}")
        with tempfile.TemporaryDirectory(prefix="trireme-parity-") as place:
            good += Comparison(arguments, place, draw, family, index).run(draw)
    print(f"{good} of {len(models)} models agree with transformers {transformers.__version__}")
    return 0 if good == len(models) else 1


if __name__ == "__main__":
    sys.exit(main())
