#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Saves and loads the same number of bytes with PyTorch and with Trireme on one disk and compares the rates.

    python3 scripts/compare_torch_checkpoint.py --directory /scratch --torch-python PYTHON
    python3 scripts/compare_torch_checkpoint.py --directory /scratch --ranks 4 --megabytes 4000 --rounds 9

torch.save and torch.load handle the whole state in one process, through the page cache, followed by an fsync.
torch.distributed.checkpoint (DCP) has one process per rank, each with its part of the tensors, and syncs its files.
Trireme's side is `trireme bench checkpoint`, whose saves also compute checksums and commit by a rename; PyTorch has no
counterpart of its verification. Cold: the files were evicted from the page cache first.

Rounds alternate, so both see the same machine; prints medians. Needs a build and PyTorch (pip install torch numpy).
About 20 seconds per round. Exits 1 if a side fails, never because of a number.
"""
import argparse
import functools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from workloads import REPOSITORY, mpirun

TENSORS = 16  # of each rank
SIDES = [("torch.save", ["torch_save"], ["torch_load_cold", "torch_load_warm"]),
         ("DCP", ["dcp_save"], ["dcp_load_cold", "dcp_load_warm"]),
         ("Trireme", ["save"], ["restore_cold", "restore_warm"]),
         ("Trireme, verified first", [], ["resume_cold", None]),
         ("plain files", ["plain_write"], ["plain_read_cold", "plain_read_warm"])]


def drop_page_cache(directory):
    for path, _, names in os.walk(directory):
        for name in names:
            descriptor = os.open(os.path.join(path, name), os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def run_rank(rank, ranks, size, directory):
    """One process of PyTorch's side; rank 0 prints the seconds as JSON."""
    import torch
    import torch.distributed as distributed
    import torch.distributed.checkpoint as dcp

    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{directory}/rendezvous", rank=rank, world_size=ranks)

    def state_of(owners):
        count = size // ranks // TENSORS // 4
        return {f"rank{owner}.weight{i}": torch.full((count,), float(i)) for owner in owners for i in range(TENSORS)}

    def timed(action):
        distributed.barrier()
        start = time.perf_counter()
        action()
        distributed.barrier()
        return time.perf_counter() - start

    def save_whole():
        with open(f"{directory}/whole.pt", "wb") as file:
            torch.save(whole, file)
            file.flush()
            os.fsync(file.fileno())

    def forget():
        distributed.barrier()
        drop_page_cache(directory)

    seconds = {}
    if rank == 0:
        whole = state_of(range(ranks))
    alone = (lambda action: action) if rank == 0 else (lambda action: lambda: None)
    own = state_of([rank])
    save_parts = functools.partial(dcp.save, own, checkpoint_id=f"{directory}/parts")
    load_parts = functools.partial(dcp.load, own, checkpoint_id=f"{directory}/parts")
    load_whole = functools.partial(torch.load, f"{directory}/whole.pt", weights_only=True)
    seconds["torch_save"] = timed(alone(save_whole))
    seconds["dcp_save"] = timed(save_parts)
    forget()
    seconds["torch_load_cold"] = timed(alone(load_whole))
    seconds["torch_load_warm"] = timed(alone(load_whole))
    forget()
    seconds["dcp_load_cold"] = timed(load_parts)
    seconds["dcp_load_warm"] = timed(load_parts)
    if rank == 0:
        print(json.dumps({"bytes": TENSORS * ranks * (size // ranks // TENSORS // 4) * 4, "torch": torch.__version__,
                          "seconds": seconds}), flush=True)
    distributed.destroy_process_group()


def pytorch_side(arguments, place):
    command = [arguments.torch_python, os.path.abspath(__file__), "--directory", place, "--ranks", str(arguments.ranks),
               "--megabytes", str(arguments.megabytes)]
    ranks = [subprocess.Popen([*command, "--rank", str(rank)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
             for rank in range(arguments.ranks)]
    outputs = [rank.communicate() for rank in ranks]
    for rank, (_, errors) in zip(ranks, outputs):
        if rank.returncode != 0:
            raise RuntimeError(f"PyTorch's side ended with status {rank.returncode}:\n{errors[-2000:]}")
    return json.loads(outputs[0][0].splitlines()[-1])


def trireme_side(arguments, place):
    results = os.path.join(place, "trireme.json")
    command = [arguments.trireme, "bench", "checkpoint", "--directory", place, "--megabytes", str(arguments.megabytes),
               "--rounds", "1", "--json", results]
    done = subprocess.run(mpirun(arguments.ranks, command), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\nended with status {done.returncode}:\n{(done.stdout + done.stderr)[-2000:]}")
    return json.loads(pathlib.Path(results).read_text())


def measure(arguments):
    """{key: MB/s of every round}"""
    rates, version = {}, ""
    for _ in range(arguments.rounds):
        for side in pytorch_side, trireme_side:
            with tempfile.TemporaryDirectory(prefix="trireme-compare-", dir=arguments.directory) as place:
                result = side(arguments, place)
            version = result.get("torch", version)
            for key, seconds in result["seconds"].items():
                for value in seconds if isinstance(seconds, list) else [seconds]:
                    rates.setdefault(key, []).append(result["bytes"] / value / 1e6)
    return rates, version


def report(arguments, rates, version):
    print(f"{arguments.ranks} ranks, {arguments.megabytes} MB in all, MB/s, medians of {arguments.rounds} rounds; PyTorch {version}")
    print(f"{'':26}{'save':>10}{'load, cold':>14}{'load, warm':>14}")
    for name, save, loads in SIDES:
        cells = [statistics.median(rates[key]) if key in rates else None for key in (save or [None]) + loads]
        print(f"{name:26}" + "".join(f"{'' if cell is None else f'{cell:.0f}':>{width}}"
                                     for cell, width in zip(cells, (10, 14, 14))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", required=True, help="on the disk to measure")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--megabytes", type=int, default=400, help="of all ranks (default: 400)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--trireme", default=os.path.join(REPOSITORY, "build", "cpu", "trireme"))
    parser.add_argument("--torch-python", default=sys.executable, help="a Python that has torch (default: this one)")
    parser.add_argument("--json", metavar="FILE", help="also write every round's rates there")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)  # a process of PyTorch's side
    arguments = parser.parse_args()
    if arguments.rank is not None:
        return run_rank(arguments.rank, arguments.ranks, arguments.megabytes * 1_000_000, arguments.directory)
    arguments.trireme, arguments.directory = os.path.abspath(arguments.trireme), os.path.abspath(arguments.directory)
    try:
        rates, version = measure(arguments)
    except RuntimeError as error:
        sys.exit(str(error))
    report(arguments, rates, version)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(rates, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
