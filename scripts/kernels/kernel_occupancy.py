#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks how the configs' kernels fill an H100, from the grids that `trireme bench kernels` counts and the registers
and shared memory that ptxas reports for a build. Prints a row per kernel. Exits 1 if an operation that moves much
data leaves multiprocessors without a block (reductions: without two, so that one loads while the other adds), or if
a multiprocessor has room for only one block of a kernel although with half the threads two would fit, unless it is
listed below.
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

from kernel_code import reason

# Of compute capability 9.0 (CUDA programming guide, technical specifications).
PROCESSORS, THREADS, BLOCKS, REGISTERS, SHARED = 132, 2048, 32, 65536, 228 * 1024
RESERVED = 1024  # bytes of shared memory that each block takes beside its own
MUCH = 4e6       # bytes of a call
# Kernels that sum what they read.
SUMS = ("norm_backward_kernel<", "column_sums_kernel<", "part_sums_kernel", "position_gradient_kernel<",
        "table_gradient_kernel<", "batch_norm_statistics", "gradient_sums_kernel<")
# Rows that may have few blocks, with the reason.
FEW_BLOCKS = {
    "transform_kernel<4, bf16, Same, float>": "biases, which are few",
    "join_chunks_kernel": "adds up what the chunks left",
    "join_parts_kernel": "adds up what the parts left",
    "column_totals_kernel": "adds up what the blocks left",
    "finish_statistics_kernel": "adds up what the blocks left",
    "finish_gradient_kernel": "adds up what the blocks left",
    "column_sums_kernel<1, 8, RowTerms<bf16, true> > of head": "of one row an image",
    "add_parts_kernel": "of few filters, in blocks of 1024 weights",
    "make_keys_kernel": "of the tokens alone",
    "norm_backward_kernel<false, 512": "a block for each multiprocessor that keeps its columns' sums in 96 "
                                       "registers; two would leave it 64",
}
ONE_BLOCK = {
    "norm_backward_kernel<false, 512": "96 registers; 512 threads twice would need 64",
    "cross_entropy_kernel<1024": "56 registers; 1024 threads twice would need 32",
}

Resources = collections.namedtuple("Resources", "registers shared")


def resources_of(build):
    """Per kernel, from the table of kernel_resources.sh, which judges its other columns itself."""
    script = pathlib.Path(__file__).with_name("kernel_resources.sh")
    done = subprocess.run(["bash", script, build], capture_output=True, text=True, check=False)
    rows = re.findall(r"^ *(\d+) +(\d+) +\d+ +\d+ +\S+ +(?:void )?([^(\n]+)", done.stdout, re.MULTILINE)
    if not rows:
        sys.exit(f"{done.stdout}{done.stderr}")
    return {re.sub("ops::|cuda::", "", name): Resources(int(registers), int(shared)) for registers, shared, name in rows}


def counted(program, config, overrides):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "kernels.json"
        sets = [word for override in overrides for word in ("--set", override)]
        subprocess.run([program, "bench", "kernels", config, *sets, "--json", path], check=True,
                       stdout=subprocess.DEVNULL)
        return json.loads(path.read_text())


def blocks_per_processor(resources, threads, dynamic):
    warps = -(-threads // 32)
    registers = -(-resources.registers * 32 // 256) * 256 * warps
    shared = resources.shared + dynamic + RESERVED
    return min(BLOCKS, THREADS // (32 * warps), REGISTERS // registers, SHARED // shared)


def faults_of(step, resources):
    """Prints a row per kernel; returns (faults, unknown kernels)."""
    print(f"{'blocks':>9} {'of':>5} {'regs':>5} {'a SM':>5} {'waves':>7}  kernel of layer and operation")
    faults, unknown = 0, 0
    for operation in step["operations"]:
        moved = (operation["read_bytes"] + operation["written_bytes"]) / max(operation["calls"], 1)
        for kernel in operation["kernels"]:
            if kernel["kind"] != "kernel":
                continue
            known = resources.get(kernel["name"])
            if known is None:
                print(f"{kernel['name']}: ptxas reported nothing of it")
                unknown += 1
                continue
            here = blocks_per_processor(known, kernel["threads"], kernel["shared_bytes"])
            row = f"{kernel['name']} of {operation['layer']} {operation['operation']}".replace("of  ", "of ")
            print(f"{kernel['blocks']:9} {kernel['threads']:5} {known.registers:5} {here:5} "
                  f"{kernel['blocks'] / (here * PROCESSORS):7.2f}  {row}")
            wanted = 2 * PROCESSORS if any(part in row for part in SUMS) else PROCESSORS
            if moved >= MUCH and kernel["blocks"] < wanted and not reason(FEW_BLOCKS, row):
                print(f"{'':9} {kernel['blocks']} blocks for {PROCESSORS} multiprocessors, wanted: {wanted}")
                faults += 1
            if moved >= MUCH and here < 2 and kernel["threads"] <= THREADS // 2 and \
                    not kernel["shared_bytes"] and not reason(ONE_BLOCK, kernel["name"]):
                print(f"{'':9} one block of {kernel['threads']} threads a multiprocessor")
                faults += 1
    return faults, unknown


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path, help="e.g. build/cuda, after its targets are built")
    parser.add_argument("--trireme", type=pathlib.Path, help="the build's program (default: in the build)")
    parser.add_argument("--config", action="append", help="default: configs/gpt2_124m.yaml")
    parser.add_argument("--set", action="append", default=[], help="override, as of trireme")
    arguments = parser.parse_args()
    program = arguments.trireme or arguments.build / "trireme"
    resources = resources_of(arguments.build)
    faults = unknown = 0
    for config in arguments.config or ["configs/gpt2_124m.yaml"]:
        print(f"== {config}")
        more = faults_of(counted(program, config, arguments.set), resources)
        faults, unknown = faults + more[0], unknown + more[1]
    print(f"{faults} faults, {unknown} kernels not known")
    sys.exit(1 if faults or unknown else 0)


if __name__ == "__main__":
    main()
