#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From a directory of Hugging Face to a tuned model and back: five tasks, made here.

    tests/checks/check_finetuning.py [--only TASK ...] [--trireme FILE]

texts: classes of texts, by a BERT with its pooler and a WordPiece tokenizer; images: five classes, by a ViT pretrained on three
others; fields: three numbers of each field, by a ResNet of classes; chats: answers in dialogues, by adapters of a Llama, whose own
template renders them; chosen: classes of texts by adapters of that Llama and a new head. Each is imported, tuned on one rank, on
two in another layout, and stopped and resumed in a third, to equal bits; exported; and evaluated by trireme and by transformers,
peft and scikit-learn, whose losses and scores agree to 1e-5. Then bad inputs: each is refused by name. A minute. Needs: pip
install numpy safetensors transformers torch h5py peft scikit-learn tokenizers jinja2. Exit 77 if one is missing.
"""
import json
import pathlib
import random
import sys
import tempfile

from check_scores import by_scikit_learn
from exchange import h5py, load_file, np, torch, transformers
from shared import REPOSITORY, SCRIPTS, Program, pack_images, packages, parser_of, run, same_bits, sets

with packages("peft scikit-learn tokenizers jinja2"):
    import jinja2  # noqa: F401
    import peft
    from sklearn import metrics
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

TOLERANCE, STEPS, CONTEXT = 1e-5, 60, 48
TOPICS = {"sea": ["wave", "tide", "anchor", "reef"], "field": ["wheat", "barn", "furrow", "hay"], "city": ["tram", "square", "market", "street"]}
COMMON = "the a of near by with old new and under small great".split()
TEMPLATE = ("{% for m in messages %}{% if m['role'] not in ['user', 'assistant'] %}{{ raise_exception('no role ' + m['role']) }}{% endif %}"
            "{{ '<|' + m['role'] + '|>' + m['content'] + '<|end|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}")


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def topic_lines(draw, count):
    for i in range(count):
        topic = list(TOPICS)[i % 3]
        yield {"text": " ".join(draw.choice(TOPICS[topic] if draw.random() < 0.5 else COMMON) for _ in range(draw.randrange(3, 14))), "label": topic}


def dialogues(draw, count):
    for _ in range(count):
        turns = []
        for _ in range(draw.randrange(1, 3)):
            a, b = draw.randrange(10), draw.randrange(10)
            turns += [{"role": "user", "content": f"{a} and {b}?"}, {"role": "assistant", "content": f"that is {a + b}"}]
        yield {"messages": turns}


def byte_pairs():
    """A tokenizer like Llama 3's, with a template."""
    texts = [turn["content"] for line in dialogues(random.Random(1), 50) for turn in line["messages"]]
    texts += [line["text"] for line in topic_lines(random.Random(1), 60)]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=290, special_tokens=["<pad>", "<|user|>", "<|assistant|>", "<|end|>"],
                                                             initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<|end|>", chat_template=TEMPLATE)


def waves(numbers, labels, classes):
    """(N, 12, 12) grey images, of waves that each class has in another direction."""
    rows, columns = np.mgrid[:12, :12]
    angles = np.pi * np.asarray(labels)[:, None, None] / classes
    phase = numbers.uniform(0, 6.28, (len(labels), 1, 1)) + rows * np.cos(angles) + columns * np.sin(angles)
    return (128 + 60 * np.sin(phase) + numbers.normal(scale=40, size=phase.shape)).clip(0, 255).astype("u1")


def write_fields(path, numbers, count):
    """Two smooth channels on 24 x 24 points; the mean product, a slope and the deviation are to be found."""
    grid, weights = np.linspace(-1, 1, 24), numbers.normal(size=(4, count, 1, 1))
    first = weights[0] * grid[:, None] + weights[1] * grid ** 2
    second = weights[2] * np.sin(3 * grid[:, None] * grid) + 0.5 * weights[3]
    fields = np.stack([first, second], -1) + numbers.normal(scale=0.1, size=(count, 24, 24, 2))
    targets = np.stack([(fields[..., 0] * fields[..., 1]).mean((1, 2)), fields[:, -1, :, 0].mean(1) + 5, 10 * fields[..., 1].std((1, 2))], 1)
    with h5py.File(path, "w") as file:
        file["x"], file["y"] = fields.astype("f4"), targets.astype("f4")


class Check:
    def __init__(self, trireme, place):
        self.trireme, self.place, self.draw, self.numbers = Program(trireme), place, random.Random(5), np.random.default_rng(5)

    def make_base(self, name, *parts):
        for part in parts:
            part.save_pretrained(self.place / name)
        return self.place / name

    def weights(self, run):
        return load_file(self.place / run / "weights.safetensors")

    def imported(self, base, name, *options):
        self.trireme("checkpoint", "import", base, "--out", self.place / name, *options)
        return self.place / name

    def train(self, name, config, ranks, settings, *options):
        launcher = ["bash", REPOSITORY / "launch/mpi_env.sh", ranks, "mpirun", "-np", ranks] if ranks > 1 else []
        run([*launcher, self.trireme.path, "train", config, *sets([f"run.directory={self.place / name}", *settings]), *options])
        return self.place / name

    def tune(self, name, config, *layouts):
        """The run on one rank, with the bits of that on two and of one that goes on in another layout."""
        path = self.place / f"{name}.yaml"
        path.write_text(f"run: {{seed: 3}}\nreproducibility: layout\n{config}")
        whole = self.train(name, path, 1, [])
        others = [self.train(f"{name}_two", path, 2, layouts[0])]
        self.train(f"{name}_resumed", path, 1, [], "--until", STEPS // 3)
        others.append(self.train(f"{name}_resumed", path, 2, layouts[-1]))
        ours = self.weights(whole)
        for other in others:
            theirs = self.weights(other)
            if set(ours) != set(theirs) or not all(same_bits(values, theirs[key]) for key, values in ours.items()):
                sys.exit(f"{other.name}: has not the weights of {whole.name}")
        print(f"{name}: {len(ours)} tensors of one rank, of two ({', '.join(layouts[0])}) and of a run resumed ({', '.join(layouts[-1])}) have equal bits")
        return whole

    def scores(self, directory, *options):
        self.trireme("eval", directory, "--json", self.place / "scores.json", *sets(["precision=fp32"]), *options)
        return json.loads((self.place / "scores.json").read_text())["results"][0]

    def compare(self, name, ours, theirs):
        apart = max(abs(ours[key] - value) for key, value in theirs.items())
        print(f"{name}: " + ", ".join(f"{key} {value:.6f}" for key, value in theirs.items()) + f": off by {apart:.1e}", flush=True)
        if not apart < TOLERANCE:
            sys.exit(f"{name}: trireme has { {key: ours[key] for key in theirs} }")

    def refused(self, code, words, *command):
        done = run(command, codes=(code,), cwd=self.place)
        if not all(word in done.stderr for word in words):
            sys.exit(f"{' '.join(map(str, command))}\ndoes not name all of {words}:\n{done.stderr}")
        print(f"refused with {code}: {done.stderr.splitlines()[-1].replace(f'{self.place}/', '')[:200]}")

    def exported(self, directory, *options):
        self.trireme("checkpoint", "export", directory, "--out", self.place / f"{directory.name}_{len(options)}", *options)
        return self.place / f"{directory.name}_{len(options)}"

    def pack_topics(self, lines, tokenizer, name):
        file = write_lines(self.place / "lines.jsonl", lines)
        self.trireme("data", "pack-text", file, "--targets", "class", "--longest", CONTEXT // 2, "--tokenizer",
                     tokenizer / "tokenizer.json", "--out", self.place / name, "--validation", "0.25")
        return f"data: {{path: {self.place / name}/train, validation_path: {self.place / name}/validation}}"

    def of_topics(self, model, tokenizer, lines):
        """Loss and scores of a model of transformers, whose config names the classes."""
        logits, targets = [], [model.config.label2id[line["label"]] for line in lines]
        for line in lines:
            ids = tokenizer(line["text"], truncation=True, max_length=CONTEXT // 2, return_tensors="pt").input_ids
            logits.append(model.eval()(ids).logits[0])
        loss = torch.nn.functional.cross_entropy(torch.stack(logits).double(), torch.tensor(targets)).item()
        return {"loss": loss} | by_scikit_learn(torch.stack(logits).numpy(), targets, "class")

    def texts(self):
        lines, learned = list(topic_lines(self.draw, 240)), self.place / "tokenizer.json"
        (self.place / "lines.txt").write_text("\n".join(line["text"] for line in lines))
        run([sys.executable, SCRIPTS / "train_tokenizer.py", self.place / "lines.txt", "--vocabulary", 100, "--out", learned])
        tokenizer = transformers.BertTokenizerFast(tokenizer_file=str(learned))
        base = self.make_base("bert", transformers.BertForPreTraining(transformers.BertConfig(
            vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
            max_position_embeddings=CONTEXT // 2, initializer_range=0.1)), tokenizer)
        start = self.imported(base, "bert_run", *sets(["model.head=classes", "model.classes=3"]), "--reinitialise", "classifier.*")
        if not same_bits(self.weights(start)["pooler.weight"], load_file(base / "model.safetensors")["bert.pooler.dense.weight"]) or (
                f"mask_token: {tokenizer.mask_token_id}" not in (self.imported(base, "words") / "config.yaml").read_text()):
            sys.exit("texts: imported with another pooler or mask")
        data = self.pack_topics(lines, base, "topics")
        tuned = self.tune("texts", f"""{data}
train: {{steps: {STEPS}, global_batch: 8, micro_batch: 2, initial_weights: {start}}}
optimizer: {{learning_rate: 3.0e-3, layer_decay: 0.9}}
parallel: {{tensor_blocks: 2}}
""", ["parallel.tensor=2"], ["parallel.zero=2"])
        out = self.exported(tuned)
        model, read = transformers.AutoModelForSequenceClassification.from_pretrained(out), transformers.AutoTokenizer.from_pretrained(out)
        self.compare("texts", self.scores(tuned), self.of_topics(model, read, lines[180:]))
        unseen = write_lines(self.place / "unseen.jsonl", [{"text": "a wave", "label": "sea"}, {"text": "a rock", "label": "moon"}])
        self.refused(3, ["unseen.jsonl: line 2", "moon"], self.trireme.path, "data", "pack-text", unseen, "--targets", "class", "--longest", 9,
                     "--tokenizer", base / "tokenizer.json", "--out", self.place / "unseen", "--classes-of", self.place / "topics/train")
        for key, rate in {"train.freeze": "", "train.initial_skip": "", "train.initial_reinitialise": "", "optimizer.groups": ": rate=2"}.items():
            self.refused(2, [key, "nothing.*"], self.trireme.path, "train", self.place / "texts.yaml",
                         *sets([f"run.directory={self.place}/bad", f'{key}=["nothing.*{rate}"]']))
        self.refused(2, ["--reinitialise", "nothing.*"], self.trireme.path, "checkpoint", "import", base, "--out", "bad", "--reinitialise", "nothing.*")
        self.refused(2, ["classifier.*", "train it first"], self.trireme.path, "eval", start, "--data", self.place / "topics/validation")

    @torch.enable_grad()
    def pretrained_vit(self):
        torch.manual_seed(2)
        model = transformers.ViTForImageClassification(transformers.ViTConfig(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=12, patch_size=4, num_channels=1,
            num_labels=3, initializer_range=0.1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        for _ in range(60):
            labels = self.numbers.integers(0, 3, 32)
            pixels = torch.from_numpy(waves(self.numbers, labels, 3)).float().div(127.5).sub(1)[:, None]
            model(pixels, labels=torch.from_numpy(labels)).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        return model

    def images(self):
        start, splits = self.imported(self.make_base("vit", self.pretrained_vit()), "vit_run"), {}
        for split, count in (("train", 300), ("validation", 80)):
            (self.place / split).mkdir()
            labels = np.arange(count, dtype="u1") % 5
            splits[split] = waves(self.numbers, labels, 5)
            pack_images(self.trireme, self.place / split, splits[split].tobytes(), 12, labels.tobytes(), 5)
        tuned = self.tune("images", f"""
model: {{classes: 5}}
data: {{path: {self.place}/train/data/train, validation_path: {self.place}/validation/data/train, mean: [0.5], std: [0.25]}}
train: {{steps: {STEPS}, global_batch: 8, micro_batch: 2, initial_weights: {start}, initial_reinitialise: ["classifier.*"], freeze: ["embedding.*"]}}
optimizer: {{learning_rate: 3.0e-3, groups: ["classifier.*: rate=3 decay=0"]}}
parallel: {{tensor_blocks: 2}}
""", ["parallel.zero=1"], ["parallel.pipeline=2"])
        out = self.exported(tuned)
        model, seen = transformers.AutoModelForImageClassification.from_pretrained(out).eval(), json.loads((out / "preprocessor_config.json").read_text())
        pixels = (splits["validation"] * seen["rescale_factor"] - seen["image_mean"][0]) / seen["image_std"][0]
        logits = model(torch.from_numpy(pixels).float()[:, None]).logits
        targets = torch.arange(80) % 5
        loss = torch.nn.functional.cross_entropy(logits.double(), targets).item()
        self.compare("images", self.scores(tuned), {"loss": loss, "top1": metrics.accuracy_score(targets, logits.argmax(1))})

    def fields(self):
        torch.manual_seed(3)
        base = self.make_base("resnet", transformers.ResNetForImageClassification(transformers.ResNetConfig(
            num_channels=2, embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=7)))
        start = self.imported(base, "resnet_run", *sets(["model.head=values", "model.targets=3", "model.image_size=24"]), "--reinitialise", "classifier.*")
        for split, count in (("train", 200), ("validation", 64)):
            write_fields(self.place / f"{split}.h5", self.numbers, count)
        tuned = self.tune("fields", f"""
data: {{files: [{self.place}/train.h5], validation_files: [{self.place}/validation.h5], samples: axis, inputs: [x], target: y, axes: NHWC,
  target_mean: [0, 5, 3], target_std: [1, 1, 2]}}
train: {{steps: {STEPS}, global_batch: 8, micro_batch: 4, initial_weights: {start}}}
optimizer: {{learning_rate: 3.0e-3}}
""", ["parallel.zero=2"], ["parallel.pipeline=2"])
        model = transformers.AutoModelForImageClassification.from_pretrained(self.exported(tuned)).eval()
        with h5py.File(self.place / "validation.h5") as file:
            x, targets = torch.from_numpy(file["x"][:]).permute(0, 3, 1, 2), (file["y"][:] - [0, 5, 3]) / [1, 1, 2]
        values = model(x).logits.double().numpy()
        self.compare("fields", self.scores(tuned), {"loss": metrics.mean_squared_error(targets, values)} | by_scikit_learn(values, targets, "values"))

    def llama(self, name="llama"):
        """A base with a template."""
        if not (self.place / name).exists():
            torch.manual_seed(len(name))
            self.make_base(name, transformers.LlamaForCausalLM(transformers.LlamaConfig(
                vocab_size=300, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                max_position_embeddings=CONTEXT, initializer_range=0.2, pad_token_id=0)), byte_pairs())
        return self.place / name

    def loss_of_answers(self, model):
        """Mean over the marked tokens of windows of the context's length."""
        with h5py.File(next((self.place / "chats/validation").glob("*.h5"))) as file:
            tokens = torch.from_numpy(file["tokens"][:].astype("i8"))
            marks = torch.from_numpy(np.unpackbits(file["loss_mask"][:], bitorder="little")[:len(tokens)])
        losses, count = 0.0, (len(tokens) - 1) // CONTEXT
        for first in range(0, count * CONTEXT, CONTEXT):
            logits = model.eval()(tokens[None, first:first + CONTEXT]).logits[0].double()
            target, mark = tokens[first + 1:first + CONTEXT + 1], marks[first + 1:first + CONTEXT + 1].bool()
            losses += torch.nn.functional.cross_entropy(logits[mark], target[mark], reduction="sum").item()
        return losses / marks[1:count * CONTEXT + 1].sum().item()

    def chats(self):
        base, packer = self.llama(), [sys.executable, SCRIPTS / "pack_chats.py"]
        start = self.imported(base, "llama_run")
        run([*packer, start, write_lines(self.place / "chats.jsonl", dialogues(self.draw, 240)), "--out", self.place / "chats", "--validation", "0.2", "--trireme", self.trireme.path])
        tuned = self.tune("chats", f"""
data: {{path: {self.place}/chats/train, validation_path: {self.place}/chats/validation}}
train: {{steps: {STEPS}, global_batch: 8, micro_batch: 2, initial_weights: {start}}}
lora: {{rank: 4, targets: [query, value, gate, up, contract], dropout: 0.1}}
optimizer: {{learning_rate: 0.02}}
parallel: {{tensor_blocks: 2}}
""", ["parallel.tensor=2"], ["parallel.pipeline=2"])
        adapter, ours = self.exported(tuned, "--adapter", "--base", base), self.scores(tuned)
        fresh = transformers.AutoModelForCausalLM.from_pretrained(base)
        before = self.loss_of_answers(fresh)
        self.compare("chats by peft", ours, {"loss": self.loss_of_answers(peft.PeftModel.from_pretrained(fresh, adapter))})
        merged = transformers.AutoModelForCausalLM.from_pretrained(self.exported(tuned))
        self.compare("chats, merged", ours, {"loss": self.loss_of_answers(merged)})
        if not ours["loss"] < before:
            sys.exit(f"chats: the loss was {before:.4f} before the tuning and is {ours['loss']:.4f}")
        other = self.imported(self.llama("another_llama"), "another_run")
        self.refused(4, ["adapter_model", "other weights"], self.trireme.path, "checkpoint", "import", adapter, "--base", other, "--out", "bad")
        judged = {"messages": [{"role": "judge", "content": "?"}, {"role": "assistant", "content": "!"}]}
        bad = write_lines(self.place / "bad.jsonl", [*dialogues(self.draw, 2), judged])
        self.refused(3, [f"{bad}:3", "no role judge"], *packer, start, bad, "--out", "bad", "--trireme", self.trireme.path)

    def chosen(self):
        """Adapters and a new head together, which peft calls modules_to_save."""
        base, lines = self.llama(), list(topic_lines(self.draw, 240))
        start, data = self.imported(base, "llama_start"), self.pack_topics(lines, base, "chosen_topics")
        tuned = self.tune("chosen", f"""{data}
model: {{head: classes, classes: 3, context: {CONTEXT // 2}}}
train: {{steps: {STEPS}, global_batch: 8, micro_batch: 2, initial_weights: {start}, initial_skip: ["head.*"], initial_reinitialise: ["classifier.*"]}}
lora: {{rank: 4}}
optimizer: {{learning_rate: 0.01}}
parallel: {{tensor_blocks: 2}}
""", ["parallel.zero=2"], ["parallel.tensor=2"])
        adapter, ours = self.exported(tuned, "--adapter"), self.scores(tuned)
        names = dict(enumerate(sorted(TOPICS)))
        model = peft.PeftModel.from_pretrained(transformers.AutoModelForSequenceClassification.from_pretrained(
            base, num_labels=3, id2label=names, label2id={name: i for i, name in names.items()}), adapter)
        self.compare("chosen by peft", ours, self.of_topics(model, transformers.AutoTokenizer.from_pretrained(base), lines[180:]))
        headless = self.imported(base, "headless", *sets(["model.head=classes", "model.classes=3"]), "--reinitialise", "classifier.*")
        back = self.imported(adapter, "chosen_back", "--base", headless)
        if any(not same_bits(values, self.weights(back)[key]) for key, values in self.weights(tuned).items() if "lora" not in key):
            sys.exit("chosen: the adapter came back with another head or base")
        self.refused(2, ["classifier.*", "train.initial_reinitialise"], self.trireme.path, "train", self.place / "chosen.yaml", *sets([
            f"run.directory={self.place}/bad", f"train.initial_weights={headless}", "train.initial_skip=[]", "train.initial_reinitialise=[]"]))


def main():
    parser, tasks = parser_of(__doc__), ["texts", "images", "fields", "chats", "chosen"]
    parser.add_argument("--only", nargs="+", choices=tasks, default=tasks)
    arguments = parser.parse_args()
    torch.manual_seed(1)
    torch.set_grad_enabled(False)
    with tempfile.TemporaryDirectory(prefix="trireme-finetuning-") as place:
        check = Check(arguments.trireme, pathlib.Path(place))
        for task in arguments.only:
            getattr(check, task)()


if __name__ == "__main__":
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    main()
