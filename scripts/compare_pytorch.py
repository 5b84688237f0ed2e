#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the same models with PyTorch and with Trireme on the same machine and compares speed and memory.

    python3 scripts/compare_pytorch.py                                     all families, fp32 and bf16, 1 and 2 ranks
    python3 scripts/compare_pytorch.py --model gpt --precision fp32 --ranks 1 --rounds 5
    python3 scripts/compare_pytorch.py --isa all --trireme-avx2 build/package/trireme
                                                                           AVX2 and AVX-512 in fp32, AMX in bf16, 1 and 2 ranks on both
                                                                           sides, one table at the end
    python3 scripts/compare_pytorch.py --device cuda                       GPT-2 of four sizes and ResNet-50 on one GPU

On cores: GPT, Llama and BERT have 6 layers, 384 wide, 6 heads, T = 256, B = 16, V = 256, AdamW, gradients clipped at 1.0;
ViT has 6 layers, 192 wide, 49 patches, B = 64; ResNet is the network of configs/resnet_fashion.yaml at B = 64; CosmoFlow, U-Nets and DeepCAM train on small fields (workloads.py). Every process
is pinned to its cores and each rank has one thread. Every rank trains on the whole batch (so 2 ranks do twice the work per
step) unless --strong divides it. PyTorch runs on one rank; with --isa on each number of ranks, as DistributedDataParallel over
gloo. --isa holds both sides to the instructions it names: oneDNN, MKL and ATen by their variables (ISAS below), our own kernels,
which are compiled, by a build for AVX2 (cmake --preset package). PyTorch is eager with F.scaled_dot_product_attention, fused optimizers and channels_last images and volumes; bf16 is its autocast.

On a GPU: the configs in configs/ with the batches of workloads.py, random data, bf16. PyTorch has torch.compile, autocast
over fp32 master weights, cuDNN's attention and no other, a padded vocabulary, fused optimizers, channels_last images and
batches that lie on the GPU beforehand. MFU counts 6 N + 6 L C T per token (llm.c's formula).

Each round runs PyTorch, then Trireme at each rank count, so that both see the same machine. Reported are, over all rounds
and without the warm-up, the median step on cores and the mean step on a GPU, where steps overlap; memory is the highest
resident set of any process, or of the GPU as its driver sees it.

Needs a build (scripts/quickstart.sh or cmake --build --preset cpu) and PyTorch: pip install torch (h5py for models of fields). Without --compile a
full call takes about 30 minutes on 2 cores. Exits 1 where a run fails, never because of a number.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

import gpu_info
from workloads import CPU_MODELS, CUDA_MODELS, REPOSITORY, WORKLOADS, Workload, mpirun, pack_random, read_steps, set_options

# {name: (precision, a processor's flag, the environment of both sides)}
ISAS = {"avx2": ("fp32", "avx2", {"ONEDNN_MAX_CPU_ISA": "AVX2", "DNNL_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2",
                                  "MKL_ENABLE_INSTRUCTIONS": "AVX2"}),
        "avx512": ("fp32", "avx512bw", {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16", "DNNL_MAX_CPU_ISA": "AVX512_CORE_BF16",
                                        "ATEN_CPU_CAPABILITY": "avx512", "MKL_ENABLE_INSTRUCTIONS": "AVX512"}),
        "amx": ("bf16", "amx_bf16", {})}
PHASES = ["forward_ms", "backward_ms", "optimizer_ms", "data_wait_ms", "exposed_comm_ms"]


def run(command, cores, log, path=None, more=None):
    """Runs a command, pinned to `cores` if given; returns its standard output and the largest resident set of any
    process in MiB. Raises RuntimeError if it fails."""
    environment = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1") | (more or {})
    pinned = ["taskset", "-c", ",".join(map(str, cores))] if cores else []
    with open(log, "w+", encoding="utf-8") as errors, tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        child = subprocess.Popen([*pinned, *command], stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
                                 env=environment, cwd=path or REPOSITORY)
        # wait4 reports the usage of all descendants that were waited for, so also of ranks under mpirun.
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        text, problems = output.read(), errors.read()
    if child.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\nended with status {child.returncode}:\n{text[-2000:]}{problems[-2000:]}")
    return text, usage.ru_maxrss / 1024


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)


class Comparison:
    """One workload and precision: the results of both sides."""

    def __init__(self, arguments, place, model, precision, isa=None):
        self.arguments, self.place, self.precision, self.runs, self.isa = arguments, place, precision, 0, isa
        self.environment = ISAS[isa][2] if isa else {}
        self.program = arguments.trireme_avx2 if isa == "avx2" else arguments.trireme
        self.work = Workload(model)
        if arguments.batch:
            self.work.overrides["train.micro_batch"] = arguments.batch
        self.cuda = arguments.device == "cuda"
        self.sides, self.gpu, self.version = {}, "", ""

    def trireme(self, ranks, data):
        self.runs += 1
        arguments, directory = self.arguments, os.path.join(self.place, f"run_{self.work.name}_{self.precision}_{self.runs}")
        batch = self.work.batch // ranks if arguments.strong else self.work.batch
        settings = self.work.settings(directory, data, arguments.steps, batch, ranks)
        settings |= {"precision": self.precision, "device.type": arguments.device}
        if self.cuda:
            settings["reproducibility"] = "fast"  # PyTorch does not promise the same bits either
        settings |= dict(pair.split("=", 1) for pair in arguments.set)
        command = [self.program, "train", self.work.path, *set_options(settings)]
        if ranks > 1:
            command = mpirun(ranks, command)
        cores = [] if self.cuda else range(arguments.core, arguments.core + ranks)
        with gpu_info.MemoryWatch() as memory:
            _, resident = run(command, cores, os.path.join(self.place, "log"), more=self.environment)
        steps = read_steps(directory)[arguments.warmup:]
        rate = steps[-1][self.work.unit + "_per_s"]
        return {"times": [step["step_ms"] for step in steps], "items": round(rate * steps[-1]["step_ms"] / 1000),
                "peak": memory.mib if self.cuda else resident,
                "phases": {name: statistics.mean(step.get(name, 0.0) for step in steps) for name in PHASES}}

    def pytorch(self, compiled, ranks=1):
        arguments = self.arguments
        launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 1 else []
        command = [arguments.torch_python, *launch, os.path.join(REPOSITORY, "scripts", "peers", "torch_worker.py"), "--model",
                   self.work.name, "--precision", self.precision, "--steps", str(arguments.steps), "--device",
                   arguments.device, "--batch", str(self.work.batch), "--compile", compiled]
        with gpu_info.MemoryWatch() as memory:
            cores = [] if self.cuda else range(arguments.core, arguments.core + ranks)
            text, resident = run(command, cores, os.path.join(self.place, "log"), more=self.environment)
        result = json.loads(text.splitlines()[-1])
        self.version, self.gpu = result["version"], result["device"]
        return {"times": result["step_ms"][arguments.warmup:], "items": ranks * self.work.items,
                "peak": (memory.mib or result["peak_mib"]) if self.cuda else resident, "compile": compiled}

    def actions(self, data):
        """{side: function that runs it once}; PyTorch first."""
        arguments, actions = self.arguments, {}
        if self.cuda:
            # Compiling 36 or more blocks one by one takes minutes; above that one block is compiled for all.
            deep = not self.work.of_images and self.work["model.layers"] > arguments.compile_layers
            if arguments.torch_python:
                actions["PyTorch"] = lambda: self.pytorch("blocks" if deep else "all")
        elif arguments.torch_python:
            actions["PyTorch"] = lambda: self.pytorch("no")
            if self.isa:
                for ranks in [ranks for ranks in arguments.ranks if ranks > 1]:
                    actions[f"PyTorch, {ranks} ranks"] = lambda ranks=ranks: self.pytorch("no", ranks)
            if arguments.compile:
                actions["PyTorch compiled"] = lambda: self.pytorch("all")
        for ranks in arguments.ranks:
            name = f"Trireme, {ranks} rank{'s' if ranks > 1 else ''}"
            actions[name] = lambda ranks=ranks: self.trireme(ranks, data)
        return actions

    def measure(self):
        data = pack_random(self.work, self.program, self.place)
        for number in range(self.arguments.rounds):
            for name, action in self.actions(data).items():
                progress(f"{self.work.name} {self.precision}{f' {self.isa}' if self.isa else ''}: round {number + 1}/{self.arguments.rounds}, {name}")
                result = action()
                side = self.sides.setdefault(name, dict(result, times=[], peak=0.0))
                side["times"] += result["times"]
                side["peak"] = max(side["peak"], result["peak"] or 0.0)
        progress("")
        shutil.rmtree(os.path.dirname(data))
        for side in self.sides.values():
            side["step_ms"] = (statistics.mean if self.cuda else statistics.median)(side.pop("times"))
            side["rate"] = 1000 * side["items"] / side["step_ms"]
        return self

    def as_row(self):
        """Plain data for --json."""
        peak = self.arguments.peak_tflops or gpu_info.peak_tflops(self.gpu or (gpu_info.query("name") or [""])[0],
                                                                  self.precision)
        flops = self.work.flops_per_item() if self.cuda and peak else None
        sides = {name: dict(side, mfu=side["rate"] * flops / (peak * 1e12) if flops else None)
                 for name, side in self.sides.items()}
        return {"model": self.work.name, "isa": self.isa, "title": self.work.title, "unit": self.work.unit + "/s", "precision": self.precision,
                "torch": self.version, "sides": sides}


def report(row, arguments):
    where = "one GPU" if arguments.device == "cuda" else "one core per rank"
    print(f"\n{row['title']}, {row['precision']}{', ' + row['isa'] if row['isa'] else ''}, {where}: {arguments.rounds} rounds of "
          f"{arguments.steps - arguments.warmup} steps; PyTorch {row['torch'] or 'not run'}")
    print(f"{'':20}{row['unit']:>12}{'ms/step':>10}{'x PyTorch':>11}{'peak MiB':>10}{'x PyTorch':>11}{'x 1 rank':>10}{'MFU':>7}")
    torch, one = row["sides"].get("PyTorch"), row["sides"].get("Trireme, 1 rank")
    for name, side in row["sides"].items():
        ratio = f"{side['rate'] / torch['rate']:11.2f}" if torch else f"{'-':>11}"
        memory = f"{side['peak'] / torch['peak']:11.2f}" if torch and torch["peak"] else f"{'-':>11}"
        scaling = f"{side['rate'] / one['rate']:10.2f}" if one and name.startswith("Trireme") else f"{'':10}"
        mfu = f"{100 * side['mfu']:6.1f}%" if side["mfu"] else ""
        print(f"{name:20}{side['rate']:12,.0f}{side['step_ms']:10.1f}{ratio}{side['peak']:10.0f}{memory}{scaling}{mfu}".rstrip())
    sys.stdout.flush()


def print_table(rows, ranks):
    """All rows of --isa as Markdown: rates of both sides and their ratio per number of ranks."""
    heads = [f"PyTorch, {n} | Trireme, {n} | ratio" for n in ranks]
    print(f"\n| model | what | {' | '.join(heads)} |\n|---|---|{'---|' * (3 * len(ranks))}")
    for row in rows:
        cells = []
        for n in ranks:
            torch = row["sides"].get("PyTorch" if n == 1 else f"PyTorch, {n} ranks")
            ours = row["sides"][f"Trireme, {n} rank{'s' if n > 1 else ''}"]
            cells += [f"{torch['rate']:,.0f}" if torch else "-", f"{ours['rate']:,.0f}",
                      f"{ours['rate'] / torch['rate']:.2f}" if torch else "-"]
        print(f"| {row['title']}, {row['unit']} | {row['precision']}, {row['isa']} | {' | '.join(cells)} |")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--model", choices=[*WORKLOADS, "all"], nargs="+", default=["all"], help="default: all of the device")
    parser.add_argument("--precision", choices=["fp32", "tf32", "bf16", "both"], help="both is fp32 and bf16, the default on "
                        "cores; on a GPU the default is bf16")
    parser.add_argument("--ranks", type=int, nargs="+", help="rank counts of Trireme (default: 1 2 on cores, 1 on a GPU)")
    parser.add_argument("--isa", nargs="+", choices=[*ISAS, "all"], help="on cores: hold both sides to these instructions")
    parser.add_argument("--trireme-avx2", default=os.path.join(REPOSITORY, "build", "package", "trireme"),
                        help="for --isa avx2: a build for any AVX2 processor (default: build/package/trireme)")
    parser.add_argument("--strong", action="store_true", help="divide the batch among the ranks")
    parser.add_argument("--rounds", type=int, help="default: 3 on cores, 1 on a GPU")
    parser.add_argument("--steps", type=int, default=20, help="steps of each run, warm-up included (default: 20)")
    parser.add_argument("--warmup", type=int, default=5, help="steps that do not count (default: 5)")
    parser.add_argument("--batch", type=int, default=0, help="samples per step and rank (default: as workloads.py says)")
    parser.add_argument("--core", type=int, default=0, help="first core to use (default: 0)")
    parser.add_argument("--compile", action="store_true", help="on cores: also run PyTorch with torch.compile")
    parser.add_argument("--compile-layers", type=int, default=24, help="on a GPU: deeper models are compiled by the block "
                        "(default: 24)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="one more override for Trireme")
    parser.add_argument("--peak-tflops", type=float, help="of the GPU, for MFU (default: a table of known GPUs)")
    parser.add_argument("--json", metavar="FILE", help="also write the results there")
    parser.add_argument("--trireme", default=os.path.join(REPOSITORY, "build", "cpu", "trireme"))
    parser.add_argument("--torch-python", default=sys.executable, help="a Python that has torch (default: this one)")
    parser.add_argument("--without-torch", action="store_true", help="measure Trireme alone")
    arguments = parser.parse_args()
    if not 0 <= arguments.warmup < arguments.steps or (arguments.rounds or 1) < 1:
        parser.error("needs 0 <= warmup < steps and at least one round")
    cuda = arguments.device == "cuda"
    if arguments.isa and (cuda or arguments.precision or arguments.strong):
        parser.error("--isa is for cores, each with a precision of its own, and whole batches on every rank")
    arguments.ranks = arguments.ranks or ([1] if cuda else [1, 2])
    arguments.rounds = arguments.rounds or (1 if cuda else 3)
    arguments.precision = arguments.precision or ("bf16" if cuda else "both")
    return arguments


def check_isas(arguments):
    """The names of --isa that the processor supports; reports the others."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        flags = next((line.split() for line in file if line.startswith("flags")), [])
    wanted = list(ISAS) if "all" in arguments.isa else arguments.isa
    arguments.isa = [isa for isa in wanted if ISAS[isa][1] in flags]
    for isa in set(wanted) - set(arguments.isa):
        print(f"{isa}: left out, for this processor has no {ISAS[isa][1]}", file=sys.stderr)
    if not arguments.isa:
        sys.exit("--isa: nothing is left to run")
    arguments.trireme_avx2 = os.path.abspath(arguments.trireme_avx2)
    if "avx2" in arguments.isa and not os.access(arguments.trireme_avx2, os.X_OK):
        sys.exit(f"{arguments.trireme_avx2}: is not there; build it: cmake --preset package && cmake --build --preset package")


def check_tools(arguments):
    arguments.trireme = os.path.abspath(arguments.trireme)
    if not os.access(arguments.trireme, os.X_OK):
        sys.exit(f"{arguments.trireme}: is not there; build first: cmake --preset cpu && cmake --build --preset cpu")
    if arguments.isa:
        check_isas(arguments)
    if arguments.without_torch:
        arguments.torch_python = ""
        return
    probe = subprocess.run([arguments.torch_python, "-c", "import torch"], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        sys.exit(f"{arguments.torch_python} has no PyTorch; run: python3 -m venv build/torch && "
                 "build/torch/bin/pip install torch, then add --torch-python build/torch/bin/python")


def main():
    arguments = parse()
    check_tools(arguments)
    models = arguments.model
    if "all" in models:
        models = CUDA_MODELS if arguments.device == "cuda" else CPU_MODELS
    rows = []
    with tempfile.TemporaryDirectory(prefix="trireme-compare-") as place:
        for model in models:
            precisions = ["fp32", "bf16"] if arguments.precision == "both" else [arguments.precision]
            for precision, isa in [(ISAS[isa][0], isa) for isa in arguments.isa or []] or [(each, None) for each in precisions]:
                try:
                    rows.append(Comparison(arguments, place, model, precision, isa).measure().as_row())
                except RuntimeError as error:
                    sys.exit(str(error))
                report(rows[-1], arguments)
    if arguments.isa:
        print_table(rows, arguments.ranks)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
