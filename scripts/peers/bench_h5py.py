#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The h5py side of `trireme bench data`: reads the same samples of the same shards and prints its rate.

Example: scripts/peers/bench_h5py.py --context 1024 data/kjv/train/shard_*.h5
"""
import sys

import peer_rates

try:
    import h5py
    import numpy
except ImportError as error:
    sys.exit(f"{error}; install with: pip install h5py numpy")


class Samples:
    """Every sample that lies in one shard, as a map-style data set that reads into one buffer."""

    def __init__(self, datasets, stride, length, limit):
        self.buffer, self.places = numpy.empty((length, *datasets[0].shape[1:]), datasets[0].dtype), []
        start, index = 0, 0
        for dataset in datasets:
            end = start + dataset.shape[0]
            while index * stride + length <= end and len(self.places) < limit:
                if index * stride >= start:
                    self.places.append((dataset, numpy.s_[index * stride - start:index * stride - start + length]))
                index += 1
            start = end

    def __len__(self):
        return len(self.places)

    def __getitem__(self, index):
        dataset, part = self.places[index]
        dataset.read_direct(self.buffer, part)


def main():
    parser = peer_rates.arguments_of(__doc__, "shards")
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--sequential", action="store_true")
    arguments = parser.parse_args()

    files = [h5py.File(path, "r") for path in arguments.shards]
    tokens = "tokens" in files[0]
    datasets = [file["tokens" if tokens else "images"] for file in files]
    stride = arguments.context if tokens else 1
    length = stride + 1 if tokens else 1
    sample_bytes = length * int(numpy.prod(datasets[0].shape[1:], dtype=int)) * datasets[0].dtype.itemsize
    samples = Samples(datasets, stride, length, max(1, arguments.megabytes * 1_000_000 // sample_bytes))
    if not arguments.sequential:
        samples.places = [samples.places[i] for i in numpy.random.default_rng(1).permutation(len(samples))]
    for index in range(len(samples)):  # into the page cache
        samples[index]
    peer_rates.show("h5py", 1, [peer_rates.rate_alone(samples, arguments.seconds) for _ in range(arguments.rounds)])


if __name__ == "__main__":
    main()
