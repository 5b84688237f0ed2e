# SPDX-License-Identifier: Apache-2.0
"""Shared by the checks against Hugging Face's libraries: texts to continue and score.

Not to be run: see check_hugging_face.py. Import it first: it ends with exit code 77 if a library is missing.
"""
import json

from shared import packages

with packages("numpy safetensors transformers torch h5py"):
    import h5py  # noqa: F401
    import numpy as np
    import torch
    import transformers
    from safetensors.numpy import load_file  # noqa: F401

TOKENS = 12  # that both continue a prompt by


def class_of(config):
    """transformers' class that has the logits of a config."""
    if hasattr(config, "num_channels"):
        return transformers.AutoModelForImageClassification
    return transformers.AutoModelForMaskedLM if config.model_type in ("bert", "roberta") else transformers.AutoModelForCausalLM


def prompts_of(context, vocabulary, draw):
    """Ids of texts of several lengths that leave room in the context for new tokens."""
    room = context - TOKENS
    return [[draw.randrange(vocabulary) for _ in range(length)] for length in {1, room // 2, room} if length >= 1]


def greedy(model, prompt):
    """The most likely tokens, and whether another within 1e-4 makes the choice open."""
    ids, clear = list(prompt), True
    with torch.no_grad():
        for _ in range(TOKENS):
            best = model(torch.tensor([ids])).logits[0, -1].topk(2)
            clear = clear and (best.values[0] - best.values[1]).item() > 1e-4
            ids.append(best.indices[0].item())
    return ids[len(prompt):], clear


def log_likelihood(model, ids, first):
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0].double()
    every = torch.log_softmax(logits, -1)
    return sum(every[i - 1, ids[i]].item() for i in range(first, len(ids)))


def compare_texts(program, run, model, draw):
    """Greedy tokens of trireme's cache against full passes of transformers, and log-likelihoods: (all equal, worst
    error per token)."""
    prompts = prompts_of(model.config.max_position_embeddings, model.config.vocab_size, draw)
    lines = "".join(json.dumps({"prompt_ids": prompt}) + "\n" for prompt in prompts)
    (run / "prompts.jsonl").write_text(lines)
    printed = program("generate", run, "--prompts", run / "prompts.jsonl", "--tokens", TOKENS, "--temperature", 0, "--json",
                      "--set", "precision=fp32")
    answers = [json.loads(line)["ids"] for line in printed.splitlines()]
    same = len(answers) == len(prompts)
    texts = []
    for prompt, ours in zip(prompts, answers):
        theirs, clear = greedy(model, prompt)
        same = same and (ours == theirs or not clear)
        texts.append((prompt + theirs, len(prompt)))
    lines = "".join(json.dumps({"context_ids": ids[:first], "continuation_ids": ids[first:]}) + "\n" for ids, first in texts)
    (run / "texts.jsonl").write_text(lines)
    printed = program("eval", run, "--continuations", run / "texts.jsonl", "--set", "precision=fp32")
    scores = [json.loads(line) for line in printed.splitlines()]
    errors = [abs(score["log_likelihood"] - log_likelihood(model, ids, first)) / score["tokens"]
              for score, (ids, first) in zip(scores, texts)]
    return same, float(np.max(errors))
