#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The PyTorch side of compare_pytorch.py, in a process of its own: trains one workload on random batches and prints one
JSON object with the milliseconds of every step. Not for use by hand; see compare_pytorch.py."""
import argparse
import json
import sys
import time

try:
    import torch
except ImportError as error:
    sys.exit(f"{error}; install with: pip install torch")
from torch import nn
from torch.nn import functional as F

from workloads import WORKLOADS, Workload

BATCHES = 8  # distinct batches, made beforehand: reading data costs this side nothing


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, work, vocabulary):
        super().__init__()
        width = work["model.hidden"]
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(work["model.context"], width)
        self.blocks = nn.ModuleList(GptBlock(width, work["model.heads"]) for _ in range(work["model.layers"]))
        self.norm = nn.LayerNorm(width)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.positions.weight
        for block in self.blocks:
            x = block(x)
        logits = self.norm(x) @ self.tokens.weight.t()  # the head is tied to the token table
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.view(-1))


def gpt(work, device):
    # A table of whole tiles: a size that PyTorch's matrix products like better than 50257.
    vocabulary = -(-work["model.vocabulary"] // 128) * 128
    model = Gpt(work, vocabulary).to(device)
    decayed = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    optimizer = torch.optim.AdamW([{"params": decayed}, {"params": others, "weight_decay": 0.0}], fused=True,
                                  lr=work["optimizer.learning_rate"], betas=tuple(work["optimizer.betas"]),
                                  weight_decay=work["optimizer.weight_decay"])
    shape = (work.batch, work["model.context"] + 1)
    samples = [torch.randint(0, work["model.vocabulary"], shape, device=device) for _ in range(BATCHES)]
    return model, optimizer, [(s[:, :-1].contiguous(), s[:, 1:].contiguous()) for s in samples]


def unit(inputs, outputs, window, stride):
    return nn.Sequential(nn.Conv2d(inputs, outputs, window, stride, window // 2, bias=False), nn.BatchNorm2d(outputs))


class ResNetBlock(nn.Module):
    def __init__(self, inputs, width, stride, bottleneck):
        super().__init__()
        outputs = 4 * width if bottleneck else width
        if bottleneck:  # the stride is in the 3x3 convolution
            units = [unit(inputs, width, 1, 1), unit(width, width, 3, stride), unit(width, outputs, 1, 1)]
        else:
            units = [unit(inputs, width, 3, stride), unit(width, outputs, 3, 1)]
        self.branch = nn.Sequential(*[layer for part in units for layer in (part, nn.ReLU(inplace=True))][:-1])
        changes = stride != 1 or inputs != outputs
        self.shortcut = unit(inputs, outputs, 1, stride) if changes else nn.Identity()

    def forward(self, x):
        return F.relu(self.branch(x) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, work):
        super().__init__()
        width, bottleneck = work["model.width"], work["model.block"] == "bottleneck"
        if work["model.stem"] == "small":
            self.stem = nn.Sequential(unit(work["model.channels"], width, 3, 1), nn.ReLU(inplace=True))
        else:
            self.stem = nn.Sequential(unit(work["model.channels"], width, 7, 2), nn.ReLU(inplace=True),
                                      nn.MaxPool2d(3, 2, 1))
        layers, inputs = [], width
        for stage, count in enumerate(work["model.stages"]):
            for index in range(count):
                layers.append(ResNetBlock(inputs, width << stage, 2 if stage > 0 and index == 0 else 1, bottleneck))
                inputs = (width << stage) * (4 if bottleneck else 1)
        self.blocks = nn.Sequential(*layers)
        self.head = nn.Linear(inputs, work["model.classes"])
        self.smoothing = work.get("train.label_smoothing", 0.0)

    def forward(self, images, labels):
        logits = self.head(self.blocks(self.stem(images)).mean(dim=(2, 3)))
        return F.cross_entropy(logits.float(), labels, label_smoothing=self.smoothing)


def resnet(work, device):
    model = ResNet(work).to(device, memory_format=torch.channels_last)
    settings = {"lr": work["optimizer.learning_rate"], "weight_decay": work["optimizer.weight_decay"], "fused": True}
    if work["optimizer.name"] == "sgd":
        optimizer = torch.optim.SGD(model.parameters(), momentum=work["optimizer.momentum"],
                                    nesterov=work.get("optimizer.nesterov", False), **settings)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), betas=tuple(work["optimizer.betas"]), **settings)
    shape = (work.batch, work["model.channels"], work["model.image_size"], work["model.image_size"])
    batches = [(torch.randn(shape, device=device).to(memory_format=torch.channels_last),
                torch.randint(0, work["model.classes"], (work.batch,), device=device)) for _ in range(BATCHES)]
    return model, optimizer, batches


def compile_model(model, mode):
    """`blocks` compiles one block and uses it for all: minutes less for deep models, and a little less fused."""
    if mode == "blocks" and hasattr(model, "blocks") and isinstance(model.blocks, nn.ModuleList):
        for block in model.blocks:
            block.compile()
        return model
    return torch.compile(model) if mode != "no" else model


def force_cudnn_attention():
    """Every other implementation off: the fastest one on Hopper is used, or the run fails."""
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_math_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(True)


def train(arguments):
    work, cuda = Workload(arguments.model), arguments.device == "cuda"
    if arguments.batch:
        work.overrides["train.micro_batch"] = arguments.batch
    if cuda:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = arguments.precision == "tf32"
        torch.backends.cudnn.benchmark = True
        if arguments.precision in ("bf16", "fp16"):
            force_cudnn_attention()
    else:
        torch.set_num_threads(1)
        torch.set_num_interop_threads(1)
    torch.manual_seed(1)
    model, optimizer, batches = (gpt if work.is_gpt else resnet)(work, arguments.device)
    step_model = compile_model(model, arguments.compile)
    clip = work.get("train.clip_norm", 1.0)

    def step(number):
        inputs, targets = batches[number % BATCHES]
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(arguments.device, torch.bfloat16, enabled=arguments.precision == "bf16"):
            loss = step_model(inputs, targets)
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        return loss

    times = (cuda_times if cuda else cpu_times)(step, arguments.steps)
    peak = torch.cuda.max_memory_reserved() / 2**20 if cuda else None
    print(json.dumps({"version": torch.__version__, "step_ms": times, "peak_mib": peak,
                      "device": torch.cuda.get_device_name() if cuda else "cpu"}))


def cpu_times(step, count):
    times = []
    for number in range(count):
        start = time.perf_counter()
        step(number).item()
        times.append(1000 * (time.perf_counter() - start))
    return times


def cuda_times(step, count):
    """Between events on the stream: the host never waits within the run."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    events[0].record()
    for number in range(count):
        step(number)
        events[number + 1].record()
    torch.cuda.synchronize()
    return [before.elapsed_time(after) for before, after in zip(events, events[1:])]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=list(WORKLOADS), required=True)
    parser.add_argument("--device", choices=["cpu", "cuda"], required=True)
    parser.add_argument("--precision", choices=["fp32", "tf32", "bf16"], required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--compile", choices=["no", "all", "blocks"], default="no")
    train(parser.parse_args())


if __name__ == "__main__":
    main()
