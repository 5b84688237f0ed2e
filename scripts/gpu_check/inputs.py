# SPDX-License-Identifier: Apache-2.0
"""Inputs of the tiny training runs: learnable text and images, and the configs over them."""
import os
import random

from workloads import write_idx

CONFIGS = {
    "gpt": """
run: {directory: runs/check, seed: 7}
reproducibility: run
model: {family: gpt2, layers: 4, hidden: 128, heads: 4, context: 64, vocabulary: 256}
data: {path: DATA/text/train, workers: 1, prefetch: 2}
train: {steps: 10, global_batch: 16, micro_batch: 2, log_every: 5, clip_norm: 1.0}
optimizer: {name: adamw, learning_rate: 1e-3, weight_decay: 0.1}
lr_schedule: {name: cosine, warmup_steps: 2}
parallel: {bucket_megabytes: 0.25, timeout_seconds: 15}
""",
    "llama": """
run: {directory: runs/check, seed: 7}
reproducibility: run
model: {family: llama, layers: 4, hidden: 256, heads: 8, kv_heads: 4, intermediate: 512, context: 128, vocabulary: 256}
data: {path: DATA/text/train, workers: 1, prefetch: 2}
train: {steps: 8, global_batch: 32, micro_batch: 2, log_every: 4, clip_norm: 1.0}
optimizer: {name: adamw, learning_rate: 1e-3, weight_decay: 0.1}
lr_schedule: {name: cosine, warmup_steps: 2}
parallel: {bucket_megabytes: 0.5}
""",
    "resnet": """
run: {directory: runs/check, seed: 7}
reproducibility: run
model: {family: resnet, block: bottleneck, stem: small, stages: [1, 1], width: 16, image_size: 16, channels: 3, classes: 10}
data: {path: DATA/images/train, workers: 1, prefetch: 2, crop_padding: 2, flip: true, mean: [0.5, 0.5, 0.5], std: [0.25, 0.25, 0.25]}
train: {steps: 10, global_batch: 32, micro_batch: 8, log_every: 5, clip_norm: 0, label_smoothing: 0.1}
optimizer: {name: sgd, learning_rate: 0.05, momentum: 0.9, nesterov: true, weight_decay: 5e-4}
parallel: {bucket_megabytes: 0.25, timeout_seconds: 15}
""",
}
# Documents of a few dozen characters, apart from each other.
CONFIGS["documents"] = CONFIGS["gpt"].replace("DATA/text/train", "DATA/documents/train, documents: separate")
WORDS = ["oar ", "rower ", "keel ", "bench ", "trireme ", "sea ", "pull ", "the "]


def pack(check):
    """Creates them below check.place, once per call."""
    generator = random.Random(1)
    text = "".join(generator.choices(WORDS, k=12000))
    labels = bytes(index % 10 for index in range(640))
    noise = generator.randbytes(640 * 16 * 16)
    pixels = bytes(value % 100 + 15 * labels[index // 256] for index, value in enumerate(noise))
    at = {name: os.path.join(check.place, name) for name in ("text.txt", "images.idx", "labels.idx", "text", "documents", "images")}
    with open(at["text.txt"], "w", encoding="utf-8") as file:
        file.write(text)
    write_idx(at["images.idx"], (640, 16, 16), pixels)
    write_idx(at["labels.idx"], (640,), labels)
    check.tool("data", "pack-text", at["text.txt"], "--out", at["text"], "--split", "train", "--quiet")
    check.tool("data", "pack-text", at["text.txt"], "--out", at["documents"], "--split", "train", "--document-separator", "keel ",
               "--quiet")
    check.tool("data", "pack-images", at["images.idx"], "--labels", at["labels.idx"], "--classes", "10", "--channels", "3",
               "--out", at["images"], "--split", "train", "--quiet")
    for name, config in CONFIGS.items():
        with open(os.path.join(check.place, name + ".yaml"), "w", encoding="utf-8") as file:
            file.write(config.replace("DATA", check.place))
