#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks properties of the machine code of a build's CUDA kernels that their source does not show: the width of
loads and stores, and 64-bit integer divisions, which are calls of about a hundred instructions. Exits 1 if a kernel
divides in a loop, or if one that should move packs of 16 bytes does not, unless it is listed below; 77 without
cuobjdump and nvdisasm (CUDA's, or pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm, found in PATH).
"""

import argparse
import collections
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# Parts of kernels' names that may divide in a loop, with the reason.
DIVIDES = {
    "statistics_kernel<": "once a run of rows",
    "gradient_sums_kernel<": "once a run of rows",
    "dropout_kernel<": "one a pack; to be counted on instead",
    "max_pool_": "five a pack, of one map a step; to be counted on instead",
    "average_pool_": "likewise",
    "average_kernel<": "of one map a step, a pack at a time",
    "spread_kernel<": "of one map a step, a pack at a time",
    "cut_patches_kernel<": "of the images alone, a pack at a time",
    "first_rows_": "of the last block's rows alone, a pack at a time",
    "mix_images_kernel<": "of the images alone, where they are mixed",
    "transpose_kernel<": "once a tile (Muon)",
    "polynomial_kernel<": "of small square matrices (Muon)",
    "angles_kernel(": "of a table of T rows",
    "sinusoid_kernel(": "once a run",
    "guard_loss_kernel(": "one thread, once a step",
}
# Kernel instances that must load and store 128 bits.
PACKED = [
    r"^(measured_)?transform_kernel<8, (bf16|f16), .*(bf16|f16)>",
    r"^(measured_)?transform_kernel<4, float, .*float>",
    r"^update_kernel<4, ",
    r"^norm_forward_kernel<(true|false), \d+, (true|false), true, ",
    r"^cross_entropy_kernel<\d+, true, ",
    r"^embed_kernel<true, ",
    r"^norm_backward_kernel<(true|false), \d+, true, ",
    r"^(apply|gradient)_kernel<[^,]*, [48], ",
    r"^dropout_kernel<[48], true, ",
    r"^rotate_kernel<true, ",
    r"^backward_kernel<true, ",
]

Kernel = collections.namedtuple("Kernel", "name loads stores divisions in_loops")


def disassembled(objects):
    """Text of every cubin in the object files."""
    for path in objects:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["cuobjdump", "-xelf", "all", path.resolve()], cwd=folder, check=False,
                           capture_output=True)
            for cubin in sorted(pathlib.Path(folder).glob("*.cubin")):
                yield subprocess.run(["nvdisasm", "-c", cubin], check=True, capture_output=True,
                                     text=True).stdout


def functions(text):
    """(mangled name, its lines) of each kernel."""
    name, lines = None, []
    for line in text.splitlines():
        if line.startswith(".text."):
            if name:
                yield name, lines
            name, lines = line[len(".text."):].rstrip(":"), []
        else:
            lines.append(line)
    if name:
        yield name, lines


def widths(lines, instruction):
    found = set()
    for line in lines:
        match = re.search(rf"\b{instruction}\.E(?:\.(?!64\b|128\b)\w+)*\.?(64|128|U8|S8|U16|S16)?", line)
        if match:
            found.add({"64": 64, "128": 128}.get(match[1], 32))
    return max(found, default=0)


def divisions(lines):
    """All places, and those between a label and a jump back to it."""
    labels, places, jumps = {}, [], []
    for at, line in enumerate(lines):
        if label := re.match(r"(\.L_x_\d+):", line):
            labels[label[1]] = at
        if jump := re.search(r"\bBRA(?:\.\w+)* .*`\((\.L_x_\d+)\)", line):
            jumps.append((at, jump[1]))
        if re.search(r"CALL.*__cuda_sm\d+_(div|rem)_[su]64", line):
            places.append(at)
    loops = [(labels[to], at) for at, to in jumps if to in labels and labels[to] < at]
    return len(places), sum(any(begin <= at <= end for begin, end in loops) for at in places)


def shortened(name):
    name = re.sub(r"\(anonymous namespace\)::|trireme::|ops::|cuda::", "", name)
    return re.sub(r"^void ", "", name)


def kernels_of(build):
    # Objects of the emulated GPU are host code, and a test installs copies.
    objects = sorted(path for path in build.rglob("*.cu.o") if "trireme_cuda.dir" in path.parts)
    if not objects:
        sys.exit(f"scripts/kernels/kernel_code.py: no *.cu.o in {build}; build it with -DTRIREME_CUDA=ON first")
    found = []
    for text in disassembled(objects):
        for mangled, lines in functions(text):
            body = [line for line in lines if "/*" in line or line.startswith(".L")]
            count, inside = divisions(body)
            found.append((mangled, widths(body, "LDG"), widths(body, "STG"), count, inside))
    names = subprocess.run(["c++filt"], input="\n".join(row[0] for row in found), check=True,
                           capture_output=True, text=True).stdout.splitlines()
    return [Kernel(shortened(name), *row[1:]) for name, row in zip(names, found)]


def reason(table, name):
    return next((why for part, why in table.items() if part in name), None)


def breaches_of(kernel):
    breaches = []
    if kernel.in_loops and reason(DIVIDES, kernel.name) is None:
        breaches.append(f"divides 64-bit integers in a loop ({kernel.in_loops} places)")
    packed = any(re.search(pattern, kernel.name) for pattern in PACKED)
    if packed and min(kernel.loads, kernel.stores) < 128:
        breaches.append(f"loads {kernel.loads} bits at a time and stores {kernel.stores}, not 128")
    return breaches


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path, help="e.g. build/cuda, after its targets are built")
    parser.add_argument("--table", type=pathlib.Path, help="write a row for each kernel to this file")
    arguments = parser.parse_args()
    for tool in ("cuobjdump", "nvdisasm"):
        if shutil.which(tool) is None:
            print(f"skipped: no {tool} in PATH")
            sys.exit(77)
    kernels = kernels_of(arguments.build)
    if arguments.table:
        rows = [f"{k.loads:5} {k.stores:6} {k.divisions:9} {k.in_loops:8}  {k.name}" for k in kernels]
        arguments.table.write_text("\n".join(["loads stores divisions in_loops  kernel", *rows, ""]))
    bad = 0
    for pattern in PACKED:
        if not any(re.search(pattern, kernel.name) for kernel in kernels):
            print(f"PACKED: no kernel is called {pattern}")
            bad += 1
    for kernel in kernels:
        for breach in breaches_of(kernel):
            print(f"{kernel.name}: {breach}")
            bad += 1
    print(f"{len(kernels)} kernels, {bad} breaches")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
