#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains configs/bert_tiny.yaml on the King James Bible, tunes it to tell a verse's kind of book, and compares with the same
model tuned from scratch. The verses of the task's validation are from the last tenth of each book, by which nothing is trained.
Needs the program 'bible' (scripts/install_deps.sh --data) and the packages of train_tokenizer.py. Eight minutes on two cores.

  scripts/fine_tuning_gain.py --trireme build/cpu/trireme --directory /tmp/gain
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

SCRIPTS = pathlib.Path(__file__).resolve().parent
KINDS = {"law": "Ge Exo Lev Num Deu", "history": "Josh Jdgs Ruth 1Sm 2Sm 1Ki 2Ki 1Chr 2Chr Ezra Neh Est", "wisdom": "Job Psa Prv Eccl SSol",
         "prophets": "Isa Jer Lam Eze Dan Hos Joel Amos Obad Jonah Mic Nahum Hab Zep Hag Zec Mal", "gospels": "Mat Mark Luke John Acts"}


def kind_of(book):
    return next((kind for kind, books in KINDS.items() if book in books.split()), "letters")


def run(command):
    print("   " + " ".join(map(str, command)), flush=True)
    result = subprocess.run([str(it) for it in command], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{result.stdout[-2000:]}{result.stderr[-2000:]}\nended with status {result.returncode}")


def write_task(text, directory, examples):
    """Verses without their references; the first nine tenths of each book are for training."""
    books = {}
    for line in text.splitlines():
        found = re.match(r"([1-3]?[A-Za-z]+)\d+:\d+ (.*)", line)
        if found:
            books.setdefault(found[1], []).append(found[2])
    splits = {"train": [], "validation": []}
    for book, verses in books.items():
        for i, verse in enumerate(verses):
            splits["train" if i < 0.9 * len(verses) else "validation"].append({"text": verse, "label": kind_of(book)})
    step = max(1, len(splits["train"]) // examples)
    splits["train"] = splits["train"][::step]
    for name, rows in splits.items():
        (directory / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    # The pretraining sees none of the validation's verses.
    kept = [f"{verse}\n" for verses in books.values() for i, verse in enumerate(verses) if i < 0.9 * len(verses)]
    (directory / "kjv.txt").write_text("".join(kept))


def best_accuracy(run_directory):
    rows = [json.loads(line) for line in (run_directory / "metrics.jsonl").read_text().splitlines()]
    return max(row["accuracy"] for row in rows if "accuracy" in row)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", required=True)
    parser.add_argument("--directory", type=pathlib.Path, default=pathlib.Path("/tmp/fine_tuning_gain"))
    parser.add_argument("--examples", type=int, default=1000, help="labelled verses to tune with")
    parser.add_argument("--ranks", type=int, default=2)
    arguments = parser.parse_args()
    directory, config = arguments.directory, SCRIPTS.parent / "configs/bert_tiny.yaml"
    directory.mkdir(parents=True, exist_ok=True)
    bible = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], capture_output=True, text=True, check=True).stdout
    write_task(bible, directory, arguments.examples)
    tokenizer, train = directory / "wordpiece.json", ["bash", SCRIPTS.parent / "launch/mpi_env.sh", arguments.ranks, "mpirun", "-np", arguments.ranks, arguments.trireme, "train", config]
    if not tokenizer.exists():  # learning breaks ties by chance, so another would not fit the pretrained weights
        run([sys.executable, SCRIPTS / "train_tokenizer.py", directory / "kjv.txt", "--out", tokenizer])
    pack = [arguments.trireme, "data", "pack-text", "--quiet", "--force", "--tokenizer", tokenizer]
    run([*pack, directory / "kjv.txt", "--out", directory / "book", "--validation", "0.05"])
    for split in ("train", "validation"):
        classes = [] if split == "train" else ["--classes-of", directory / "task/train"]
        run([*pack, directory / f"{split}.jsonl", "--targets", "class", "--longest", 64, "--out", directory / "task", "--split", split, *classes])
    pretrained = directory / "pretrained"
    if not (pretrained / "weights.safetensors").exists():
        run([*train, "--set", f"run.directory={pretrained}", "--set", f"data.path={directory}/book/train", "--set", f"data.validation_path={directory}/book/validation"])
    accuracy = {}
    tuning = [f"train.initial_weights={pretrained}", "train.initial_skip=[transform.*, final_norm.*, head.bias]",
              "train.initial_reinitialise=[pooler.*, classifier.*]"]
    for name, start in (("scratch", []), ("tuned", tuning)):
        for rate in ("3e-4", "1e-3", "3e-3"):
            target = directory / f"{name}_{rate}"
            subprocess.run(["rm", "-rf", str(target)], check=True)
            keys = [f"run.directory={target}", f"data.path={directory}/task/train", f"data.validation_path={directory}/task/validation", "model.head=classes",
                    f"model.classes={len(KINDS) + 1}", "model.mask_token=none", "train.steps=300", "train.eval_every=50", "lr_schedule.warmup_steps=30",
                    f"optimizer.learning_rate={rate}", *start]
            run([*train, *(part for key in keys for part in ("--set", key))])
            accuracy[name] = max(accuracy.get(name, 0), best_accuracy(target))
    print(f"kinds of books of {arguments.examples} verses: accuracy {accuracy['tuned']:.3f} tuned, {accuracy['scratch']:.3f} from scratch, each at its best of three rates")
    sys.exit(0 if accuracy["tuned"] > accuracy["scratch"] else 1)


if __name__ == "__main__":
    main()
