# SPDX-License-Identifier: Apache-2.0
"""The workloads of the comparisons: a config of configs/ with overrides, its sizes, its FLOPs, and random data for
it."""
import array
import json
import os
import random
import re
import struct
import subprocess

REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# 6 layers of 384, T = 256, B = 16, for all families.
SMALL = {"model.layers": 6, "model.hidden": 384, "model.heads": 6, "model.context": 256, "model.init_std": 0.02,
         "train.micro_batch": 16, "optimizer.learning_rate": 1e-3, "optimizer.betas": [0.9, 0.95], "parallel.zero": 0}

# With batch norm and pooling.
UNET = {"model.channels": 4, "model.filters": 16, "model.widest": 0, "model.levels": 3, "model.down": "pool", "model.norm": "batch",
        "train.micro_batch": 4, "train.loss": "auto", "optimizer.learning_rate": 1e-3, "data.patches": False, "data.foreground_share": 0,
        "data.flips": [], "data.brightness": [], "data.noise": []}

# Overrides of each workload beyond its config. On one core: transformers of 6 x 384, a ViT of 6 x 192, the quickstart's
# CNN, and CNNs of fields. On one GPU: the published sizes, at batches that both sides hold in 80 GB.
WORKLOADS = {
    "gpt": ("gpt_tiny", {**SMALL, "model.position_init": "normal"}),
    "llama": ("llama_tiny", {**SMALL, "model.kv_heads": 2, "model.intermediate": 1024}),
    # Mixtral's form: 8 experts of which a token visits 2.
    "moe": ("moe_tiny", {**SMALL, "model.kv_heads": 2, "model.intermediate": 512, "model.expert_intermediate": 512,
                         "model.shared_intermediate": "none", "model.router": "softmax_of_chosen", "model.router_renormalize": True,
                         "model.router_scale": 1, "model.balance_loss": 0}),
    "bert": ("bert_tiny", {**SMALL, "model.vocabulary": 257, "model.mask_token": 256, "model.mask_probability": 0.15}),
    "vit": ("vit_fashion", {"model.hidden": 192, "model.heads": 3, "model.intermediate": 768, "model.patch": 4,
                            "train.micro_batch": 64, "data.flip": False, "optimizer.name": "adamw", "optimizer.learning_rate": 1e-3}),
    "resnet": ("resnet_fashion", {"train.micro_batch": 64, "data.flip": False}),
    "cosmoflow": ("cosmoflow", {"model.size": 32, "train.micro_batch": 4, "model.dropout": 0, "data.transform": "none"}),
    "unet": ("unet3d", {**UNET, "model.depth": 0, "model.image_size": 128, "data.axes": "HWC"}),
    "unet_of_volumes": ("unet3d", {**UNET, "model.depth": 32, "model.image_size": 32}),
    # A quarter of the extents.
    "deepcam": ("deepcam", {"model.image_size": 192, "model.image_width": 288, "train.micro_batch": 1, "optimizer.name": "adamw",
                            "optimizer.betas": [0.9, 0.95], "data.scaling": "none", "data.statistics": "", "data.statistics_paths": [],
                            "data.inputs": ["x"], "data.target": "y"}),
    "gpt2_124m": ("gpt2_124m", {"train.micro_batch": 32}),
    "gpt2_350m": ("gpt2_350m", {"train.micro_batch": 32}),
    "gpt2_774m": ("gpt2_774m", {"train.micro_batch": 16}),
    "gpt2_1558m": ("gpt2_1558m", {"train.micro_batch": 8}),
    "resnet50": ("resnet50_imagenet", {"train.micro_batch": 256, "train.ema_decay": 0, "data.crop_padding": 0, "data.flip": False,
                                       "data.mixup": 0, "data.cutmix": 0}),
}
CPU_MODELS = ["gpt", "llama", "moe", "bert", "vit", "resnet", "cosmoflow", "unet", "unet_of_volumes", "deepcam"]
CUDA_MODELS = ["gpt2_124m", "gpt2_350m", "gpt2_774m", "gpt2_1558m", "resnet50"]


def _scalar(text):
    try:
        return json.loads(text)
    except ValueError:
        return text


def _text_with_bases(path):
    """A config followed by its bases: the first occurrence of a key counts."""
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"#.*", "", file.read())
    base = re.search(r"^base:\s*(\S+)", text, re.MULTILINE)
    return text + (_text_with_bases(os.path.join(os.path.dirname(path), base.group(1))) if base else "")


class Workload:
    """A config file with overrides; `workload["model.hidden"]` is the value in a run."""

    def __init__(self, name):
        self.name = name
        config, overrides = WORKLOADS[name]
        self.path = os.path.join("configs", config + ".yaml")
        self.overrides = dict(overrides)
        self.text = _text_with_bases(os.path.join(REPOSITORY, self.path))
        self.family = self["model.family"]
        self.of_images = self.family in ("vit", "resnet")
        self.of_fields = self.family in ("cosmoflow", "unet", "deepcam")
        self.unit = "images" if self.of_images else "samples" if self.of_fields else "tokens"

    def __getitem__(self, key):
        if key in self.overrides:
            return self.overrides[key]
        # The files in configs/ need no YAML library: each of these keys has one value there.
        found = re.search(rf"[\s{{]{key.split('.')[1]}:\s*(\[[^\]]*\]|[^\s,}}]+)", self.text)
        if not found:
            raise KeyError(f"{self.path} has no {key}")
        return _scalar(found.group(1))

    def get(self, key, default):
        try:
            return self[key]
        except KeyError:
            return default

    @property
    def batch(self):
        return self["train.micro_batch"]

    @property
    def items(self):
        """Tokens or images of one micro-batch."""
        return self.batch if self.of_images or self.of_fields else self.batch * self["model.context"]

    @property
    def extents(self):
        """([D,] H, W) of fields."""
        if self.family == "cosmoflow":
            return [self["model.size"]] * 3
        image = [self["model.image_size"], self.get("model.image_width", self["model.image_size"])]
        return [depth, *image] if (depth := self.get("model.depth", 0)) else image

    @property
    def token_ids(self):
        """Ids that occur in data."""
        return min(self["model.vocabulary"], self.get("model.mask_token", self["model.vocabulary"]))

    @property
    def experts(self):
        return self.get("model.experts", 0)

    @property
    def title(self):
        if self.family == "vit":
            return (f"ViT {self['model.layers']} x {self['model.hidden']}, patches of {self['model.patch']} in "
                    f"{self['model.image_size']} px, B {self.batch}")
        if self.of_fields:
            return f"{self.name} {' x '.join(map(str, self.extents))} x {self['model.channels']}, {self['model.filters']} filters, B {self.batch}"
        if not self.of_images:
            name = "Mixtral" if self.experts else {"gpt2": "GPT", "llama": "Llama", "bert": "BERT"}[self.family]
            return (f"{name} {self['model.layers']} x {self['model.hidden']}, T {self['model.context']}, "
                    f"V {self['model.vocabulary']}, B {self.batch}")
        return f"ResNet {self['model.stages']} of {self.path}, {self['model.image_size']} px, B {self.batch}"

    def settings(self, directory, data, steps, batch, ranks=1):
        """Overrides for `trireme train`, as {key: value}; `batch` samples per rank."""
        source = ({"data.files": [data], "data.validation_files": []} if self.of_fields else
                  {"data.path": data, "data.validation_path": '""'})
        return {**self.overrides, **source, "run.directory": directory,
                "train.steps": steps, "train.micro_batch": batch, "train.global_batch": batch * ranks,
                "train.eval_every": 0, "train.log_every": steps, "lr_schedule.name": "constant",
                "lr_schedule.warmup_steps": 0}

    def parameters(self):
        """For GPT, without padding of the vocabulary."""
        width, layers = self["model.hidden"], self["model.layers"]
        return (self["model.vocabulary"] + self["model.context"]) * width + layers * (12 * width + 13) * width + 2 * width

    def flops_per_item(self):
        """Forward and backward, per token or image; None for families that are not measured on a GPU. GPT: 6 N + 6 L
        C T, llm.c's formula, which counts the causal half of attention. ResNet: three times the multiply-adds of
        convolutions and classifier, two FLOPs each."""
        if self.family == "gpt2":
            return 6 * self.parameters() + 6 * self["model.layers"] * self["model.hidden"] * self["model.context"]
        return 6 * self._resnet_multiply_adds() if self.family == "resnet" else None

    def _resnet_multiply_adds(self):
        width, small = self["model.width"], self["model.stem"] == "small"
        expansion = 4 if self["model.block"] == "bottleneck" else 1
        side = self["model.image_size"] if small else self["model.image_size"] // 2
        total = side * side * width * self["model.channels"] * (9 if small else 49)
        side = side if small else side // 2
        inputs = width
        for stage, blocks in enumerate(self["model.stages"]):
            inner = width << stage
            for index in range(blocks):
                before, outputs = side, inner * expansion
                if stage > 0 and index == 0:
                    side = (side - 1) // 2 + 1
                if expansion == 4:
                    total += before * before * inputs * inner + side * side * inner * (9 * inner + outputs)
                else:
                    total += side * side * inner * 9 * (inputs + inner)
                if side != before or inputs != outputs:
                    total += side * side * inputs * outputs
                inputs = outputs
        return total + inputs * self["model.classes"]


def write_tokens(prefix, ids):
    """One document in the format of Megatron-LM's tokens, which `data.path: PREFIX` reads: int32 in PREFIX.bin."""
    with open(prefix + ".bin", "wb") as file:
        array.array("i", ids).tofile(file)
    with open(prefix + ".idx", "wb") as file:
        file.write(b"MMIDIDX\0\0" + struct.pack("<QBQQiqqq", 1, 4, 1, 2, len(ids), 0, 0, 1))


def write_idx(path, shape, data):
    """Bytes in the format of MNIST's files."""
    with open(path, "wb") as file:
        file.write(struct.pack(f">{1 + len(shape)}I", 0x800 + len(shape), *shape) + data)


def write_fields(workload, directory, count):
    """A sample each file: x of channels last, and y, its values or a map of classes."""
    import h5py  # only for models of fields
    import numpy

    os.makedirs(directory)
    draw = numpy.random.default_rng(1)
    for index in range(count):
        with h5py.File(os.path.join(directory, f"{index}.h5"), "w") as file:
            file["x"] = draw.normal(size=(*workload.extents, workload["model.channels"])).astype(numpy.float32)
            file["y"] = (draw.uniform(-1, 1, workload["model.targets"]).astype(numpy.float32) if workload.family == "cosmoflow" else
                         draw.integers(0, workload["model.classes"], workload.extents).astype(numpy.uint8))


def pack_random(workload, trireme, place):
    """Random data in the shape that `workload` reads; returns its directory."""
    out = os.path.join(place, "data_" + workload.name)
    generator = random.Random(1)
    if workload.of_fields:
        write_fields(workload, os.path.join(out, "train"), 16)
        return os.path.join(out, "train")
    if not workload.of_images:
        if workload.token_ids > 256:
            os.makedirs(out)
            write_tokens(os.path.join(out, "train"), generator.choices(range(workload["model.vocabulary"]), k=4 << 20))
            return os.path.join(out, "train")
        raw = os.path.join(place, "random.bin")
        with open(raw, "wb") as file:
            file.write(generator.randbytes(8 << 20))
        command = ["pack-text", raw, "--out", out, "--split", "train"]
    else:
        side, classes = workload["model.image_size"], workload["model.classes"]
        count = max(4 * workload.batch, min(4096, (64 << 20) // (side * side)))
        images, labels = (os.path.join(place, name) for name in ("images.idx", "labels.idx"))
        write_idx(images, (count, side, side), generator.randbytes(count * side * side))
        write_idx(labels, (count,), bytes(index % min(classes, 256) for index in range(count)))
        command = ["pack-images", images, "--labels", labels, "--classes", str(classes), "--channels",
                   str(workload["model.channels"]), "--out", out, "--split", "train"]
    subprocess.run([trireme, "data", *command, "--quiet"], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return os.path.join(out, "train")


def mpirun(ranks, command):
    """On several ranks of this machine."""
    return [os.path.join(REPOSITORY, "launch", "mpi_env.sh"), str(ranks), "mpirun", "-np", str(ranks), *command]


def read_steps(directory):
    """The step lines of a run's metrics.jsonl."""
    with open(os.path.join(directory, "metrics.jsonl"), encoding="utf-8") as file:
        return [line for line in map(json.loads, file) if "loss" in line]


def set_options(settings):
    """{key: value} as --set options."""
    options = []
    for key, value in settings.items():
        text = value if isinstance(value, str) else json.dumps(value)
        options += ["--set", f"{key}={text}"]
    return options
