# SPDX-License-Identifier: Apache-2.0
"""The first facts about a new machine, in ten minutes: its hardware, the time of a step by operation, speed compared
with the plan, and whether several GPUs train as one does."""
import json
import os
import pathlib
import re
import shutil

import evidence
import training
from benchmark import measured
from harness import NotProvable, Row, failed, judged, proved, same_bits, worst_relative
from workloads import Workload, set_options

MOST_RANKS = 8
PROFILED = ("gpt2_124m", "resnet50")
# Name, calls, ms, share, lost ms of a row of `bench machine --profile`.
OPERATION = re.compile(r"^(\w+) +[\d.e+]+ +([\d.]+) +[\d.]+ % +([\d.]+)", re.MULTILINE)
BOUND = 1e-5
WIDE = {"parallel.tensor_blocks": 2, "parallel.timeout_seconds": 30}


def gpus():
    return evidence.asked(["nvidia-smi", "-L"], 30).count("GPU ") if shutil.which("nvidia-smi") else 0


def ranks_of(check):
    """One for each GPU; on the CPU a rehearsal with two. On several hosts what --hosts says."""
    if check.hosts:
        return sum(int(host.partition(":")[2] or 1) for host in check.hosts.split(","))
    if not check.on_gpu:
        return 2
    found = check.once("GPUs", gpus)
    if found < 2:
        raise NotProvable("one GPU: several would each have a rank")
    return min(found, MOST_RANKS) & ~1


# ---- The machine. ----

def machine(check):
    for name, command in (("gpus", ["-q", "-d", "CLOCK,POWER,TEMPERATURE,PERFORMANCE,ECC,MEMORY"]), ("topology", ["topo", "-m"]),
                          ("nvlink", ["nvlink", "-s"]), ("driver", [])):
        check.box.add_text(f"{name}.txt", evidence.asked(["nvidia-smi", *command], 30))
    doctor = check.run([check.trireme, "doctor", "--set", "device.type=cuda"])
    check.box.add_text("doctor.txt", doctor.output)
    said = f"{check.once('GPUs', gpus)} GPUs; doctor ended with {doctor.code}"
    return proved(said) if doctor.code == 0 else failed(f"{said}: {doctor.last_lines()}")


def machine_rows(_check):
    return [Row("machine", "driver, topology, clocks, power and what doctor says are kept", 60, machine, free=True, lacks="driver")]


# ---- One GPU. ----

def profile(model):
    def run(check):
        if check.on_gpu:
            work = Workload(model)
            config, settings = work.path, {**work.overrides, "precision": "bf16"}
        else:
            check.pack()
            config, settings = os.path.join(check.place, "gpt.yaml"), {}
        text = check.tool("bench", "machine", config, "--profile", *set_options({**settings, "device.type": check.device}))
        check.box.add_text("profile.txt", text)
        rows = OPERATION.findall(text)
        if not rows:
            return failed(f"no operation in {text[:200]!r}")
        most = ", ".join(f"{name} {lost} of {taken}" for name, taken, lost in rows[:3])
        return proved(f"{text.partition(',')[0]}; ms lost: {most}; the table is in the evidence")
    return run


def one_gpu(_check):
    return [Row(f"profile of {model}", f"{model}: each operation timed beside its declared bytes and FLOPs", 60, profile(model))
            for model in PROFILED]


def speed(check):
    model = "gpt2_124m" if check.on_gpu else "gpt"
    return [Row(model, f"{model}: speed, memory and phases beside the plan", 60, measured(model, False))]


# ---- Several GPUs. ----

def train(check, settings, ranks, environment=None):
    return check.train("llama", {"device.share": False, **WIDE, **settings}, ranks, environment=environment)


def start(check):
    ranks = ranks_of(check)
    run = train(check, {"precision": "bf16", "train.steps": 2}, ranks, {"NCCL_DEBUG": "INFO"})
    check.box.add_text("nccl_info.txt", run.output)
    return proved(f"{ranks} ranks, loss {run.losses[-1]:.4f}; what NCCL says of its rings, channels and transports is in the evidence")


def links(check):
    ranks, out = ranks_of(check), os.path.join(check.place, "links.json")
    check.pack()
    largest = str((1 << 30) if check.on_gpu else (1 << 20))
    settings = {"device.type": check.device, "parallel.tensor": 2}
    finished = check.run(check.launch(ranks, [check.trireme, "bench", "machine", "--links", os.path.join(check.place, "llama.yaml"),
                                              "--max-bytes", largest, "--json", out, *set_options(settings)]))
    if finished.code != 0:
        return failed(f"ended with {finished.code}: {finished.last_lines()}")
    check.box.add_text("links.txt", finished.output)
    groups = json.loads(pathlib.Path(out).read_text())["groups"]
    best = [f"{group['group']} {one['collective']} {1e-9 * max(size['bus_bytes_per_second'] for size in one['sizes']):.1f}"
            for group in groups for one in group["collectives"] if one["collective"] in ("all_reduce", "all_gather", "send_recv")]
    return proved(f"{ranks} ranks, bus GB/s: " + ", ".join(best))


def against_one(check):
    ranks = ranks_of(check)
    settings = {"precision": "fp32", "parallel.zero": 1}
    alone, all_of_them = train(check, {**settings, "parallel.zero": 0}, 1), train(check, settings, ranks)
    worst = worst_relative(all_of_them.losses, alone.losses)
    return judged(worst <= BOUND, f"{ranks} ranks: losses differ by {worst:.1e} from one rank (bound {BOUND:g})")


def twice(check):
    ranks = ranks_of(check)
    one, two = (train(check, {"precision": "bf16", "parallel.zero": 1}, ranks) for _ in range(2))
    return same_bits(one, two, f", {ranks} ranks")


def with_graphs(check):
    ranks = ranks_of(check)
    return training.replayed("llama", "step", {"device.share": False, "precision": "bf16", **WIDE}, ranks)(check)


def layouts(check):
    ranks = ranks_of(check)
    settings = {"precision": "fp32", "reproducibility": "layout"}
    runs = {"1 rank": train(check, settings, 1)}
    for name, more in (("data", {"parallel.zero": 3}), ("tensor 2", {"parallel.tensor": 2}), ("pipeline 2", {"parallel.pipeline": 2})):
        runs[name] = train(check, {**settings, **more}, ranks)
    return judged(len({repr(run.bits()) for run in runs.values()}) == 1,
                  f"{ranks} ranks: " + ", ".join(f"{name} {run.weights()}" for name, run in runs.items()))


def memory(check):
    """Memory that the driver allocated, compared with the plan; each run prints both."""
    run = train(check, {"precision": "bf16", "parallel.zero": 1}, ranks_of(check))
    with open(os.path.join(run.directory, "console.log"), encoding="utf-8") as log:
        found = re.search(r"predicted / measured: ([\d.]+) / ([\d.]+) MiB", log.read())
    if not found:
        return failed("the run does not print its buffers")
    planned, held = map(float, found.groups())
    return judged(abs(held - planned) <= 0.03 * planned, f"buffers of a rank {held:.1f} MiB, planned {planned:.1f} (bound 3 %)")


def several_gpus(_check):
    return [Row("NCCL starts", "NCCL connects all GPUs; its report of a start is kept", 60, start),
            Row("same bits twice", "all GPUs train twice to the same bits", 50, twice),
            Row("as one rank", "a Llama on all GPUs trains as on one", 50, against_one),
            Row("links", "bandwidth of NCCL by group and size", 60, links),
            Row("graphs", "all GPUs: device.graphs: step has the bits of no graphs", 50, with_graphs, lacks="graphs"),
            Row("layouts", "data, tensor and pipeline parallel have the bits of one rank in layout mode", 80, layouts),
            Row("memory", "a rank's buffers are those that were planned", 40, memory)]


# ---- Several hosts. ----

def hosts_see_files(check):
    """Data, configs and runs of the rows lie below --out."""
    if not check.hosts:
        raise NotProvable("no --hosts A:8,B:8")
    names = [host.partition(":")[0] for host in check.hosts.split(",")]
    finished = check.run(check.launch(ranks_of(check), ["sh", "-c", f"test -d {check.place} && test -x {check.trireme} && hostname"]))
    return judged(finished.code == 0, f"{len(names)} hosts, {ranks_of(check)} ranks: --out and the build are on all of them"
                  if finished.code == 0 else f"a host lacks {check.place} or {check.trireme}, or does not answer: {finished.last_lines()}")


def several_hosts(check):
    """The rows of several GPUs, on hosts. Without hosts one row says so."""
    seen = Row("files", "all hosts are reached and see the same files", 40, hosts_see_files, free=True)
    return [seen, *several_gpus(check)] if check.hosts else [seen]
