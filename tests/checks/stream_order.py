#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains on emulated GPUs that check the order of streams (tests/emulation/order): two accesses to the same memory that
no event or host wait orders end a run with a report of both.

    stream_order.py [--program FILE] [--runs NAME,...] [--ranks LIST]  the engine unchanged, in every layout: all silent
    stream_order.py --mutations [--program FILE] [--runs NAME,...] [--ranks LIST] [--table FILE] [--sites REGEX] [--at-least N]
                                                                       without each wait and record, one by one: all reported

The layouts are those of scripts/layout_matrix.sh plus named ones for images, spatial parallelism (these need
h5py), half precision, graphs, checkpoints, evaluation, generation, measured products. A mutation runs where its source
line affects a clock, shortest run first, until one reports it. Source lines are known if the program has debug information:

    cmake --preset cpu -B build/order -DCMAKE_CXX_FLAGS=-g1 && cmake --build build/order --target trireme_ordered
"""
import collections
import dataclasses
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

from shared import REPOSITORY, Program, add_built, parser_of, write_idx

REPORTED = 66
GPT = {
    "precision": "fp32", "model.family": "gpt2", "model.layers": "6", "model.hidden": "16", "model.heads": "4",
    "model.context": "8", "model.vocabulary": "256", "model.dropout": "0.1", "train.global_batch": "16",
    "train.micro_batch": "2", "parallel.tensor_blocks": "4", "reproducibility": "layout",
    "optimizer.name": "adamw", "optimizer.learning_rate": "3e-3",
}
SMALL = {"model.layers": "2", "train.global_batch": "8"}
EXPERTS = {
    "model.family": "llama", "model.experts": "8", "model.experts_per_token": "2", "model.expert_intermediate": "16",
    "model.balance_loss": "0.01", "model.sequence_balance_loss": "0.01", "model.shared_intermediate": "16",
}
RESNET = {
    "precision": "fp32", "model.family": "resnet", "model.block": "basic", "model.stem": "small", "model.stages": "[1, 1]",
    "model.width": "8", "model.image_size": "12", "model.channels": "1", "model.classes": "3", "data.crop_padding": "1",
    "data.flip": "true", "data.mean": "[0.5]", "data.std": "[0.25]", "train.global_batch": "16", "train.micro_batch": "4",
    "train.clip_norm": "0", "train.label_smoothing": "0.1", "optimizer.name": "sgd", "optimizer.learning_rate": "0.05",
    "optimizer.momentum": "0.9",
}
FIELDS = {
    "precision": "fp32", "reproducibility": "layout", "train.global_batch": "8", "train.micro_batch": "2", "data.axes": "DHWC",
    "data.inputs": "[x]", "data.target": "y", "optimizer.name": "adamw", "optimizer.learning_rate": "3e-3",
}
MODELS_OF_FIELDS = {
    "cosmoflow": FIELDS | {
        "model.family": "cosmoflow", "model.size": "9", "model.channels": "4", "model.targets": "4", "model.filters": "2",
        "model.halvings": "2", "model.dense": "[8]", "parallel.spatial_slabs": "[2, 2, 1]"},
    "unet": FIELDS | {
        "model.family": "unet", "model.depth": "8", "model.image_size": "8", "model.channels": "1", "model.classes": "3",
        "model.filters": "2", "model.levels": "2", "model.down": "stride", "model.norm": "instance",
        "train.loss": "dice_cross_entropy", "parallel.spatial_slabs": "[2, 2, 1]"},
    "deepcam": FIELDS | {
        "model.family": "deepcam", "model.image_size": "18", "model.image_width": "27", "model.channels": "16",
        "model.classes": "3", "model.filters": "2", "model.middle_blocks": "0", "data.axes": "HWC",
        "data.inputs": "[climate/data]", "data.target": "climate/labels_0", "parallel.spatial_slabs": "[1, 4, 1]"},
}
SIZES_OF_FIELDS = {"cosmoflow": ("cosmoflow", 9), "unet": ("unet3d_cut", 8), "deepcam": ("deepcam", 18)}
COMMON = {
    "device.type": "cuda", "data.workers": "1", "data.prefetch": "2", "train.steps": "4", "train.eval_batches": "2",
    "train.log_every": "1", "parallel.bucket_megabytes": "0.01", "parallel.timeout_seconds": "100",
}
# In addition to the matrix: NAME RANKS settings; "again" continues from the run's checkpoint, "eval" and "generate" run
# on the trained weights, "experts" is a model with them, "measured" measures products among four algorithms.
MORE = """
evaluation      1 train.eval_every=2
graphs-layer    1 device.graphs=layer
graphs-step     1 device.graphs=step
checkpoint      1 checkpoint.every_steps=2 train.steps=5 again
loss-scale      1 precision=fp16 device.graphs=step
products        1 measured device.fused_epilogues=on reproducibility=fast parallel.tensor_blocks=1
momentum        1 optimizer.name=sgd optimizer.momentum=0.9
momentum-zero   2 parallel.data=2 parallel.zero=2 optimizer.name=sgd optimizer.momentum=0.9
stages          4 parallel.pipeline=4 train.global_batch=16
stages-bubbles  4 parallel.pipeline=4 train.global_batch=16 parallel.schedule=zero-bubble
stages-gpipe    3 parallel.pipeline=3 parallel.schedule=gpipe
stages-chunks   2 parallel.pipeline=2 parallel.schedule=interleaved parallel.chunks=2 train.global_batch=16
tensor-chunks   2 parallel.tensor=2 parallel.tensor_chunks=4
half-chunks     2 parallel.tensor=2 parallel.tensor_chunks=2 precision=bf16 reproducibility=fast train.recompute=full
chunks-fp8      2 parallel.tensor=2 parallel.tensor_chunks=4 precision=fp8
use             1 checkpoint.every_steps=4 eval generate
use-tensor      2 parallel.tensor=2 checkpoint.every_steps=4 eval generate
use-pipe        2 parallel.pipeline=2 checkpoint.every_steps=4 eval generate
average         2 parallel.data=2 parallel.zero=2 train.ema_decay=0.9 train.eval_every=2 train.spike_zscore=6
fast            1 reproducibility=fast parallel.tensor_blocks=1
inline          2 parallel.data=2 parallel.reducer=inline
inline-zero     2 parallel.data=2 parallel.zero=2 parallel.reducer=inline
replicas        2 parallel.data=2 train.divergence_check_every=1
replicas-zero   2 parallel.data=2 parallel.zero=3 train.divergence_check_every=1
half-zero       2 parallel.data=2 parallel.zero=3 precision=bf16
half-slices     2 parallel.data=2 parallel.zero=1 precision=bf16 train.divergence_check_every=1 train.ema_decay=0.9 checkpoint.every_steps=2 train.steps=5 again
graphs-zero     2 parallel.data=2 parallel.zero=3 device.graphs=step
groups-half     4 parallel.data=4 parallel.zero=3 parallel.zero_group=2 precision=bf16 train.divergence_check_every=1
groups-graphs   4 parallel.data=4 parallel.zero=2 parallel.zero_group=2 device.graphs=step
groups-rounded  4 parallel.data=4 parallel.zero=1 parallel.zero_group=2 precision=bf16 reproducibility=run parallel.reduce_dtype=compute
graphs-layers   2 parallel.data=2 parallel.zero=2 device.graphs=layer
graphs-tensor   2 parallel.tensor=2 parallel.sequence=true device.graphs=step
fast-zero       2 parallel.data=2 parallel.zero=2 reproducibility=fast parallel.tensor_blocks=1
checkpoint-zero 2 parallel.data=2 parallel.zero=3 checkpoint.every_steps=2 train.steps=5 train.eval_every=2 again
checkpoint-half 2 parallel.data=2 parallel.zero=3 precision=bf16 checkpoint.every_steps=2 train.steps=5 again
checkpoint-pipe 2 parallel.pipeline=2 checkpoint.every_steps=2 train.steps=5 train.eval_every=2 again
experts-alone   1 model.family=llama model.experts=4 model.shared_intermediate=16
experts-shared  4 model.family=llama model.experts=4 model.shared_intermediate=16 parallel.data=2 parallel.tensor=2 parallel.expert=4
images          1 model.family=resnet
images-data     2 model.family=resnet parallel.data=2 train.eval_every=2
images-zero     2 model.family=resnet parallel.data=2 parallel.zero=2
images-layout   2 model.family=resnet parallel.data=2 reproducibility=layout
volumes         2 model.family=cosmoflow parallel.spatial=[2,1,1]
volumes-pipe    4 model.family=cosmoflow parallel.spatial=[2,1,1] parallel.pipeline=2
volumes-cut     4 model.family=unet parallel.spatial=[2,2,1]
volumes-full    2 model.family=unet parallel.spatial=[2,1,1] train.recompute=full train.global_batch=4 train.steps=2
volumes-half    2 model.family=unet parallel.spatial=[2,1,1] precision=bf16 model.norm=group model.norm_groups=2
pixels          2 model.family=deepcam parallel.spatial=[1,2,1] train.global_batch=4 train.steps=2
pixels-zero     4 model.family=deepcam parallel.spatial=[1,2,1] parallel.data=2 parallel.zero=3
experts         2 experts parallel.data=2 parallel.expert=2 train.eval_every=2
experts-buffer  2 experts parallel.data=2 parallel.expert=2 parallel.expert_capacity_factor=1 parallel.zero=1
experts-zero    4 experts parallel.data=4 parallel.expert=2 parallel.zero=3 train.recompute=full
experts-tensor  4 experts parallel.data=2 parallel.tensor=2 parallel.expert=4 parallel.sequence=true train.recompute=selective
experts-pipe    4 experts parallel.pipeline=2 parallel.data=2 parallel.expert=2 parallel.schedule=zero-bubble precision=bf16
images-pipe     2 model.family=resnet parallel.pipeline=2 parallel.schedule=interleaved parallel.chunks=2
"""


@dataclasses.dataclass
class Run:
    name: str
    ranks: int
    settings: dict
    then: tuple = ()  # words of MORE
    seconds: float = 0

    def commands(self, config: str, directory: str) -> list:
        first = [["train", config, "--set", "train.steps=3"]] if "again" in self.then else []
        after = {"eval": ["eval", directory], "generate": ["generate", directory, "--prompt", "the oar", "--tokens", "5"]}
        return [*first, ["train", config], *(after[word] for word in self.then if word in after)]


@dataclasses.dataclass
class Site:
    """A call site that orders streams, in all its compiled copies."""

    call: str
    place: str
    function: str
    offsets: set = dataclasses.field(default_factory=set)
    told: dict = dataclasses.field(default_factory=dict)  # by run: how often it told a clock something
    runs: list = dataclasses.field(default_factory=list)


def matrix_runs() -> list:
    text = (REPOSITORY / "scripts/layout_matrix.sh").read_text()
    rows = re.search(r"<<'ROWS'\n(.*?)\nROWS", text, re.S).group(1)
    runs = []
    for row in rows.splitlines():
        data, tensor, pipeline, schedule, zero, sequence, recompute = row.split()[:7]
        schedule, _, chunks = schedule.partition(":")
        zero, _, group = zero.partition("/")
        tensor, _, sums = tensor.partition("/")
        split = f"{sums and f'-sums{sums}'}{'-sequence' if sequence == 'yes' else ''}"
        name = f"{data}x{tensor}x{pipeline}-{schedule}{chunks}-zero{zero}{group and f'of{group}'}{split}-{recompute}"
        runs.append(Run(name, int(data) * int(tensor) * int(pipeline), GPT | {
            "parallel.data": data, "parallel.tensor": tensor, "parallel.pipeline": pipeline, "parallel.schedule": schedule,
            "parallel.chunks": chunks or "1", "parallel.tensor_chunks": sums or "1", "parallel.zero": zero,
            "parallel.zero_group": group or "all", "train.recompute": recompute, "parallel.sequence": "true" if sequence == "yes" else "false"}))
    return runs


def other_runs() -> list:
    runs = []
    for line in MORE.split("\n"):
        words = line.split()
        if not words:
            continue
        settings = dict(word.split("=", 1) for word in words[2:] if "=" in word)
        family = settings.get("model.family")
        if "experts" in words[2:]:
            settings = EXPERTS | settings
        base = RESNET if family == "resnet" else MODELS_OF_FIELDS.get(family, GPT | SMALL)
        runs.append(Run(words[0], int(words[1]), base | settings, tuple(word for word in words[2:] if "=" not in word)))
    return runs


def pack(program: str, work: pathlib.Path) -> None:
    source = random.Random(1)
    words = "oar rower keel bench trireme sea pull the".split()
    (work / "text.txt").write_text(" ".join(source.choice(words) for _ in range(1500)))
    count = 120
    images = bytes(source.randrange(80) + 80 * (i % 3) for i in range(count) for _ in range(144))
    write_idx(work / "images_idx", (count, 12, 12), images)
    write_idx(work / "labels_idx", (count,), bytes(i % 3 for i in range(count)))
    for command in (
        ["pack-text", "--quiet", "--out", f"{work}/text", "--validation", "0.1", f"{work}/text.txt"],
        ["pack-images", "--quiet", "--out", f"{work}/images", "--labels", f"{work}/labels_idx", "--classes", "3",
         "--validation", "0.2", f"{work}/images_idx"],
    ):
        Program(program)("data", *command)


def write_fields(directory: pathlib.Path, kind: str, size: int) -> None:
    """The first time: 16 files to train on and 4 to evaluate. Without h5py the check is skipped."""
    if directory.exists():
        return
    done = subprocess.run([str(REPOSITORY / "scripts/make_science_data.py"), kind, "--out", str(directory), "--samples", "16",
                           "--validation", "4", "--size", str(size)], check=False, stdout=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(done.returncode)


class Runner:
    def __init__(self, program: str, work: pathlib.Path):
        self.program = program
        self.work = work
        pack(program, work)

    def train(self, run: Run, variables: dict) -> tuple:
        """The exit status and output of a run."""
        directory = self.work / "run"
        shutil.rmtree(directory, ignore_errors=True)
        family = run.settings["model.family"]
        data = family if family in SIZES_OF_FIELDS else "images" if family == "resnet" else "text"
        paths = {"data.path": f"{self.work}/{data}/train", "data.validation_path": f"{self.work}/{data}/validation"}
        if family in SIZES_OF_FIELDS:
            write_fields(self.work / data, *SIZES_OF_FIELDS[family])
            paths = {"data.files": f"[{self.work}/{data}/train]", "data.validation_files": f"[{self.work}/{data}/validation]"}
        settings = COMMON | paths | {"run.directory": str(directory)} | run.settings
        if "measured" in run.then:
            products = self.work / "products.txt"
            products.unlink(missing_ok=True)
            settings["device.autotune"] = str(products)
            variables = variables | {"TRIREME_EMULATED_ALGORITHMS": "4"}
        config = self.work / "config.yaml"
        sections = collections.defaultdict(dict)
        for key, value in settings.items():
            section, _, field = key.rpartition(".")
            sections[section][field] = value
        lines = [f"{key}: {value}" for key, value in sections.pop("", {}).items()]
        lines += [f"{name}: {{{', '.join(f'{k}: {v}' for k, v in fields.items())}}}" for name, fields in sections.items()]
        config.write_text("\n".join(lines) + "\n")
        environment = os.environ | variables | {
            "TRIREME_EMULATED_ORDER": "1", "TRIREME_EMULATED_STREAMS": "threads", "TRIREME_EMULATED_GPUS": str(run.ranks)}
        launcher = [str(REPOSITORY / "launch/mpi_env.sh"), "8", "mpirun", "-np", str(run.ranks), self.program]
        for command in run.commands(str(config), str(directory)):
            done = subprocess.run(launcher + command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
            if done.returncode != 0:
                break
        return done.returncode, done.stdout


def report_of(output: str) -> str:
    found = re.search(r"CUDA emulator: rank \d+: .*?(?=\n\S|\Z)", output, re.S)
    return found.group(0) if found else ""


def check(runner: Runner, runs: list) -> int:
    failed, begun = 0, time.monotonic()
    for run in runs:
        start = time.monotonic()
        status, output = runner.train(run, {})
        ok = status == 0 and not report_of(output)
        failed += not ok
        print(f"{run.name:<40} {run.ranks} ranks  {'silent' if ok else f'FAILED with {status}'}  {time.monotonic() - start:.1f} s",
              flush=True)
        if not ok:
            print(report_of(output) or output[-3000:], flush=True)
    print(f"{len(runs) - failed} of {len(runs)} runs silent, {time.monotonic() - begun:.0f} s")
    return failed


def symbolise(program: str, offsets: list) -> dict:
    """Per offset: (function, place) of the call chain, innermost first."""
    calls = [f"0x{int(offset, 16) - 1:x}" for offset in offsets]
    text = subprocess.run(["addr2line", "-a", "-f", "-C", "-i", "-e", program], input="\n".join(calls), text=True,
                          stdout=subprocess.PIPE, check=True).stdout
    names, lines = {}, iter(text.splitlines())
    for line in lines:
        if re.fullmatch(r"0x[0-9a-f]+", line):
            names[f"0x{int(line, 16) + 1:x}"] = chain = []
            continue
        place = os.path.normpath(re.sub(r" \(discriminator.*", "", next(lines))).replace(f"{REPOSITORY}/", "")
        chain.append((line.split("(")[0].replace("trireme::", ""), place))
    return names


# Helper functions that wait: their call site counts.
HELPERS = ("wait_for_comm",)


def find_sites(runner: Runner, runs: list) -> list:
    seen = []
    for run in runs:
        listing = runner.work / "sites.txt"
        listing.unlink(missing_ok=True)
        start = time.monotonic()
        status, output = runner.train(run, {"TRIREME_EMULATED_SITES": str(listing)})
        run.seconds = time.monotonic() - start
        if status != 0:
            sys.exit(f"{run.name} fails as it is:\n{report_of(output) or output[-3000:]}")
        seen += [(run, *line.split()) for line in listing.read_text().splitlines()]
    names = symbolise(runner.program, sorted({offset for row in seen for offset in row[2:4]}))
    sites = {}
    for run, call, offset, caller, _, told in seen:
        chain, drop = names[offset], offset
        if chain[0][0] in HELPERS:
            drop = f"{offset}:{caller}" if len(chain) == 1 else offset
            chain = chain[1:] or names[caller]
        function, place = chain[0]
        key = (call, function, place if not place.startswith("??") else offset)
        site = sites.setdefault(key, Site(call, place, function))
        site.offsets.add(drop)
        if run not in site.runs:
            site.runs.append(run)
        site.told[run.name] = site.told.get(run.name, 0) + int(told)
    for site in sites.values():  # without what told no clock anything, a run is as it was
        site.runs = sorted((run for run in site.runs if site.told[run.name]), key=lambda run: run.seconds)
    return sorted(sites.values(), key=lambda site: (site.place, site.call))


def mutate(runner: Runner, runs: list, wanted: str, at_least: int, table: pathlib.Path) -> int:
    sites = [site for site in find_sites(runner, runs) if re.search(wanted, f"{site.call} {site.place} {site.function}")]
    silent = [site for site in sites if not any(site.told.values())]
    print("No clock learns anything by:", *(f"  {site.place} {site.call} {site.function}" for site in silent), sep="\n")
    rows, missed = [], 0
    sites = [site for site in sites if site not in silent]
    if len(sites) < at_least:
        sys.exit(f"{len(sites)} calls of these runs match '{wanted}', not {at_least} or more")
    for site in sites:
        row = None
        for run in site.runs:
            status, output = runner.train(run, {"TRIREME_EMULATED_DROP": ",".join(sorted(site.offsets))})
            report = report_of(output)
            if status != 0 and "EFAULT" in output:  # of a system call on page-locked memory that a copy uses
                report = "CUDA emulator: a rank: the host touches page-locked memory that a copy uses (a system call fails with EFAULT)"
            if report:
                row = f"| {site.place} | {site.call} | {site.function} | {run.name} | {summary(report)} |"
                break
            if status not in (0, REPORTED):
                sys.exit(f"{run.name} without {site.place} failed with {status}:\n{output[-3000:]}")
        if row is None:
            missed += 1
            row = f"| {site.place} | {site.call} | {site.function} | none of {len(site.runs)} | - |"
        print(row, flush=True)
        rows.append(row)
    print(f"{len(sites) - missed} of {len(sites)} reported")
    if table:
        table.write_text("| place | call | function | reported in | report |\n|---|---|---|---|---|\n" + "\n".join(rows) + "\n")
    return missed


def summary(report: str) -> str:
    lines = report.splitlines()
    sides = [line.strip() for line in lines[2:] if re.match(r"  (written|read|before|freed|used)", line)]
    return "; ".join([lines[0].split(": ", 2)[2].split(",")[0], *sides])[:240]


def main() -> int:
    parser = parser_of(__doc__, program="")
    add_built(parser, "--program", "tests/trireme_ordered")
    parser.add_argument("--runs", default="", help="names, with commas; default: all")
    parser.add_argument("--ranks", default="", help="rank counts, with commas; default: all")
    parser.add_argument("--mutations", action="store_true")
    parser.add_argument("--table", type=pathlib.Path, help="where to write the mutations, as Markdown")
    parser.add_argument("--sites", default="", help="only mutations whose 'call place function' matches")
    parser.add_argument("--at-least", type=int, default=1, help="fewer mutations than these are an error")
    arguments = parser.parse_args()
    runs = matrix_runs() + other_runs()
    if arguments.runs:
        names = arguments.runs.split(",")
        runs = [run for run in runs if run.name in names]
        if unknown := set(names) - {run.name for run in runs}:
            sys.exit(f"--runs: there is no {', '.join(sorted(unknown))}")
    if arguments.ranks:
        runs = [run for run in runs if str(run.ranks) in arguments.ranks.split(",")]
    with tempfile.TemporaryDirectory(prefix="trireme-order.") as work:
        runner = Runner(arguments.program, pathlib.Path(work))
        if arguments.mutations:
            return 1 if mutate(runner, runs, arguments.sites, arguments.at_least, arguments.table) else 0
        return 1 if check(runner, runs) else 0


if __name__ == "__main__":
    sys.exit(main())
