#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The PyTorch side of compare_pytorch.py, in a separate process: trains one workload on random batches and prints
one JSON object with the milliseconds of every step. Not for use by hand; see compare_pytorch.py.
"""
import argparse
import json
import os
import sys
import time

try:
    import torch
except ImportError as error:
    sys.exit(f"{error}; install with: pip install torch")
from torch import nn

from torch_models import MODELS, Mixtral

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from workloads import WORKLOADS, Workload  # noqa: E402

BATCHES = 8  # distinct batches, made beforehand: reading data costs this side nothing


def token_batches(work, device):
    shape = (work.batch, work["model.context"] + 1)
    samples = [torch.randint(0, work.token_ids, shape, device=device) for _ in range(BATCHES)]
    if work.family != "bert":
        return [(s[:, :-1].contiguous(), s[:, 1:].contiguous()) for s in samples]
    hidden = torch.rand(shape[0], shape[1] - 1, device=device) < 0.15
    return [(s[:, 1:].masked_fill(hidden, work["model.mask_token"]), s[:, 1:].masked_fill(~hidden, -1)) for s in samples]


def image_batches(work, device):
    shape = (work.batch, work["model.channels"], work["model.image_size"], work["model.image_size"])
    return [(torch.randn(shape, device=device).to(memory_format=torch.channels_last),
             torch.randint(0, work["model.classes"], (work.batch,), device=device)) for _ in range(BATCHES)]


def field_batches(work, device):
    form = torch.channels_last_3d if len(work.extents) == 3 else torch.channels_last
    def targets():
        if work.family == "cosmoflow":
            return torch.rand(work.batch, work["model.targets"], device=device)
        return torch.randint(0, work["model.classes"], (work.batch, *work.extents), device=device)
    return [(torch.randn(work.batch, work["model.channels"], *work.extents, device=device).to(memory_format=form), targets())
            for _ in range(BATCHES)]


def make_optimizer(work, model):
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decayed}, {"params": others, "weight_decay": 0.0}]
    settings = {"lr": work["optimizer.learning_rate"], "weight_decay": work["optimizer.weight_decay"], "fused": True}
    if work["optimizer.name"] == "sgd":
        return torch.optim.SGD(groups, momentum=work["optimizer.momentum"], nesterov=work.get("optimizer.nesterov", False),
                               **settings)
    return torch.optim.AdamW(groups, betas=tuple(work["optimizer.betas"]), **settings)


def make(work, device):
    model = (Mixtral if work.experts else MODELS[work.family])(work).to(device)
    if work.of_images or work.of_fields:
        volumes = work.of_fields and len(work.extents) == 3
        model = model.to(memory_format=torch.channels_last_3d if volumes else torch.channels_last)
    batches = field_batches if work.of_fields else image_batches if work.of_images else token_batches
    return model, make_optimizer(work, model), batches(work, device)


def compile_model(model, mode):
    """`blocks` compiles one block for all: saves minutes for deep models, with slightly less fusion."""
    if mode == "blocks" and hasattr(model, "blocks") and isinstance(model.blocks, nn.ModuleList):
        for block in model.blocks:
            block.compile()
        return model
    return torch.compile(model) if mode != "no" else model


def force_cudnn_attention():
    """Turns all other implementations off: either the fastest one on Hopper is used, or the run fails."""
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
    model, optimizer, batches = make(work, arguments.device)
    step_model = compile_model(model, arguments.compile)
    ranks, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    if ranks > 1:  # below torch.distributed.run, on cores
        torch.distributed.init_process_group("gloo")
        step_model = nn.parallel.DistributedDataParallel(step_model)
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
    if ranks > 1:
        torch.distributed.destroy_process_group()
    if rank > 0:
        return
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
    """Between events on the stream: the host does not wait during the run."""
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
