#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Needles in a haystack: a small Llama learns to recall values across 4,096 tokens, on one rank and with context parallelism over
four (parallel.context), with the same bits.

    scripts/needle.py [--quick] [--mode gather|heads] [--precision P] [--trireme FILE] [--keep DIR]

A row is filler with 8 pairs of a key and a value at random depths, and then every key again, in random order, with its value,
the only targets; guessing finds one in 8. Short rows come first, then longer ones, with the weights so far. All runs have
reproducibility: layout and parallel.context_blocks: 4. Then transformers answers new rows with the exported weights: accuracy by
depth, 99 % at each expected. --quick: short rows and few steps, only the bits are compared; a minute. Needs: pip install numpy safetensors transformers torch.
"""
import json
import pathlib
import random
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "checks"))
from shared import REPOSITORY, packages, parser_of, read_steps, run  # noqa: E402

with packages("numpy safetensors transformers torch"):
    import torch
    import transformers

KEYS, VALUES, DEPTHS, RANKS = 8, 8, 10, 4
FILLER, KEY, VALUE = 1, 32, 64  # first ids; a token is a byte of ASCII
STAGES = [(32, 160, 256, 0.02), (128, 60, 64, 0.01), (512, 80, 16, 0.01), (2048, 30, 8, 0.005), (4096, 32, 8, 0.004)]
QUICK = [(32, 40, 64, 0.02), (256, 5, 8, 0.01)]  # tokens of a row, steps, rows of a step, learning rate
CONFIG = """
run: {{directory: {run}}}
precision: {precision}
reproducibility: layout
device: {{type: cpu}}
model: {{family: llama, layers: 2, hidden: 64, heads: {heads}, head_size: 32, intermediate: 128, context: {context},
        vocabulary: 256, rope_theta: 1e6, init_std: 0.1}}
data: {{path: {data}}}
parallel: {{context: {ranks}, context_blocks: 4, context_mode: {mode}, zero: {zero}}}
train: {{steps: {steps}, global_batch: {batch}, micro_batch: {micro}, log_every: 20, initial_weights: "{weights}"}}
optimizer: {{name: muon, learning_rate: {rate}, momentum: 0.95, weight_decay: 0}}
lr_schedule: {{name: linear, warmup_steps: 5}}
telemetry: {{tensorboard: false, health_minutes: 0}}
"""


def row_of(draw, context):
    """Ids of a row, and of each question its place and its needle's."""
    room = context - 2 * KEYS
    row = [FILLER + draw.randrange(8) for _ in range(room)]
    pairs = [(KEY + key, VALUE + draw.randrange(VALUES)) for key in range(KEYS)]
    places = [2 * half for half in draw.sample(range(room // 2), KEYS)]
    for pair, place in zip(pairs, places):
        row[place:place + 2] = pair
    order = draw.sample(range(KEYS), KEYS)
    for key in order:
        row += pairs[key]
    return row, [(room + 2 * i, places[key]) for i, key in enumerate(order)]


def pack(trireme, place, context, rows):
    """Each answer is the completion of a document, which begins where the last one ended."""
    draw, lines = random.Random(context), []
    for _ in range(rows):
        row, asked = row_of(draw, context)
        begin = 0
        for question, _ in asked:
            prompt, answer = bytes(row[begin:question + 1]).decode(), chr(row[question + 1])
            lines.append(json.dumps({"prompt": prompt, "completion": answer}) + "\n")
            begin = question + 2
    source = place / f"{context}.jsonl"
    source.write_text("".join(lines))
    run([trireme, "data", "pack-text", "--quiet", "--pairs", source, "--out", place / f"data_{context}"])


def train(arguments, place, ranks, stages):
    """The directories of the runs, each from the weights of the one before."""
    weights, directories = "", []
    for context, steps, batch, rate in stages:
        directory = place / f"run_{ranks}_{context}"
        config = place / f"{directory.name}.yaml"
        config.write_text(CONFIG.format(run=directory, precision=arguments.precision, context=context, ranks=ranks,
                                        data=place / f"data_{context}",
                                        heads=4 if arguments.mode == "heads" else 2,  # one for each block
                                        mode=arguments.mode, zero=2 if ranks > 1 else 0, steps=steps, batch=batch, rate=rate,
                                        micro=max(1, min(batch // 2, 4096 // context)), weights=weights))
        done = run(["bash", REPOSITORY / "launch/mpi_env.sh", ranks, "mpirun", "-np", ranks, arguments.trireme, "train", config])
        summary = [line for line in done.stdout.splitlines() if line.startswith("done:")]
        print(f"{ranks} rank(s), {context} tokens: loss {read_steps(directory)[-1]['loss']:.4f}; {' '.join(summary)}", flush=True)
        weights = directory / "weights.safetensors"
        directories.append(directory)
    return directories


def accuracies(trireme, directory, context, rows):
    """Of transformers with the exported weights, by tenths of the haystack."""
    exported = directory.with_name(directory.name + "_exported")
    run([trireme, "checkpoint", "export", directory, "--out", exported])
    model = transformers.AutoModelForCausalLM.from_pretrained(exported).float().eval()
    right, asked, draw = [0] * DEPTHS, [0] * DEPTHS, random.Random("new rows")
    for _ in range(rows):
        row, questions = row_of(draw, context)
        with torch.no_grad():
            answers = model(torch.tensor([row])).logits[0].argmax(-1).tolist()
        for question, needle in questions:
            depth = needle * DEPTHS // (context - 2 * KEYS)
            asked[depth] += 1
            right[depth] += answers[question] == row[question + 1]
    return [100 * good / max(1, every) for good, every in zip(right, asked)]


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--mode", default="gather", choices=["gather", "heads"], help="parallel.context_mode")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--rows", type=int, default=250, help="new rows, of 8 questions each")
    parser.add_argument("--keep", type=pathlib.Path, help="an empty directory for data and runs, which stays")
    arguments = parser.parse_args()
    stages = QUICK if arguments.quick else STAGES
    torch.set_num_threads(1)  # others would wait for cores that are not free
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory(prefix="trireme-needle-") as temporary:
        place = (arguments.keep or pathlib.Path(temporary)).absolute()
        place.mkdir(exist_ok=True)
        for context, steps, batch, _ in stages:
            pack(arguments.trireme, place, context, steps * batch + 1)
        one, four = (train(arguments, place, ranks, stages) for ranks in (1, RANKS))
        context = stages[-1][0]
        shares = [accuracies(arguments.trireme, runs[-1], context, 10 if arguments.quick else arguments.rows) for runs in (one, four)]
        equal = all((a / "weights.safetensors").read_bytes() == (b / "weights.safetensors").read_bytes() and
                    [step["loss"] for step in read_steps(a)] == [step["loss"] for step in read_steps(b)] for a, b in zip(one, four))
    print(f"{'depth':>11}  1 rank  {RANKS} ranks, {arguments.mode}")
    for depth, (left, right) in enumerate(zip(*shares)):
        print(f"{depth * 100 // DEPTHS:3} to {(depth + 1) * 100 // DEPTHS:3} %  {left:5.1f}%  {right:5.1f}%")
    least = min(map(min, shares))
    print(f"weights and losses {'equal' if equal else 'DIFFERENT'}, {least:.1f} % or more at every depth of {context} tokens")
    return 0 if equal and (arguments.quick or least >= 99) else 1


if __name__ == "__main__":
    sys.exit(main())
