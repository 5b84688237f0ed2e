#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peers of `trireme bench data FILES --input PATH`: h5py in one thread, in threads, in processes, and in PyTorch's
DataLoader.

Prints lines "rate NAME WORKERS SAMPLES_PER_SECOND"; a file is a sample. Example: scripts/peers/bench_h5py_fields.py
--dataset climate/data --workers 2 data/deepcam/train/*.h5
"""
import sys

import peer_rates

try:
    import h5py
    import numpy
except ImportError as error:
    sys.exit(f"h5py: not measured: {error}; install with: pip install h5py numpy")


class Files:
    """A map-style data set that opens a sample's file for each sample, as training scripts do: HDF5 2 keeps 8 MB of
    decoded chunks per open data set, too much for the files of a benchmark."""

    def __init__(self, paths, name):
        self.paths, self.name = paths, name

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        with h5py.File(self.paths[index], "r") as file:
            data = file[self.name]
            sample = numpy.empty(data.shape, numpy.float32)
            data.read_direct(sample)
        return sample


def main():
    parser = peer_rates.arguments_of(__doc__, "files")
    parser.add_argument("--dataset", required=True)
    arguments = parser.parse_args()
    workers, rounds, seconds = arguments.workers, arguments.rounds, arguments.seconds

    files = Files(arguments.files, arguments.dataset)
    peer_rates.rate_alone(files, 0.1)
    peer_rates.show("h5py", 1, [peer_rates.rate_alone(files, seconds) for _ in range(rounds)])
    peer_rates.show("h5py,_threads", workers, [peer_rates.rate_of_threads(files, workers, seconds) for _ in range(rounds)])
    peer_rates.show("h5py,_processes", workers, peer_rates.rates_of_processes(files, workers, seconds, rounds))
    try:
        peer_rates.show("PyTorch_DataLoader,_h5py", workers, peer_rates.loader_rates(files, workers, seconds, rounds))
    except ImportError as error:
        sys.exit(f"PyTorch DataLoader: not measured: {error}")


if __name__ == "__main__":
    main()
