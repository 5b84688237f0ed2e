#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Llama, Mistral, Qwen 2 and Qwen 3 of random small sizes against transformers: losses, gradients, AdamW steps.

    scripts/check_llama.py [--models N] [--seed S] [--trireme FILE]

transformers draws each model, saves it whole or in shards, and `trireme checkpoint import` reads it without being told what
it is. Then, on one batch of random bytes in fp32:
- The mean loss of both, to 1e-5.
- Every gradient: one step of SGD with a large learning rate, after which the weights, exported again, are the gradients.
  Within 1e-5 of the gradient's norm of those that PyTorch computes in fp64.
- Five steps of AdamW: the loss of each step, to 1e-5.
- Weights out again: equal bits, and the same loss of the model that transformers makes of our config.json.
Sizes are odd: heads that share keys, head sizes off hidden / heads, every rotary scaling, windows, tied heads and not.
A few seconds per model. Needs: pip install numpy safetensors transformers torch. Exit 77 where one is missing.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    import transformers
    from safetensors.numpy import load_file
except ImportError as error:
    print(f"skipped: {error}; pip install numpy safetensors transformers torch")
    sys.exit(77)

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
TOLERANCE = 1e-5
ADAMW_STEPS, ADAMW_RATE, DECAY = 5, 3e-3, 0.1
SGD_RATE = 512.0  # so large that what the weights were is lost beside it
RUN = """
run: {{directory: {run}}}
precision: fp32
{model}data: {{path: {data}}}
train: {{steps: {steps}, global_batch: {batch}, micro_batch: {batch}, clip_norm: 0, log_every: 1, initial_weights: {weights}}}
optimizer: {optimizer}
lr_schedule: {{name: constant}}
"""
SGD = f"{{name: sgd, learning_rate: {SGD_RATE}, momentum: 0.0, weight_decay: 0.0}}"
ADAMW = f"{{name: adamw, learning_rate: {ADAMW_RATE}, betas: [0.9, 0.95], epsilon: 1e-8, weight_decay: {DECAY}}}"


KINDS = ["Llama", "Mistral", "Qwen2", "Qwen3"]
ROPES = ["default", "linear", "llama3", "yarn"]


def rope(draw, kind, context):
    settings = {"rope_type": kind, "rope_theta": draw.choice([500.0, 10000.0, 1e6])}
    if kind != "default":
        settings["factor"] = draw.choice([1.5, 4.0, 8.0])
    if kind in ("llama3", "yarn"):
        settings["original_max_position_embeddings"] = draw.choice([8, 32, context])
    if kind == "llama3":
        settings |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    return settings


def draw_model(draw, index):
    """A model of transformers in fp32, and a line that says what it is. Sixteen in a row have every kind with every rope."""
    kind = KINDS[index % 4]
    key_heads, group = draw.choice([1, 2, 3]), draw.choice([1, 2, 4])
    context = draw.choice([17, 40, 101])
    sizes = {"num_hidden_layers": draw.choice([1, 2, 3]), "num_key_value_heads": key_heads,
             "num_attention_heads": key_heads * group, "head_dim": draw.choice([6, 8, 18, 32]),
             "hidden_size": draw.choice([24, 45, 64]), "intermediate_size": draw.choice([33, 70, 128]),
             "max_position_embeddings": context, "vocab_size": draw.choice([256, 259, 300])}
    more = {"tie_word_embeddings": draw.random() < 0.5, "rms_norm_eps": draw.choice([1e-5, 1e-6]),
            "rope_parameters": rope(draw, ROPES[index // 4 % 4], context), "initializer_range": 0.15, "attn_implementation": "eager",
            "bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    window = draw.choice([None, 5, 16])
    if kind == "Mistral":
        more["sliding_window"] = window
    elif kind.startswith("Qwen") and window is not None:
        more |= {"use_sliding_window": True, "sliding_window": window, "max_window_layers": 0}
    else:
        window = None
    config = getattr(transformers, kind + "Config")(**sizes, **more)
    torch.manual_seed(draw.randrange(1 << 30))
    model = getattr(transformers, kind + "ForCausalLM")(config).float().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("norm.weight") or name.endswith(".bias"):
                parameter.add_(torch.randn_like(parameter) * 0.2)
    settings = more["rope_parameters"]
    text = (f"{kind}: {sizes['num_hidden_layers']} layers of {sizes['hidden_size']}, {key_heads * group} heads of "
            f"{sizes['head_dim']} on {key_heads}, MLP {sizes['intermediate_size']}, context {context}, rope "
            f"{settings['rope_type']}, window {window}, {'tied' if more['tie_word_embeddings'] else 'untied'}")
    return model, text


class Comparison:
    def __init__(self, trireme, place, seed, index):
        draw = random.Random(seed * 1000 + index)
        self.program, self.place = trireme, pathlib.Path(place)
        self.model, self.text = draw_model(draw, index)
        self.batch = draw.choice([1, 2, 3])
        self.tokens = draw.randbytes(self.batch * self.context + 1)
        self.sharded = draw.random() < 0.5

    @property
    def context(self):
        return self.model.config.max_position_embeddings

    def trireme(self, *command):
        done = subprocess.run([self.program, *map(str, command)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{self.text}\ntrireme {' '.join(map(str, command))}\nended with status {done.returncode}:\n"
                             f"{done.stdout}{done.stderr}")
        return done.stdout

    def prepare(self):
        theirs = self.place / "theirs"
        self.model.save_pretrained(theirs, max_shard_size="40KB" if self.sharded else "1GB")
        self.weights = self.place / "ours.safetensors"
        printed = self.trireme("checkpoint", "import", theirs, "--out", self.weights)
        self.section = printed[printed.index("model: {"):]
        (self.place / "tokens.bin").write_bytes(self.tokens)
        self.trireme("data", "pack-text", self.place / "tokens.bin", "--out", self.place / "data", "--split", "train")

    def train(self, name, steps, optimizer):
        """The losses of the steps, and the weights after them in their names."""
        config = self.place / f"{name}.yaml"
        run = self.place / name
        config.write_text(RUN.format(run=run, model=self.section, data=self.place / "data/train", steps=steps,
                                     batch=self.batch, weights=self.weights, optimizer=optimizer))
        self.trireme("train", config)
        exported = self.place / f"{name}_exported"
        self.trireme("checkpoint", "export", run / "weights.safetensors", "--config", config, "--out", exported)
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        return [line["loss"] for line in lines if "grad_norm" in line], load_file(exported / "model.safetensors")

    def loss(self, model):
        stream = torch.tensor(list(self.tokens))
        inputs, targets = stream[:-1].view(self.batch, -1), stream[1:]
        logits = model(inputs).logits
        return torch.nn.functional.cross_entropy(logits.view(targets.numel(), -1), targets)

    def gradients(self, start):
        losses, after = self.train("sgd", 1, SGD)
        model = self.model.double()
        loss = self.loss(model)
        self.start_loss = loss.item()
        loss.backward()
        worst, name_of_worst = 0.0, ""
        for name, parameter in model.named_parameters():
            ours = (start[name].astype(np.float64) - after[name]) / SGD_RATE
            reference = parameter.grad.numpy()
            # What the weights were is rounded away with the step; no error of the gradient is as small.
            rounding = np.linalg.norm(start[name]) * 2.0**-23 / SGD_RATE
            error = max(np.linalg.norm(ours - reference) - rounding, 0) / max(np.linalg.norm(reference), 1e-7)
            if error >= worst:
                worst, name_of_worst = error, name
        return abs(losses[0] - loss.item()), worst, name_of_worst

    def adamw(self):
        losses, _ = self.train("adamw", ADAMW_STEPS, ADAMW)
        parameters = dict(self.model.float().named_parameters())
        decayed = [p for p in parameters.values() if p.dim() > 1]
        others = [p for p in parameters.values() if p.dim() == 1]
        optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}],
                                      lr=ADAMW_RATE, betas=(0.9, 0.95), eps=1e-8)
        worst = 0.0
        for ours in losses:
            optimizer.zero_grad()
            loss = self.loss(self.model)
            worst = max(worst, abs(ours - loss.item()) / loss.item())
            loss.backward()
            optimizer.step()
        return worst

    def there_and_back(self, start):
        config = self.place / "sgd.yaml"
        self.trireme("checkpoint", "export", self.weights, "--config", config, "--out", self.place / "again")
        again = load_file(self.place / "again/model.safetensors")
        loaded = type(self.model).from_pretrained(self.place / "again", attn_implementation="eager").eval()
        with torch.no_grad():
            same_loss = abs(self.loss(loaded).item() - self.start_loss) < TOLERANCE
        state = loaded.state_dict()
        return same_loss and all(np.array_equal(values, again[name]) and np.array_equal(values, state[name].numpy())
                                 for name, values in start.items())

    def run(self):
        self.prepare()
        start = {name: parameter.detach().numpy().copy() for name, parameter in self.model.named_parameters()}
        loss, gradient, worst = self.gradients(start)
        adamw = self.adamw()
        same = self.there_and_back(start)
        good = loss < TOLERANCE and gradient < TOLERANCE and adamw < TOLERANCE and same
        print(f"{'ok   ' if good else 'WRONG'} {self.text}\n      loss off by {loss:.1e}, worst gradient {gradient:.1e} "
              f"({worst}), AdamW losses {adamw:.1e}, back {'with equal bits' if same else 'DIFFERENT'}", flush=True)
        return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trireme", type=pathlib.Path, default=REPOSITORY / "build/cpu/trireme")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    good = 0
    for index in range(arguments.models):
        with tempfile.TemporaryDirectory(prefix="trireme-llama-") as place:
            good += Comparison(arguments.trireme.absolute(), place, arguments.seed, index).run()
    print(f"{good} of {arguments.models} models agree with transformers {transformers.__version__}")
    return 0 if good == arguments.models else 1


if __name__ == "__main__":
    sys.exit(main())
