# SPDX-License-Identifier: Apache-2.0
"""A batch of random texts or pictures, packed for trireme and as tensors for transformers.

Not to be run: see parity_huggingface.py.
"""
import json

import torch
from drawn_models import positions_of
from shared import pack_images, pack_tokens


class Text:
    """Random bytes, in windows of the context."""
    more, packing = "", ()

    def __init__(self, draw, model, batch):
        self.batch = batch
        self.tokens = draw.randbytes(batch * positions_of(model.config) + 1)

    def pack(self, trireme, place):
        pack_tokens(trireme, place, self.tokens, *self.packing)

    def loss(self, model, _step=0):
        stream = torch.tensor(list(self.tokens))
        inputs, targets = stream[:-1].view(self.batch, -1), stream[1:]
        logits = model(inputs).logits
        return torch.nn.functional.cross_entropy(logits.view(targets.numel(), -1), targets)

    def inputs(self):
        return "input_ids", torch.tensor(list(self.tokens[:-1])).view(self.batch, -1)

    def balance(self, model):
        """transformers' loss for an even load of experts; ours per sequence is divided by the experts of a token."""
        logits = model(self.inputs()[1], output_router_logits=True).router_logits
        scores = torch.softmax(torch.cat([part.view(-1, part.shape[-1]) for part in logits]), -1)
        chosen = torch.topk(scores, model.config.num_experts_per_tok, dim=-1).indices
        counts = torch.nn.functional.one_hot(chosen, scores.shape[-1]).sum(1).to(scores.dtype).mean(0)
        return scores.shape[-1] * (counts * scores.mean(0)).sum()


class Texts(Text):
    """Like Text, with a new text after every zero, kept separate: transformers gets each part of a text in a window
    alone, which equals attention with a block-diagonal mask and restarted positions."""
    more, packing = ", documents: separate", ("--document-separator", "\\0")

    def __init__(self, draw, model, batch):
        super().__init__(draw, model, batch)
        self.tokens = bytes(0 if token < 20 else token for token in self.tokens)

    def parts(self):
        """Inputs and targets; none crosses the end of a text."""
        context = (len(self.tokens) - 1) // self.batch
        for first in range(0, self.batch * context, context):
            window = self.tokens[first:first + context + 1]
            begins = [0] + [t for t in range(1, context + 1) if window[t - 1] == 0]
            for begin, end in zip(begins, begins[1:] + [context + 1]):
                if end - begin > 1:
                    yield list(window[begin:end - 1]), list(window[begin + 1:end])

    def loss(self, model, _step=0):
        losses = [torch.nn.functional.cross_entropy(model(torch.tensor([inputs])).logits[0], torch.tensor(targets), reduction="none")
                  for inputs, targets in self.parts()]
        return torch.cat(losses).mean()


def philox(seed, purpose, high, low):
    """The four words of Philox4x32-10 for a counter, keyed as in runtime/base/philox.h."""
    mask = 0xFFFFFFFF
    key = [seed & mask, seed >> 32 ^ purpose * 0x9E3779B9 & mask]
    counter = [low & mask, low >> 32, high & mask, high >> 32]
    for _ in range(10):
        first, second = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [second >> 32 ^ counter[1] ^ key[0], second & mask, first >> 32 ^ counter[3] ^ key[1], first & mask]
        key = [key[0] + 0x9E3779B9 & mask, key[1] + 0xBB67AE85 & mask]
    return counter


class HiddenText(Text):
    """Like Text with masked tokens, as in data/sets/masked_tokens.h, with the default seed."""
    SEED, MASK, PURPOSE, SHARE = 1234, 256, 9, 0.15

    def __init__(self, draw, model, batch):
        super().__init__(draw, model, batch)
        self.vocabulary = model.config.vocab_size

    def hidden(self, sample, epoch, tokens):
        words = [philox(self.SEED, self.PURPOSE, sample, epoch << 32 | place) for place in range(len(tokens) + 1)]
        uniform = [[(word >> 8) * 2.0**-24 for word in of_place] for of_place in words]
        asked = [place for place in range(len(tokens)) if uniform[place][0] < self.SHARE]
        inputs, targets = list(tokens), [-100] * len(tokens)
        for place in asked or [words[-1][0] * len(tokens) >> 32]:
            targets[place] = tokens[place]
            if uniform[place][1] < 0.8:
                inputs[place] = self.MASK
            elif uniform[place][1] < 0.9:
                other = words[place][2] * (self.vocabulary - 1) >> 32
                inputs[place] = other + (other >= self.MASK)
        return inputs, targets

    def loss(self, model, step=0):
        context = (len(self.tokens) - 1) // self.batch
        rows = [self.hidden(i, step, self.tokens[i * context:(i + 1) * context]) for i in range(self.batch)]
        inputs, targets = (torch.tensor(part) for part in zip(*rows))
        logits = model(inputs).logits
        return torch.nn.functional.cross_entropy(logits.view(targets.numel(), -1), targets.view(-1))


class LabelledTexts:
    """Texts of all lengths up to the context, with targets for the model's head; padded."""
    more = ""

    def __init__(self, draw, model, batch):
        self.width, self.context = model.config.num_labels, model.config.max_position_embeddings
        self.kind = {"regression": "values", "multi_label_classification": "labels", "single_label_classification": "class",
                     None: "token_classes"}[model.config.problem_type]
        of_words = self.kind == "token_classes"
        longest = (self.context + 1) // 2 if of_words else self.context
        lengths = [longest] + [draw.randrange(1, longest + 1) for _ in range(batch - 1)]
        self.words = [[chr(draw.randrange(33, 127)) for _ in range(length)] for length in lengths]
        self.texts = [(" " if of_words else "").join(words) for words in self.words]
        self.labels = [self.drawn(draw, len(words)) for words in self.words]

    def drawn(self, draw, words):
        if self.kind == "values":
            return [draw.uniform(-2, 2) for _ in range(self.width)]
        if self.kind == "labels":
            return sorted(draw.sample(range(self.width), draw.randrange(self.width + 1)))
        if self.kind == "class":
            return draw.randrange(self.width)
        return [draw.choice([draw.randrange(self.width), -100]) for _ in range(words - 1)] + [draw.randrange(self.width)]

    def pack_lines(self, trireme, place, name, texts, labels, *options):
        field = "tokens" if self.kind == "token_classes" else "text"
        lines = [json.dumps({field: text, "label": label}) + "\n" for text, label in zip(texts, labels)]
        (place / f"{name}.jsonl").write_text("".join(lines))
        trireme("data", "pack-text", place / f"{name}.jsonl", "--out", place / name, "--split", "train", "--targets", self.kind,
                "--longest", self.context, *options)

    def pack(self, trireme, place):
        if self.kind == "values":
            return self.pack_lines(trireme, place, "data", self.texts, self.labels)
        every = list(range(self.width))  # which not every batch has
        texts = ["x"] * self.width if self.kind == "class" else [["x"] * self.width] if self.kind == "token_classes" else ["x"]
        self.pack_lines(trireme, place, "known", texts, every if self.kind == "class" else [every])
        texts = self.words if self.kind == "token_classes" else self.texts
        self.pack_lines(trireme, place, "data", texts, self.labels, "--classes-of", place / "known/train")

    def batch(self):
        ids = torch.tensor([[ord(letter) for letter in text] + [0] * (self.context - len(text)) for text in self.texts])
        return ids, (ids != 0).long()

    def inputs(self):
        return "input_ids", self.batch()[0]

    def targets(self):
        if self.kind == "values":
            return torch.tensor(self.labels, dtype=torch.float64)
        if self.kind == "labels":
            return torch.tensor([[float(label in held) for label in range(self.width)] for held in self.labels], dtype=torch.float64)
        if self.kind == "token_classes":
            spread = torch.full((len(self.labels), self.context), -100)  # a word's first letter; later words begin with the space
            for row, labels in enumerate(self.labels):
                spread[row, [max(2 * i - 1, 0) for i in range(len(labels))]] = torch.tensor(labels)
            return spread
        return torch.tensor(self.labels)

    def logits(self, model):
        ids, mask = self.batch()
        return model(ids, attention_mask=mask).logits

    def loss(self, model, _step=0):
        ids, mask = self.batch()
        targets = self.targets()
        targets = targets.to(model.dtype) if targets.is_floating_point() else targets
        return model(ids, attention_mask=mask, labels=targets).loss


class Pictures:
    """Random grey images with random labels."""
    more = ", mean: [0.5], std: [0.25]"

    def __init__(self, draw, model, batch):
        size, self.classes = model.config.image_size, model.config.num_labels
        self.shape = (batch, size, size)
        self.pixels = draw.randbytes(batch * size * size)
        self.labels = bytes(draw.randrange(self.classes) for _ in range(batch))

    def pack(self, trireme, place):
        pack_images(trireme, place, self.pixels, self.shape[1], self.labels, self.classes)

    def inputs(self):
        pixels = torch.frombuffer(bytearray(self.pixels), dtype=torch.uint8).view(self.shape[0], 1, *self.shape[1:])
        return "pixel_values", (pixels / 255 - 0.5) / 0.25

    def loss(self, model, _step=0):
        logits = model(self.inputs()[1].to(model.dtype)).logits
        return torch.nn.functional.cross_entropy(logits, torch.tensor(list(self.labels)))
