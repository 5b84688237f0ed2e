#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peers of `trireme bench data FILES --input PATH`: h5py in one process, and PyTorch's DataLoader with h5py in its workers.

Prints lines "rate NAME WORKERS SAMPLES_PER_SECOND"; a file is a sample.
Example: scripts/bench_h5py_fields.py --dataset climate/data --workers 2 data/deepcam/train/*.h5
"""
import argparse
import sys
import time

try:
    import h5py
    import numpy
except ImportError as error:
    sys.exit(f"h5py: not measured: {error}; install with: pip install h5py numpy")


class Files:
    """A map-style data set that opens a sample's file for each sample, as training scripts do: HDF5 2 keeps 8 MB of decoded chunks of
    every data set that stays open, which of more files than a bench has would not fit."""

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


def h5py_rate(files, seconds):
    done, start = 0, time.perf_counter()
    while True:
        for index in range(len(files)):
            files[index]
            done += 1
            elapsed = time.perf_counter() - start
            if elapsed >= seconds:
                return done / elapsed


def torch_rate(loader, seconds):
    done, start = 0, time.perf_counter()
    while True:
        for batch in loader:
            done += len(batch)
            elapsed = time.perf_counter() - start
            if elapsed >= seconds:
                return done / elapsed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.25)
    arguments = parser.parse_args()

    files = Files(arguments.files, arguments.dataset)
    h5py_rate(files, 0.1)
    print("rate h5py 1", max(h5py_rate(files, arguments.seconds) for _ in range(arguments.rounds)), flush=True)
    try:
        from torch.utils.data import DataLoader
    except ImportError as error:
        sys.exit(f"PyTorch DataLoader: not measured: {error}")
    loader = DataLoader(Files(arguments.files, arguments.dataset), batch_size=16, shuffle=True, num_workers=arguments.workers,
                        persistent_workers=True, prefetch_factor=4)
    torch_rate(loader, 1)
    print("rate PyTorch_DataLoader,_h5py", arguments.workers,
          max(torch_rate(loader, 4 * arguments.seconds) for _ in range(arguments.rounds)), flush=True)


if __name__ == "__main__":
    main()
