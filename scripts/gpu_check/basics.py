# SPDX-License-Identifier: Apache-2.0
"""The first call: the program starts, trains on the CPU and on the device, and has its libraries."""
import json
import os
import pathlib
import re
import time

import processes
from harness import Row, failed, judged, not_proved, proved, same_bits

# Libraries that a GPU build must have found. Without cuDNN it would use its own attention, and everything else would
# pass.
LIBRARIES = ("cuBLASLt", "cuDNN", "NCCL")


def starts(check):
    version = check.tool("--version")
    check.pack()
    return proved(version.strip())


def trains_on_cpu(check):
    run = check.train("gpt", {"train.steps": 3, "device.type": "cpu"})
    return judged(len(run.losses) == 3, f"loss {run.losses[-1]:.4f}")


def two_ranks_on_cpu(check):
    settings = {"train.steps": 3, "device.type": "cpu", "reproducibility": "layout"}
    one, two = check.train("gpt", settings), check.train("gpt", settings, ranks=2)
    return same_bits(one, two, f", started by {check.launcher}")


def reads_libraries(check):
    """Puts the files of the libraries into the page cache: a start from a cold disk is not what the next rows judge. cuDNN and
    NCCL load more files of their folders than the program names."""
    names = re.findall(r"=> (/\S+)", check.run(["ldd", check.trireme]).output)
    families = re.compile(r"lib(cudnn|cublas|nccl|cudart|nvrtc)")
    folders = {os.path.dirname(os.path.realpath(name)) for name in names if families.match(os.path.basename(name))}
    files = {os.path.realpath(name) for name in [check.trireme, *names]}
    files |= {os.path.realpath(entry) for folder in folders for entry in os.scandir(folder) if families.match(entry.name)}
    read, started = 0, time.monotonic()
    for name in sorted(files):
        with open(name, "rb", buffering=0) as file:
            while chunk := file.read(1 << 24):
                read += len(chunk)
                if check.left() <= 0:
                    return not_proved(f"{read >> 20} MiB in the row's time: this disk is slow, and what follows may fail for it")
    return proved(f"{len(files)} files, {read >> 20} MiB in {time.monotonic() - started:.1f} s")


def trains_on_device(check):
    """If this fails, later rows are pointless; if it only takes long, they are not."""
    run = check.try_train("gpt", {"train.steps": 2})
    if run.code == processes.TIMED_OUT:
        return failed(f"did not end within {run.finished.seconds:.0f} s: {run.finished.last_lines()}")
    if run.code != 0:
        check.no_engine = f"the program cannot train on this device: {run.finished.last_lines(2)}"
        return failed(f"ended with {run.code} after {run.finished.seconds:.0f} s: {run.finished.last_lines()}")
    check.libraries = json.loads(pathlib.Path(run.directory, "environment.json").read_text()).get("libraries", {})
    return proved(f"loss {run.losses[-1]:.4f}")


def libraries(check):
    found = ", ".join(f"{name} {version}" for name, version in check.libraries.items())
    missing = [name for name in LIBRARIES if name not in check.libraries]
    return failed(f"lacks {', '.join(missing)}; has {found}") if missing else proved(found)


def control(_check):
    return [Row("start", "the program starts on this machine and packs data", 20, starts, cpu=True, free=True),
            Row("train on the CPU", "it trains on this machine's CPU", 20, trains_on_cpu, cpu=True, free=True),
            Row("two ranks on the CPU", "two ranks find each other and have the bits of one", 30, two_ranks_on_cpu, cpu=True,
                free=True)]


def engine(_check, seconds=30):
    """`seconds` for the first run on the device: the first call on a machine gives more."""
    return [Row("read the libraries", "their files are in the host's memory before anything is timed", seconds, reads_libraries,
                cpu=True, free=True),
            Row("train two steps", "the program trains on the device", seconds, trains_on_device, free=True),
            Row("libraries", "cuBLASLt, cuDNN and NCCL are in the program and load here", 5, libraries,
                lacks="GPU libraries")]


def first_engine(check):
    return engine(check, 75)


# ---- What a run logs about the libraries it used; all of it needs TRIREME_LOG=debug. ----

VERBOSE = {"TRIREME_LOG": "debug"}


def require_cudnn_attention(run):
    """The log's lines, or a fault: cuDNN must have had a plan for both passes of attention."""
    refused = run.lines(r"cuDNN has no plan for attention_")
    plans = {name: run.lines(rf"cuDNN \S+ runs attention_{name} ") for name in ("forward", "backward")}
    if refused and all("SM8X" in line for line in refused):
        return "attention by own kernels, for cuDNN has no deterministic one of documents before Hopper", ""
    if refused:
        return "", refused[0].strip()
    if not all(plans.values()):
        return "", "the log names no plan of cuDNN for " + " and ".join(name for name, seen in plans.items() if not seen)
    version = re.search(r"cuDNN (\S+) runs", plans["forward"][0]).group(1)
    return f"attention by cuDNN {version}", ""


def require_cudnn_convolution(run):
    refused, plans = run.lines(r"cuDNN has no plan for convolution_"), run.lines(r"cuDNN \S+ runs convolution_")
    # Engines may refuse channel counts that are no multiple of eight, as in the first layer, and a sum after the
    # product.
    refused = [line for line in refused if "the sum is a kernel of its own" not in line
               and int(re.search(r"x\(\d+, \d+, \d+, (\d+)\)", line).group(1)) % 8 == 0]
    if refused or not plans:
        return "", f"{len(refused)} convolutions without a plan of cuDNN, {len(plans)} with one"
    return f"{len(plans)} convolutions by cuDNN", ""


def products(run, pattern="."):
    """Descriptions of matrix products for which cuBLASLt had an algorithm."""
    return [line for line in run.lines(r"cuBLASLt \S+ runs the matmul") if re.search(pattern, line.partition("matmul")[2])]
