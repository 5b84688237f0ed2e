#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the same models with PyTorch and with Trireme on the same cores and compares speed and memory.

    python3 scripts/compare_pytorch.py                                     GPT and ResNet, fp32 and bf16, 1 and 2 ranks
    python3 scripts/compare_pytorch.py --model gpt --precision fp32 --ranks 1 --rounds 5

GPT: 6 layers, 384 wide, 6 heads, T = 256, B = 16, V = 256, AdamW, gradients clipped at 1.0. ResNet: the network of
configs/resnet_fashion.yaml at its batch with its optimizer. Each round runs PyTorch, then Trireme at each rank count, so
that both see the same machine; every process is pinned to its cores and each rank has one thread. Reported are the
medians over all rounds of the steps after the warm-up, and the highest resident set of any process. PyTorch is eager
with F.scaled_dot_product_attention, fused optimizers and channels_last images; bf16 is its autocast. Every rank trains
on the whole batch above (so 2 ranks do twice the work per step) unless --strong divides it.

Needs a build (scripts/quickstart.sh or cmake --build --preset cpu) and PyTorch: pip install torch. Without --compile a
full call takes about 15 minutes on 2 cores. Exits 1 where a run fails, never because of a number.
"""
import argparse
import json
import os
import random
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GPT = {"layers": 6, "hidden": 384, "heads": 6, "context": 256, "vocabulary": 256, "batch": 16, "clip": 1.0}
GPT_OPTIMIZER = {"lr": 1e-3, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}
BATCHES = 8  # distinct batches that PyTorch cycles through, made beforehand


def resnet_sizes():
    """The sizes in configs/resnet_fashion.yaml; that file's lines are simple enough to need no YAML library."""
    path = os.path.join(REPOSITORY, "configs", "resnet_fashion.yaml")
    text = open(path, encoding="utf-8").read()

    def value(key):
        found = re.search(rf"[\s{{]{key}:\s*(\[[^\]]*\]|[^\s,}}]+)", text)
        if not found:
            sys.exit(f"{path}: has no {key}")
        return found.group(1)

    return {
        "block": value("block"), "stem": value("stem"), "stages": json.loads(value("stages")),
        "width": int(value("width")), "image_size": int(value("image_size")), "channels": int(value("channels")),
        "classes": int(value("classes")), "batch": int(value("global_batch")),
        "lr": float(value("learning_rate")), "betas": json.loads(value("betas")),
        "weight_decay": float(value("weight_decay")),
    }


# ---- The PyTorch side; runs in its own process (--worker). ----


def torch_gpt(torch):
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            width = GPT["hidden"]
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            batch, length, width = x.shape
            heads = GPT["heads"]
            q, k, v = (part.view(batch, length, heads, width // heads).transpose(1, 2)
                       for part in self.qkv(self.norm1(x)).split(width, dim=2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.projection(y.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(GPT["vocabulary"], GPT["hidden"])
            self.positions = nn.Embedding(GPT["context"], GPT["hidden"])
            self.blocks = nn.ModuleList(Block() for _ in range(GPT["layers"]))
            self.norm = nn.LayerNorm(GPT["hidden"])
            for parameter in self.parameters():
                if parameter.dim() == 2:
                    nn.init.normal_(parameter, std=0.02)

        def forward(self, ids, targets):
            x = self.tokens(ids) + self.positions.weight
            for block in self.blocks:
                x = block(x)
            logits = self.norm(x) @ self.tokens.weight.t()  # the head is tied to the token table
            return F.cross_entropy(logits.view(-1, GPT["vocabulary"]).float(), targets.view(-1))

    model = Model()
    decayed = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    optimizer = torch.optim.AdamW([{"params": decayed}, {"params": others, "weight_decay": 0.0}], fused=True,
                                  **GPT_OPTIMIZER)
    shape = (GPT["batch"], GPT["context"] + 1)
    samples = [torch.randint(0, GPT["vocabulary"], shape) for _ in range(BATCHES)]
    return model, optimizer, [(s[:, :-1].contiguous(), s[:, 1:].contiguous()) for s in samples], GPT["clip"]


def torch_resnet(torch):
    from torch import nn
    from torch.nn import functional as F

    sizes = resnet_sizes()
    if sizes["block"] != "basic" or sizes["stem"] != "small":
        sys.exit("configs/resnet_fashion.yaml: this comparison knows basic blocks and the small stem")

    def unit(inputs, outputs, window, stride):
        return nn.Sequential(nn.Conv2d(inputs, outputs, window, stride, window // 2, bias=False),
                             nn.BatchNorm2d(outputs))

    class Block(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.first, self.second = unit(inputs, outputs, 3, stride), unit(outputs, outputs, 3, 1)
            changes = stride != 1 or inputs != outputs
            self.shortcut = unit(inputs, outputs, 1, stride) if changes else nn.Identity()

        def forward(self, x):
            return F.relu(self.second(F.relu(self.first(x))) + self.shortcut(x))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            width, layers = sizes["width"], []
            self.stem = unit(sizes["channels"], width, 3, 1)
            inputs = width
            for stage, count in enumerate(sizes["stages"]):
                for index in range(count):
                    outputs = width << stage
                    layers.append(Block(inputs, outputs, 2 if stage > 0 and index == 0 else 1))
                    inputs = outputs
            self.blocks = nn.Sequential(*layers)
            self.head = nn.Linear(inputs, sizes["classes"])

        def forward(self, images, labels):
            x = self.blocks(F.relu(self.stem(images)))
            logits = self.head(x.mean(dim=(2, 3)))
            return F.cross_entropy(logits.float(), labels)

    model = Model().to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=sizes["lr"], betas=tuple(sizes["betas"]),
                                  weight_decay=sizes["weight_decay"], fused=True)
    shape = (sizes["batch"], sizes["channels"], sizes["image_size"], sizes["image_size"])
    batches = [(torch.randn(shape).to(memory_format=torch.channels_last),
                torch.randint(0, sizes["classes"], (sizes["batch"],))) for _ in range(BATCHES)]
    return model, optimizer, batches, 0.0


def worker(arguments):
    import torch

    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    torch.manual_seed(1)
    model, optimizer, batches, clip = (torch_gpt if arguments.model == "gpt" else torch_resnet)(torch)
    step_model = torch.compile(model) if arguments.compile else model
    times = []
    for step in range(arguments.steps):
        inputs, targets = batches[step % BATCHES]
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=arguments.precision == "bf16"):
            loss = step_model(inputs, targets)
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        loss.item()
        times.append(1000 * (time.perf_counter() - start))
    print(json.dumps({"version": torch.__version__, "step_ms": times}))


# ---- The driver. ----


def run(command, cores, log):
    """Runs a command pinned to `cores`; gives its standard output and the highest resident set of any process in MiB."""
    environment = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    with open(log, "w+", encoding="utf-8") as errors, tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        child = subprocess.Popen(["taskset", "-c", ",".join(map(str, cores)), *command], stdin=subprocess.DEVNULL,
                                 stdout=output, stderr=errors, env=environment, cwd=REPOSITORY)
        # The usage that wait4 gives covers all descendants that were waited for: the ranks below mpirun too.
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    if child.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with status {child.returncode}:\n{text[-2000:]}"
                 f"{open(log, encoding='utf-8').read()[-2000:]}")
    return text, usage.ru_maxrss / 1024


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)


class Comparison:
    def __init__(self, arguments, place):
        self.arguments, self.place, self.runs = arguments, place, 0

    def pack(self, model):
        """Random data of the shape that `model` reads, packed with Trireme's own tools."""
        out = os.path.join(self.place, "data_" + model)
        generator = random.Random(1)
        if model == "gpt":
            raw = os.path.join(self.place, "random.bin")
            with open(raw, "wb") as file:
                file.write(generator.randbytes(8 << 20))
            command = ["pack-text", raw, "--out", out, "--split", "train"]
        else:
            sizes = resnet_sizes()
            count, side = 4096, sizes["image_size"]
            images, labels = (os.path.join(self.place, name) for name in ("images.idx", "labels.idx"))
            with open(images, "wb") as file:
                file.write(struct.pack(">IIII", 0x803, count, side, side))
                file.write(generator.randbytes(count * side * side))
            with open(labels, "wb") as file:
                file.write(struct.pack(">II", 0x801, count))
                file.write(bytes(index % sizes["classes"] for index in range(count)))
            command = ["pack-images", images, "--labels", labels, "--out", out, "--split", "train"]
        run([self.arguments.trireme, "data", *command], [self.arguments.core], os.path.join(self.place, "log"))
        return os.path.join(out, "train")

    def config(self, model, precision, ranks, data, directory):
        arguments = self.arguments
        batch = GPT["batch"] if model == "gpt" else resnet_sizes()["batch"]
        micro = batch // ranks if arguments.strong else batch
        settings = {"run.directory": directory, "precision": precision, "data.path": data, "data.validation_path": '""',
                    "train.steps": arguments.steps, "train.micro_batch": micro, "train.global_batch": micro * ranks,
                    "train.eval_every": 0, "train.log_every": arguments.steps,
                    "lr_schedule.name": "constant", "lr_schedule.warmup_steps": 0}
        if model == "gpt":
            settings |= {"model.layers": GPT["layers"], "model.hidden": GPT["hidden"], "model.heads": GPT["heads"],
                         "model.context": GPT["context"], "model.vocabulary": GPT["vocabulary"],
                         "train.clip_norm": GPT["clip"], "optimizer.learning_rate": GPT_OPTIMIZER["lr"]}
            return "configs/gpt_tiny.yaml", settings
        # PyTorch gets ready-made floats: no augmentation here either.
        return "configs/resnet_fashion.yaml", settings | {"data.crop_padding": 0, "data.flip": "false"}

    def trireme(self, model, precision, ranks, data):
        self.runs += 1
        directory = os.path.join(self.place, f"run_{self.runs}")
        path, settings = self.config(model, precision, ranks, data, directory)
        command = [self.arguments.trireme, "train", path]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        if ranks > 1:
            script = f'source launch/mpi_env.sh {ranks} && exec mpirun -np {ranks} "$@"'
            command = ["bash", "-c", script, "--", *command]
        cores = range(self.arguments.core, self.arguments.core + ranks)
        _, peak = run(command, cores, os.path.join(self.place, "log"))
        times, items = [], []
        with open(os.path.join(directory, "metrics.jsonl"), encoding="utf-8") as file:
            for line in map(json.loads, file):
                if "loss" in line:
                    times.append(line["step_ms"])
                    items.append((line.get("tokens_per_s") or line["images_per_s"]) * line["step_ms"] / 1000)
        return times[self.arguments.warmup:], round(items[-1]), peak

    def pytorch(self, model, precision, compiled):
        command = [self.arguments.torch_python, os.path.abspath(__file__), "--worker", "--model", model, "--precision",
                   precision, "--steps", str(self.arguments.steps), "--warmup", "0"]
        command += ["--compile"] if compiled else []
        text, peak = run(command, [self.arguments.core], os.path.join(self.place, "log"))
        result = json.loads(text.splitlines()[-1])
        items = GPT["batch"] * GPT["context"] if model == "gpt" else resnet_sizes()["batch"]
        self.version = result["version"]
        return result["step_ms"][self.arguments.warmup:], items, peak

    def compare(self, model, precision):
        arguments = self.arguments
        data = self.pack(model)
        sides = {"PyTorch": lambda: self.pytorch(model, precision, False)}
        if arguments.compile:
            sides["PyTorch compiled"] = lambda: self.pytorch(model, precision, True)
        for ranks in arguments.ranks:
            name = f"Trireme, {ranks} rank{'s' if ranks > 1 else ''}"
            sides[name] = lambda ranks=ranks: self.trireme(model, precision, ranks, data)
        found = {name: {"times": [], "items": 0, "peak": 0.0} for name in sides}
        for number in range(arguments.rounds):
            for name, action in sides.items():
                progress(f"{model} {precision}: round {number + 1}/{arguments.rounds}, {name}")
                times, items, peak = action()
                found[name]["times"] += times
                found[name]["items"] = items
                found[name]["peak"] = max(found[name]["peak"], peak)
        progress("")
        shutil.rmtree(os.path.dirname(data))
        self.report(model, precision, found)

    def report(self, model, precision, found):
        unit = "tokens/s" if model == "gpt" else "images/s"
        title = (f"GPT {GPT['layers']} x {GPT['hidden']}, T {GPT['context']}, B {GPT['batch']}" if model == "gpt"
                 else f"ResNet of configs/resnet_fashion.yaml, B {resnet_sizes()['batch']}")
        arguments = self.arguments
        print(f"\n{title}, {precision}, one core per rank: {arguments.rounds} rounds of "
              f"{arguments.steps - arguments.warmup} steps, medians; PyTorch {self.version}")
        print(f"{'':20}{unit:>12}{'ms/step':>10}{'x PyTorch':>11}{'peak MiB':>10}{'x PyTorch':>11}{'x 1 rank':>10}")
        rates = {name: 1000 * run["items"] / statistics.median(run["times"]) for name, run in found.items()}
        one = rates.get("Trireme, 1 rank")
        for name, values in found.items():
            scaling = f"{rates[name] / one:10.2f}" if one and name.startswith("Trireme") else ""
            print(f"{name:20}{rates[name]:12,.0f}{statistics.median(values['times']):10.1f}"
                  f"{rates[name] / rates['PyTorch']:11.2f}{values['peak']:10.0f}"
                  f"{values['peak'] / found['PyTorch']['peak']:11.2f}{scaling}")
        sys.stdout.flush()


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["gpt", "resnet", "both"], default="both")
    parser.add_argument("--precision", choices=["fp32", "bf16", "both"], default="both")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2], help="rank counts of Trireme (default: 1 2)")
    parser.add_argument("--strong", action="store_true", help="divide the batch among the ranks")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20, help="steps of each run, warm-up included (default: 20)")
    parser.add_argument("--warmup", type=int, default=5, help="steps that do not count (default: 5)")
    parser.add_argument("--core", type=int, default=0, help="first core to use (default: 0)")
    parser.add_argument("--compile", action="store_true", help="also run PyTorch with torch.compile")
    parser.add_argument("--trireme", default=os.path.join(REPOSITORY, "build", "cpu", "trireme"))
    parser.add_argument("--torch-python", default=sys.executable, help="a Python that has torch (default: this one)")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not 0 <= arguments.warmup < arguments.steps or arguments.rounds < 1:
        parser.error("needs 0 <= warmup < steps and at least one round")
    return arguments


def main():
    arguments = parse()
    if arguments.worker:
        return worker(arguments)
    arguments.trireme = os.path.abspath(arguments.trireme)
    if not os.access(arguments.trireme, os.X_OK):
        sys.exit(f"{arguments.trireme}: is not there; build first: cmake --preset cpu && cmake --build --preset cpu")
    probe = subprocess.run([arguments.torch_python, "-c", "import torch"], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        sys.exit(f"{arguments.torch_python} has no PyTorch; run: python3 -m venv build/torch && "
                 "build/torch/bin/pip install torch, then add --torch-python build/torch/bin/python")
    with tempfile.TemporaryDirectory(prefix="trireme-compare-") as place:
        comparison = Comparison(arguments, place)
        for model in ["gpt", "resnet"] if arguments.model == "both" else [arguments.model]:
            for precision in ["fp32", "bf16"] if arguments.precision == "both" else [arguments.precision]:
                comparison.compare(model, precision)
    return 0


if __name__ == "__main__":
    sys.exit(main())
