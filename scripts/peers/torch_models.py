# SPDX-License-Identifier: Apache-2.0
"""The models in PyTorch, to compare speed and results: each takes a Workload or a dict of its keys, and maps inputs to
logits, or (inputs, targets) to the mean loss. Modules of GPT and ResNet have the names of our parameters."""
import collections
import functools
import re

import torch
from torch import nn
from torch.nn import functional as F


ACTIVATIONS = {"gelu_tanh": functools.partial(F.gelu, approximate="tanh"), "gelu_exact": F.gelu, "silu": F.silu,
               "relu2": lambda x: F.relu(x).square()}


def with_weights(model, weights):
    """The model as a function of its inputs and of tensors by the names and in the layouts of our files."""
    theirs = {}
    for name, _ in [*model.named_parameters(), *model.named_buffers()]:
        ours = re.sub(r"\.(branch|shortcut)\.", ".", name).replace("running_var", "running_variance")
        if ours in weights:
            # Filters have their channels last.
            theirs[name] = weights[ours].movedim(-1, 1) if weights[ours].dim() >= 4 else weights[ours]
    if len(theirs) != len(weights):
        raise ValueError(f"{len(weights) - len(theirs)} of {len(weights)} weights are not in the model")
    return lambda *inputs: torch.func.functional_call(model, theirs, inputs)


class Attention(nn.Module):
    """Heads may share keys; `rotary` holds cosines and sines for queries and keys, if used."""

    def __init__(self, width, heads, key_heads, bias, causal):
        super().__init__()
        self.heads, self.key_heads, self.causal = heads, key_heads, causal
        self.qkv = nn.Linear(width, width + 2 * key_heads * (width // heads), bias=bias)
        self.output = nn.Linear(width, width, bias=bias)

    def forward(self, x, rotary=None):
        batch, length, width = x.shape
        size = width // self.heads
        q, k, v = (part.view(batch, length, -1, size).transpose(1, 2)
                   for part in self.qkv(x).split([width, self.key_heads * size, self.key_heads * size], dim=2))
        if rotary is not None:
            q, k = rotated(q, *rotary), rotated(k, *rotary)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, enable_gqa=self.key_heads != self.heads)
        return self.output(y.transpose(1, 2).reshape(batch, length, width))


def rotated(x, cosines, sines):
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return x * cosines + turned * sines


class Mlp(nn.Module):
    def __init__(self, width, wide, activate):
        super().__init__()
        self.activate = activate
        self.expand, self.contract = nn.Linear(width, wide), nn.Linear(wide, width)

    def forward(self, x):
        return self.contract(self.activate(self.expand(x)))


class Swiglu(nn.Module):
    def __init__(self, width, wide):
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * wide, bias=False), nn.Linear(wide, width, bias=False)

    def forward(self, x):
        gates, values = self.up(x).chunk(2, dim=-1)
        return self.down(F.silu(gates) * values)


class Block(nn.Module):
    """Norms before the branches, or after them as in BERT."""

    def __init__(self, norm, attention, mlp, norms_after=False):
        super().__init__()
        self.norm1, self.norm2, self.attention, self.mlp, self.after = norm(), norm(), attention, mlp, norms_after

    def forward(self, x, rotary=None):
        if self.after:
            x = self.norm1(x + self.attention(x))
            return self.norm2(x + self.mlp(x))
        x = x + self.attention(self.norm1(x), rotary)
        return x + self.mlp(self.norm2(x))


def classic_block(work, activate, causal, norms_after=False):
    """A block with layer norms and biases."""
    width, heads = work["model.hidden"], work["model.heads"]
    wide = work.get("model.intermediate", 4 * width)
    return Block(lambda: nn.LayerNorm(width), Attention(width, heads, heads, True, causal), Mlp(width, wide, activate),
                 norms_after)


def token_loss(logits, targets):
    return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.view(-1), ignore_index=-1)


class Transformer(nn.Module):
    """Common to all token models: an embedding, tied to the head, and blocks."""

    def __init__(self, work, blocks):
        super().__init__()
        # The vocabulary is padded as ours, which is faster in PyTorch's matmuls than 50257 too.
        self.embedding = nn.ModuleDict({"token": nn.Embedding(-(-work["model.vocabulary"] // 64) * 64, work["model.hidden"])})
        self.blocks = nn.ModuleList(blocks)

    def draw(self):
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def run(self, x, *more):
        for block in self.blocks:
            x = block(x, *more)
        return x

    def head(self, x):
        return x @ self.embedding.token.weight.t()


class Gpt(Transformer):
    def __init__(self, work):
        activate = ACTIVATIONS[work.get("model.activation", "gelu_tanh")]
        super().__init__(work, (classic_block(work, activate, causal=True) for _ in range(work["model.layers"])))
        self.embedding["position"] = nn.Embedding(work["model.context"], work["model.hidden"])
        self.final_norm = nn.LayerNorm(work["model.hidden"])
        self.draw()

    def forward(self, ids, targets=None):
        x = self.run(self.embedding.token(ids) + self.embedding.position.weight)
        logits = self.head(self.final_norm(x))
        return logits if targets is None else token_loss(logits, targets)


class Llama(Transformer):
    def __init__(self, work):
        width, heads, length = work["model.hidden"], work["model.heads"], work["model.context"]
        super().__init__(work, (
            Block(lambda: nn.RMSNorm(width, eps=1e-5), Attention(width, heads, work["model.kv_heads"], False, causal=True),
                  Swiglu(width, work["model.intermediate"])) for _ in range(work["model.layers"])))
        self.norm = nn.RMSNorm(width, eps=1e-5)
        size = width // heads
        angles = torch.outer(torch.arange(length), 10000.0 ** (-torch.arange(0, size, 2) / size)).repeat(1, 2)
        self.register_buffer("cosines", angles.cos())
        self.register_buffer("sines", angles.sin())
        self.draw()

    def forward(self, ids, targets):
        x = self.embedding.token(ids)
        rotary = (self.cosines.to(x.dtype), self.sines.to(x.dtype))
        return token_loss(self.head(self.norm(self.run(x, rotary))), targets)


class Mixtral(nn.Module):
    """That of transformers, whose experts run one after the other."""

    def __init__(self, work):
        super().__init__()
        import transformers
        self.model = transformers.MixtralForCausalLM(transformers.MixtralConfig(
            vocab_size=work["model.vocabulary"], hidden_size=work["model.hidden"], num_hidden_layers=work["model.layers"],
            num_attention_heads=work["model.heads"], num_key_value_heads=work["model.kv_heads"],
            intermediate_size=work["model.expert_intermediate"], num_local_experts=work["model.experts"],
            num_experts_per_tok=work["model.experts_per_token"], max_position_embeddings=work["model.context"],
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, tie_word_embeddings=True,
            attn_implementation="sdpa", experts_implementation="eager"))

    def forward(self, ids, targets):
        return token_loss(self.model(ids, use_cache=False).logits, targets)


class Bert(Transformer):
    def __init__(self, work):
        width = work["model.hidden"]
        super().__init__(work, (classic_block(work, F.gelu, causal=False, norms_after=True)
                                for _ in range(work["model.layers"])))
        self.positions, self.kinds = nn.Embedding(work["model.context"], width), nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width)
        self.transform = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
        self.bias = nn.Parameter(torch.zeros(self.embedding.token.num_embeddings))
        self.draw()

    def forward(self, ids, targets):
        x = self.norm(self.embedding.token(ids) + self.positions.weight + self.kinds.weight[0])
        return token_loss(self.head(self.transform(self.run(x))) + self.bias, targets)


class Vit(nn.Module):
    """The classifier reads the mean of all patches."""

    def __init__(self, work):
        super().__init__()
        width, patch = work["model.hidden"], work["model.patch"]
        self.patches = nn.Conv2d(work["model.channels"], width, patch, patch)
        self.positions = nn.Parameter(torch.randn((work["model.image_size"] // patch) ** 2, width) * 0.02)
        self.blocks = nn.ModuleList(classic_block(work, F.gelu, causal=False) for _ in range(work["model.layers"]))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, work["model.classes"])

    def forward(self, images, labels):
        x = self.patches(images).flatten(2).transpose(1, 2) + self.positions
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x).mean(dim=1)).float(), labels)


def unit(inputs, outputs, window, stride, volumes, name=""):
    convolution, norm = (nn.Conv3d, nn.BatchNorm3d) if volumes else (nn.Conv2d, nn.BatchNorm2d)
    return {f"convolution{name}": convolution(inputs, outputs, window, stride, window // 2, bias=False), f"norm{name}": norm(outputs)}


def sequence(*parts):
    return nn.Sequential(collections.OrderedDict(layer for part in parts for layer in part.items()))


class ResNetBlock(nn.Module):
    def __init__(self, inputs, width, stride, bottleneck, volumes):
        super().__init__()
        outputs = 4 * width if bottleneck else width
        sizes = [(inputs, width, 3, stride), (width, outputs, 3, 1)]
        if bottleneck:  # the stride is in the 3x3 convolution
            sizes = [(inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1)]
        parts = [unit(*size, volumes, number) | {f"relu{number}": nn.ReLU(inplace=True)} for number, size in enumerate(sizes, 1)]
        self.branch = sequence(*parts)[:-1]
        changes = stride != 1 or inputs != outputs
        self.shortcut = sequence(unit(inputs, outputs, 1, stride, volumes, "_shortcut")) if changes else nn.Identity()

    def forward(self, x):
        return F.relu(self.branch(x) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, work):
        super().__init__()
        width, bottleneck, small = work["model.width"], work["model.block"] == "bottleneck", work["model.stem"] == "small"
        volumes = work.get("model.depth", 0) > 0
        self.stem = sequence(unit(work["model.channels"], width, 3 if small else 7, 1 if small else 2, volumes),
                             {"relu": nn.ReLU(inplace=True)},
                             {} if small else {"pool": (nn.MaxPool3d if volumes else nn.MaxPool2d)(3, 2, 1)})
        self.stages, inputs = nn.Sequential(), width
        for stage, count in enumerate(work["model.stages"]):
            blocks = []
            for index in range(count):
                blocks.append(ResNetBlock(inputs, width << stage, 2 if stage > 0 and index == 0 else 1, bottleneck, volumes))
                inputs = (width << stage) * (4 if bottleneck else 1)
            self.stages.append(nn.Sequential(*blocks))
        self.classifier = nn.Linear(inputs, work["model.classes"])
        self.smoothing = work.get("train.label_smoothing", 0.0)

    def forward(self, images, labels=None):
        logits = self.classifier(self.stages(self.stem(images)).flatten(2).mean(2))
        return logits if labels is None else F.cross_entropy(logits.float(), labels, label_smoothing=self.smoothing)


class CosmoFlow(nn.Module):
    """Volumes are (B, C, D, H, W); the dense layers take them with the channels last."""

    def __init__(self, work):
        super().__init__()
        filters = [work["model.filters"] << index for index in range(work["model.halvings"])]
        side = work["model.size"] >> len(filters)
        widths = [side ** 3 * filters[-1], *work["model.dense"], work["model.targets"]]
        self.convolutions = nn.ModuleList(sequence({"convolution": nn.Conv3d(inputs, outputs, 3, padding=1)})
                                          for inputs, outputs in zip([work["model.channels"], *filters], filters))
        self.dense = nn.ModuleList(nn.Linear(inputs, outputs) for inputs, outputs in zip(widths, widths[1:]))
        self.slope, self.scale, self.dropout = work["model.leaky_slope"], work["model.target_scale"], work["model.dropout"]

    def forward(self, volumes, targets=None):
        x = volumes
        for convolution in self.convolutions:
            x = F.max_pool3d(F.leaky_relu(convolution(x), self.slope), 2)
        x = x.permute(0, 2, 3, 4, 1).flatten(1)
        for layer in self.dense[:-1]:
            x = F.dropout(F.leaky_relu(layer(x), self.slope), self.dropout, self.training)
        x = self.dense[-1](x)
        if self.scale > 0:
            x = self.scale * x.tanh()
        return x if targets is None else F.mse_loss(x.float(), targets)


def unet_norm(work, axes, channels):
    kind = work.get("model.norm", "batch")
    if kind == "batch":
        return (nn.BatchNorm3d if axes == 3 else nn.BatchNorm2d)(channels)
    return nn.GroupNorm(channels if kind == "instance" else work["model.norm_groups"], channels)


def unet_unit(work):
    return {"relu": F.relu, "tanh": torch.tanh, "leaky_relu": F.leaky_relu}[work.get("model.nonlinearity", "relu")]


class UNetLevel(nn.Module):
    """Two convolutions with norms; in the decoder the first sees the encoder's result and what is below, joined. With strides
    a level of the encoder also has the next one's first convolution, `down`."""

    def __init__(self, work, inputs, filters, down=0, decodes=False, begun=False):
        super().__init__()
        axes = 3 if work.get("model.depth", 0) else 2
        convolution = nn.Conv3d if axes == 3 else nn.Conv2d
        def make(inputs, filters=filters, stride=1):
            return convolution(inputs, filters, 3, stride, padding=1, bias=False)
        if decodes:
            self.up = (nn.ConvTranspose3d if axes == 3 else nn.ConvTranspose2d)(inputs, filters, 2, 2)
            self.convolution1 = nn.ModuleDict({"skip": make(filters), "up": make(filters)})
        elif not begun:
            self.convolution1 = make(inputs)
        if not begun:
            self.norm1 = unet_norm(work, axes, filters)
        self.convolution2, self.norm2 = make(filters), unet_norm(work, axes, filters)
        if down:
            self.down, self.down_norm = make(filters, down, 2), unet_norm(work, axes, down)
        self.unit, self.begun = unet_unit(work), begun

    def forward(self, x, skip=None):
        if skip is not None:
            x = self.up(x, output_size=skip.shape[2:])
            joined = torch.cat([self.convolution1["skip"].weight, self.convolution1["up"].weight], 1)
            x = (F.conv3d if x.dim() == 5 else F.conv2d)(torch.cat([skip, x], 1), joined, padding=1)
        elif not self.begun:
            x = self.convolution1(x)
        if not self.begun:
            x = self.unit(self.norm1(x))
        return self.unit(self.norm2(self.convolution2(x)))


class UNet(nn.Module):
    def __init__(self, work):
        super().__init__()
        levels, widest = work["model.levels"], work.get("model.widest", 0) or 1 << 30
        self.strides = work.get("model.down", "pool") == "stride"
        filters = [min(work["model.filters"] << level, widest) for level in range(levels + 1)]
        self.encoder = nn.ModuleList(
            UNetLevel(work, inputs, outputs, below if self.strides else 0, begun=self.strides and level > 0)
            for level, (inputs, outputs, below) in enumerate(zip([work["model.channels"], *filters], filters, filters[1:])))
        self.bottom = UNetLevel(work, filters[-2], filters[-1], begun=self.strides)
        self.decoder = nn.ModuleList(UNetLevel(work, inputs, outputs, decodes=True)
                                     for inputs, outputs in zip(filters[1:], filters))
        self.values = work.get("model.values", 0)
        self.add_module("output" if self.values else "classifier", nn.Linear(filters[0], self.values or work["model.classes"]))

    def forward(self, fields, targets=None):
        x, skips = fields, []
        for level in self.encoder:
            skips.append(level(x))
            if self.strides:
                x = level.unit(level.down_norm(level.down(skips[-1])))
            else:
                x = (F.max_pool3d if x.dim() == 5 else F.max_pool2d)(skips[-1], 2)
        x = self.bottom(x)
        for level, skip in zip(reversed(self.decoder), reversed(skips)):
            x = level(x, skip)
        logits = (self.output if self.values else self.classifier)(x.movedim(1, -1))
        if targets is None:
            return logits
        return F.mse_loss(logits.float(), targets) if self.values else F.cross_entropy(logits.float().flatten(0, -2), targets.flatten())


def convolution(inputs, outputs, window=3, stride=1, dilation=1):
    return nn.Conv2d(inputs, outputs, window, stride, window // 2 * dilation, dilation, bias=False)


class Separable(nn.Module):
    def __init__(self, inputs, outputs, stride=1, dilation=1):
        super().__init__()
        self.depthwise = nn.Conv2d(inputs, inputs, 3, stride, dilation, dilation, groups=inputs, bias=False)
        self.pointwise = convolution(inputs, outputs, 1)

    def forward(self, x):
        return self.pointwise(self.depthwise(x))


class XceptionBlock(nn.Module):
    def __init__(self, inputs, outputs, norms, stride=1, grows_first=True, ends_with_relu=True):
        super().__init__()
        self.norms, self.ends_with_relu, self.changes = norms, ends_with_relu, inputs != outputs
        widths = [inputs, *[outputs if grows_first else inputs] * (norms - 1), outputs]
        for index in range(1, norms + 1):
            self.add_module(f"separable{index}", Separable(widths[index - 1], widths[index]))
            self.add_module(f"norm{index}", nn.BatchNorm2d(widths[index]))
        if self.changes:
            self.separable_last = Separable(outputs, outputs, stride)
            self.convolution_shortcut, self.norm_shortcut = convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs)

    def forward(self, x):
        y = x
        for index in range(1, self.norms + 1):
            y = self.get_submodule(f"norm{index}")(self.get_submodule(f"separable{index}")(y))
            y = F.relu(y) if index < self.norms else y
        y = self.separable_last(y) + self.norm_shortcut(self.convolution_shortcut(x)) if self.changes else y + x
        return F.relu(y) if self.ends_with_relu else y


def normed(op, outputs, name="convolution"):
    return sequence({name: op, "norm": nn.BatchNorm2d(outputs)})


class DeepCam(nn.Module):
    """DeepLabv3+ with Xception. As the reference joins channels, weights of ours that see parts of them are joined."""

    def __init__(self, work):
        super().__init__()
        first, self.classes = work["model.filters"], work["model.classes"]
        of = {width: width * first // 32 for width in (48, 64, 128, 256, 728, 1024, 1536, 2048)}
        self.stem = sequence({"convolution1": convolution(work["model.channels"], first, stride=2), "norm1": nn.BatchNorm2d(first),
                              "relu": nn.ReLU(), "convolution2": convolution(first, of[64]), "norm2": nn.BatchNorm2d(of[64])})
        entry = [XceptionBlock(of[inputs], of[outputs], 2, 2) for inputs, outputs in ((64, 128), (128, 256), (256, 728))]
        middle = [XceptionBlock(of[728], of[728], 3) for _ in range(work["model.middle_blocks"])]
        self.blocks = nn.ModuleList([*entry, *middle, XceptionBlock(of[728], of[1024], 2, 1, False, False)])
        self.blocks[0].low_level, self.blocks[0].low_level_norm = convolution(of[128], of[48], 1), nn.BatchNorm2d(of[48])
        exits = ((1024, 1536), (1536, 1536), (1536, 2048))
        self.exit = nn.ModuleList(normed(Separable(of[a], of[b], dilation=2), of[b], "separable") for a, b in exits)
        self.pyramid = nn.ModuleDict({"branches": nn.ModuleList(), "average": nn.ModuleDict({
            "convolution": convolution(of[2048], of[256], 1), "affine": nn.Conv2d(of[256], of[256], 1, groups=of[256]),
            "projection": convolution(of[256], of[256], 1)}), "norm": nn.BatchNorm2d(of[256])})
        nn.init.ones_(self.pyramid["average"]["affine"].weight)
        nn.init.zeros_(self.pyramid["average"]["affine"].bias)
        for rate in (1, 6, 12, 18):
            branch = normed(convolution(of[2048], of[256], 3 if rate > 1 else 1, dilation=rate), of[256])
            branch.add_module("projection", convolution(of[256], of[256], 1))
            self.pyramid["branches"].append(branch)
        self.up = nn.ModuleList(normed(nn.ConvTranspose2d(of[256], of[256], 3, 2, 1, bias=False), of[256]) for _ in range(3))
        self.decoder = nn.ModuleDict({
            "convolution1": nn.ModuleDict({"up": convolution(of[256], of[256]), "skip": convolution(of[48], of[256])}),
            "norm1": nn.BatchNorm2d(of[256]), "convolution2": convolution(of[256], of[256]), "norm2": nn.BatchNorm2d(of[256]),
            "convolution3": nn.Conv2d(of[256], of[256], 1)})
        self.classifier = nn.ConvTranspose2d(of[256], self.classes, 3, 2, 1, bias=False)
        self.class_weights = work.get("model.class_weights", None)

    def logits(self, x):
        sizes, pyramid, decoder = [x.shape[2:]], self.pyramid, self.decoder
        for _ in range(3):
            sizes.insert(0, [-(-extent // 2) for extent in sizes[0]])
        x = F.relu(self.stem(x))
        for index, block in enumerate(self.blocks):
            x = block(x)
            if index == 0:
                low = F.relu(block.low_level_norm(block.low_level(x)))
        for unit in self.exit:
            x = F.relu(unit(x))
        average = pyramid["average"]
        parts = [F.relu(branch.norm(branch.convolution(x))) for branch in pyramid["branches"]]
        pooled = F.relu(average["affine"](average["convolution"](x.mean((2, 3), keepdim=True))))
        joined = torch.cat([part.projection.weight for part in pyramid["branches"]] + [average["projection"].weight], 1)
        x = F.relu(pyramid["norm"](F.conv2d(torch.cat([*parts, pooled.expand_as(parts[0])], 1), joined)))
        for unit, size in zip(self.up[:2], sizes):
            x = F.relu(unit.norm(unit.convolution(x, output_size=size)))
        joined = torch.cat([decoder["convolution1"]["up"].weight, decoder["convolution1"]["skip"].weight], 1)
        x = F.relu(decoder["norm1"](F.conv2d(torch.cat([x, low], 1), joined, padding=1)))
        x = decoder["convolution3"](F.relu(decoder["norm2"](decoder["convolution2"](x))))
        x = F.relu(self.up[2].norm(self.up[2].convolution(x, output_size=sizes[2])))
        return self.classifier(x, output_size=sizes[3])

    def forward(self, fields, targets=None):
        logits = self.logits(fields)
        if targets is None:
            return logits.movedim(1, -1)
        weights = None if self.class_weights is None else logits.new_tensor(self.class_weights)
        return F.cross_entropy(logits, targets, weights, reduction="none").mean()


MODELS = {"gpt2": Gpt, "llama": Llama, "bert": Bert, "vit": Vit, "resnet": ResNet, "cosmoflow": CosmoFlow, "unet": UNet,
          "deepcam": DeepCam}
