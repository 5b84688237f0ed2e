#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The h5py side of `trireme bench data`: reads the same samples of the same shards and prints its rate.

Example: scripts/peers/bench_h5py.py --context 1024 data/kjv/train/shard_*.h5
"""
import argparse
import sys
import time

try:
    import h5py
    import numpy
except ImportError as error:
    sys.exit(f"{error}; install with: pip install h5py numpy")


def sample_places(datasets, stride, length, limit):
    """(dataset, first element) of every sample that lies in one shard."""
    places, start, index = [], 0, 0
    for dataset in datasets:
        end = start + dataset.shape[0]
        while index * stride + length <= end and len(places) < limit:
            if index * stride >= start:
                places.append((dataset, index * stride - start))
            index += 1
        start = end
    return places


def run_round(places, buffer, length, seconds):
    done, start = 0, time.perf_counter()
    selection = numpy.s_[0:length]
    while True:
        for dataset, first in places:
            dataset.read_direct(buffer, numpy.s_[first:first + length], selection)
            done += 1
            if done % 64 == 0 and time.perf_counter() - start >= seconds:
                return done / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shards", nargs="+")
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.25)
    parser.add_argument("--sequential", action="store_true")
    arguments = parser.parse_args()

    files = [h5py.File(path, "r") for path in arguments.shards]
    tokens = "tokens" in files[0]
    datasets = [file["tokens" if tokens else "images"] for file in files]
    stride = arguments.context if tokens else 1
    length = stride + 1 if tokens else 1
    sample_bytes = length * int(numpy.prod(datasets[0].shape[1:], dtype=int)) * datasets[0].dtype.itemsize
    places = sample_places(datasets, stride, length, max(1, arguments.megabytes * 1_000_000 // sample_bytes))
    if not arguments.sequential:
        places = [places[i] for i in numpy.random.default_rng(1).permutation(len(places))]
    buffer = numpy.empty((length, *datasets[0].shape[1:]), datasets[0].dtype)
    for dataset, first in places:
        dataset.read_direct(buffer, numpy.s_[first:first + length], numpy.s_[0:length])
    rates = [run_round(places, buffer, length, arguments.seconds) for _ in range(arguments.rounds)]
    print("rate h5py 1", max(rates))


if __name__ == "__main__":
    main()
