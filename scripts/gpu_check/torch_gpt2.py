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


def shapes(model):
    """{name: shape} of the parameters."""
    width, found = model["hidden"], {}
    found["embedding.token.weight"] = (model["padded"], width)
    found["embedding.position.weight"] = (model["context"], width)
    for index in range(model["layers"]):
        for name, size in (("norm1", (width,)), ("attention.qkv", (3 * width, width)), ("attention.output", (width, width)),
                           ("norm2", (width,)), ("mlp.expand", (4 * width, width)), ("mlp.contract", (width, 4 * width))):
            found[f"blocks.{index}.{name}.weight"] = size
            found[f"blocks.{index}.{name}.bias"] = size[:1]
    found["final_norm.weight"] = found["final_norm.bias"] = (width,)
    return found


def draw(model):
    """As published: normal with 0.02, projections into the residual stream divided by the root of their number."""
    torch.manual_seed(1)
    weights = {}
    for name, shape in shapes(model).items():
        if "norm" in name:
            # Not ones and zeros, with which a norm's weight and bias have no effect.
            weights[name] = (1.0 if name.endswith("weight") else 0.0) + 0.02 * torch.randn(shape)
        else:
            scale = 0.02 / math.sqrt(2 * model["layers"]) if name.endswith(("output.weight", "contract.weight")) else 0.02
            weights[name] = scale * torch.randn(shape)
    weights["embedding.token.weight"][model["vocabulary"]:] = 0
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


def loss_of(p, model, inputs, targets):
    width, heads = model["hidden"], model["heads"]

    def norm(x, name):
        return F.layer_norm(x, (width,), p[name + ".weight"], p[name + ".bias"])

    def linear(x, name):
        return F.linear(x, p[name + ".weight"], p[name + ".bias"])

    x = p["embedding.token.weight"][inputs] + p["embedding.position.weight"]
    batch, length, _ = x.shape
    for block in (f"blocks.{index}." for index in range(model["layers"])):
        q, k, v = (part.view(batch, length, heads, width // heads).transpose(1, 2)
                   for part in linear(norm(x, block + "norm1"), block + "attention.qkv").split(width, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        x = x + linear(y, block + "attention.output")
        x = x + linear(F.gelu(linear(norm(x, block + "norm2"), block + "mlp.expand"), approximate="tanh"), block + "mlp.contract")
    logits = F.linear(norm(x, "final_norm"), p["embedding.token.weight"][:model["vocabulary"]])
    return F.cross_entropy(logits.float().view(-1, logits.shape[-1]), targets.reshape(-1))


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


def train(task, weights, precision):
    p = {name: tensor.to(task["device"]).clone().requires_grad_() for name, tensor in weights.items()}
    decayed = [tensor for name, tensor in p.items() if tensor.dim() == 2 and name != "embedding.position.weight"]
    others = [tensor for name, tensor in p.items() if tensor.dim() == 1 or name == "embedding.position.weight"]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": task["weight_decay"]}, {"params": others, "weight_decay": 0.0}],
                                  lr=task["learning_rate"], betas=tuple(task["betas"]), eps=task["epsilon"])
    losses, norms = [], []
    for micro_batches in batches(task):
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for inputs, targets in micro_batches:
            with torch.autocast(task["device"], torch.bfloat16, enabled=precision == "bf16"):
                loss = loss_of(p, task["model"], inputs, targets) / len(micro_batches)
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
    weights = draw(task["model"])
    write_safetensors(task["weights"], weights)
    for precision in task["precisions"]:
        result = train(task, weights, precision) | {"version": torch.__version__}
        path = f"{task['out']}.{precision}.json"
        with open(path + ".tmp", "w", encoding="utf-8") as file:
            json.dump(result, file)
        os.replace(path + ".tmp", path)


if __name__ == "__main__":
    main()
