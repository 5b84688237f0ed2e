#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Scores of evaluations against scikit-learn's, of the predictions of transformers.

    tests/checks/check_scores.py [--seed S] [--trireme FILE]

Small models of texts with classes (two and four), values, labels and classes of tokens are trained for some steps, exported,
and evaluated by `trireme eval` and by transformers: accuracy, F1, AUC, MAE and R2 agree to 1e-5. Half a minute. Needs: pip
install numpy safetensors transformers torch scikit-learn. Exit 77 where one is missing.
"""
import json
import pathlib
import random
import sys
import tempfile

from shared import packages, parser_of, run

with packages("numpy safetensors transformers torch sklearn"):
    import numpy as np
    import torch
    import transformers
    from sklearn import metrics

CONTEXT, TEXTS, TOLERANCE = 20, 150, 1e-5
CONFIG = """
run: {{directory: {run}, seed: 3}}
precision: fp32
model: {{family: {family}, layers: 1, hidden: 32, heads: 2, context: {context}, vocabulary: 256, init_std: 0.2, head: {head}, {outputs}}}
data: {{path: {data}/train, validation_path: {data}/validation}}
train: {{steps: 12, global_batch: 8, micro_batch: 4}}
optimizer: {{name: adamw, learning_rate: 1e-2}}
"""
CASES = [("bert", "class", "classes", 4), ("llama", "class", "classes", 2), ("bert", "values", "values", 2), ("llama", "labels", "labels", 3),
         ("bert", "token_classes", "token_classes", 3)]


def drawn(draw, kind, width):
    letters = [chr(draw.randrange(97, 123)) for _ in range(draw.randrange(2, CONTEXT // 2))]
    first = ord(letters[0]) - 97
    if kind == "token_classes":
        return {"tokens": letters, "label": [draw.choice([ord(letter) % width, -100]) for letter in letters]}
    label = {"class": first * width // 26, "values": [first / 5 - 2, draw.uniform(-1, 1)],
             "labels": [i for i in range(width) if (first >> i & 1) != (draw.random() < 0.1)]}[kind]
    return {"text": "".join(letters), "label": label}


def predictions(exported, lines, kind):
    """Logits by transformers, of each token with a class for token classes, and the targets."""
    name = "AutoModelForTokenClassification" if kind == "token_classes" else "AutoModelForSequenceClassification"
    model = getattr(transformers, name).from_pretrained(exported, attn_implementation="eager").eval()
    logits, targets = [], []
    for line in lines:
        text = " ".join(line["tokens"]) if kind == "token_classes" else line["text"]
        ids = torch.tensor([[ord(letter) for letter in text] + [0] * (CONTEXT - len(text))])
        with torch.no_grad():
            output = model(ids, attention_mask=(ids != 0).long()).logits[0].numpy()
        if kind != "token_classes":
            logits.append(output)
            targets.append(line["label"])
            continue
        for i, label in enumerate(line["label"]):
            if label != -100:
                logits.append(output[max(2 * i - 1, 0)])
                targets.append(label)
    return np.array(logits, dtype=np.float64), targets


def by_scikit_learn(logits, targets, kind):
    if kind == "values":
        return {"mae": metrics.mean_absolute_error(targets, logits), "r2": metrics.r2_score(targets, logits)}
    if kind == "labels":
        truth = np.array([[int(i in held) for i in range(logits.shape[1])] for held in targets])
        chosen = (logits > 0).astype(int)
        return {"accuracy": metrics.accuracy_score(truth, chosen), "f1": metrics.f1_score(truth, chosen, average="macro", zero_division=0),
                "f1_micro": metrics.f1_score(truth, chosen, average="micro"), "auc": metrics.roc_auc_score(truth, logits, average="macro")}
    chosen = logits.argmax(1)
    scores = {"top1" if kind == "class" else "accuracy": metrics.accuracy_score(targets, chosen),
              "f1": metrics.f1_score(targets, chosen, average="macro", zero_division=0)}
    return scores | ({"auc": metrics.roc_auc_score(targets, logits[:, 1] - logits[:, 0])} if logits.shape[1] == 2 else {})


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    good = True
    for family, kind, head, width in CASES:
        draw = random.Random(f"{arguments.seed} {family} {kind}")
        with tempfile.TemporaryDirectory(prefix="trireme-scores-") as name:
            place = pathlib.Path(name)
            lines = [drawn(draw, kind, width) for _ in range(TEXTS)]
            (place / "lines.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
            run([arguments.trireme, "data", "pack-text", place / "lines.jsonl", "--targets", kind, "--longest", CONTEXT, "--out",
                 place / "data", "--validation", "0.5"])
            config = place / "config.yaml"
            config.write_text(CONFIG.format(run=place / "run", family=family, context=CONTEXT, head=head, data=place / "data",
                                            outputs=f"targets: {width}" if head == "values" else f"classes: {width}"))
            run([arguments.trireme, "train", config])
            run([arguments.trireme, "eval", place / "run", "--json", place / "scores.json"])
            run([arguments.trireme, "checkpoint", "export", place / "run", "--out", place / "exported"])
            ours = json.loads((place / "scores.json").read_text())["results"][0]
            theirs = by_scikit_learn(*predictions(place / "exported", lines[TEXTS // 2:], kind), kind)
            apart = max(abs(ours[score] - value) for score, value in theirs.items())
            good = good and apart < TOLERANCE
            print(f"{'ok   ' if apart < TOLERANCE else 'WRONG'} {family}, {head}: " + ", ".join(
                f"{score} {ours[score]:.6f}" for score in theirs) + f": off by {apart:.1e}", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    sys.exit(main())
