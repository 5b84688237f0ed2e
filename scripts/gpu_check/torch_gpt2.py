# SPDX-License-Identifier: Apache-2.0
"""GPT-2 in PyTorch, trained as Trireme does, in a separate process: the same weights, data, order, clipping and AdamW.
Reads one JSON object, the argument; writes losses and gradient norms of each precision to its `out` at once.

If the weights file is missing it is drawn first, with Trireme's tensor names. Not for use by hand; see gpt2.py.
"""
import array
import ctypes
import json
import math
import os
import sys

import torch
from torch.nn import functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "peers"))
from torch_models import Gpt, with_weights  # noqa: E402


def draw(model, layers, vocabulary):
    """As published: normal with 0.02, projections into the residual stream divided by the root of their number."""
    torch.manual_seed(1)
    weights = {}
    for name, parameter in model.named_parameters():
        if "norm" in name:
            # Not ones and zeros, with which a norm's weight and bias have no effect.
            weights[name] = (1.0 if name.endswith("weight") else 0.0) + 0.02 * torch.randn(parameter.shape)
        else:
            scale = 0.02 / math.sqrt(2 * layers) if name.endswith(("output.weight", "contract.weight")) else 0.02
            weights[name] = scale * torch.randn(parameter.shape)
    weights["embedding.token.weight"][vocabulary:] = 0
    return weights


def write_safetensors(path, weights):
    header, at = {}, 0
    for name, tensor in weights.items():
        size = 4 * tensor.numel()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path + ".tmp", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in weights.values():
            file.write(ctypes.string_at(tensor.contiguous().data_ptr(), 4 * tensor.numel()))
    os.replace(path + ".tmp", path)


def batches(task):
    """(inputs, targets) of each micro-batch of each step: samples in order, each `context` tokens and their
    successors."""
    tokens = array.array("i")
    with open(task["tokens"], "rb") as file:
        tokens.frombytes(file.read())
    stream, length = torch.tensor(tokens, dtype=torch.int64), task["model"]["context"]
    for step in range(task["steps"]):
        found = []
        for first in range(step * task["global_batch"], (step + 1) * task["global_batch"], task["micro_batch"]):
            part = torch.stack([stream[at * length:at * length + length + 1] for at in range(first, first + task["micro_batch"])])
            found.append((part[:, :-1].to(task["device"]), part[:, 1:].to(task["device"])))
        yield found


def train(task, model, weights, precision):
    p = {name: tensor.to(task["device"]).clone().requires_grad_() for name, tensor in weights.items()}
    decayed = [tensor for name, tensor in p.items() if tensor.dim() == 2 and name != "embedding.position.weight"]
    others = [tensor for name, tensor in p.items() if tensor.dim() == 1 or name == "embedding.position.weight"]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": task["weight_decay"]}, {"params": others, "weight_decay": 0.0}],
                                  lr=task["learning_rate"], betas=tuple(task["betas"]), eps=task["epsilon"])
    run, vocabulary, losses, norms = with_weights(model, p), task["model"]["vocabulary"], [], []
    for micro_batches in batches(task):
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for inputs, targets in micro_batches:
            with torch.autocast(task["device"], torch.bfloat16, enabled=precision == "bf16"):
                logits = run(inputs)[..., :vocabulary].float()
                loss = F.cross_entropy(logits.reshape(-1, vocabulary), targets.reshape(-1)) / len(micro_batches)
            loss.backward()
            total += loss.item()
        norms.append(torch.nn.utils.clip_grad_norm_(p.values(), task["clip"]).item())
        losses.append(total)
        optimizer.step()
    return {"losses": losses, "norms": norms}


def main():
    task = json.loads(sys.argv[1])
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    if task["device"] == "cpu":
        torch.set_num_threads(1)
    model = Gpt({f"model.{key}": value for key, value in task["model"].items()}).to(task["device"])
    weights = draw(model, task["model"]["layers"], task["model"]["vocabulary"])
    write_safetensors(task["weights"], weights)
    for precision in task["precisions"]:
        result = train(task, model, weights, precision) | {"version": torch.__version__}
        path = f"{task['out']}.{precision}.json"
        with open(path + ".tmp", "w", encoding="utf-8") as file:
            json.dump(result, file)
        os.replace(path + ".tmp", path)


if __name__ == "__main__":
    main()
