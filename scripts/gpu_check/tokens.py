# SPDX-License-Identifier: Apache-2.0
"""Learnable token ids over the whole vocabulary of GPT-2, with frequencies as in text. As a program:

    python3 tokens.py DIRECTORY COUNT [VOCABULARY]     writes tokens.u16 and, with h5py, numpy and xxhash, train/shard_00000.h5
"""
import array
import itertools
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

VOCABULARY = 50257


def draw(count, vocabulary=VOCABULARY):
    """Zipf's law over a shuffled vocabulary, so that ids of all sizes are frequent."""
    generator = random.Random(1)
    ids = list(range(vocabulary))
    generator.shuffle(ids)
    weights = list(itertools.accumulate(1 / (place + 10) for place in range(vocabulary)))
    return array.array("H", generator.choices(ids, cum_weights=weights, k=count))


def write_raw(directory, tokens):
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, "tokens.u16"), "wb") as file:
        tokens.tofile(file)


def write_shard(directory, tokens, vocabulary):
    """Raises ImportError if h5py, numpy or xxhash is missing."""
    import numpy

    import workloads

    workloads.write_tokens(os.path.join(directory, "train"), numpy.frombuffer(tokens, numpy.uint16), vocabulary)


def main():
    directory, count = sys.argv[1], int(sys.argv[2])
    vocabulary = int(sys.argv[3]) if len(sys.argv) > 3 else VOCABULARY
    tokens = draw(count, vocabulary)
    write_raw(directory, tokens)
    write_shard(directory, tokens, vocabulary)


if __name__ == "__main__":
    main()
