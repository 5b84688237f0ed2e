# SPDX-License-Identifier: Apache-2.0
"""Runs calls of gpu_check row by row, and writes results.jsonl, evidence.tar.gz and report.md after each row. Called
by scripts/gpu_check.sh, which finds the build.
"""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import evidence  # noqa: E402
import report  # noqa: E402
import results  # noqa: E402
from calls import CALLS, RESERVE  # noqa: E402
from harness import FAILED, NOT_PROVED, Check, not_proved, run_row  # noqa: E402
from workloads import REPOSITORY, WORKLOADS  # noqa: E402

ALL_WELL, FAULTS, NO_GPU = 0, 1, 2
OLDEST_DRIVER = 580


def parse():
    parser = argparse.ArgumentParser(prog="scripts/gpu_check.sh", allow_abbrev=False)
    parser.add_argument("calls", nargs="+")
    parser.add_argument("--build")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--out", default=os.path.join(REPOSITORY, "gpu_check"))
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--launcher", choices=["mpi", "tcp"], help="of ranks (default: mpirun where there is one)")
    parser.add_argument("--hosts", default="", metavar="A:8,B:8", help="for the call nodes: hosts and their GPUs, as of mpirun's --host")
    parser.add_argument("--torch-python", default=sys.executable)
    parser.add_argument("--models", type=lambda text: text.split(","), default=[])
    parser.add_argument("--set", action="append", default=[])
    arguments = parser.parse_intermixed_args()
    arguments.out = os.path.abspath(arguments.out)
    # A word without a slash is searched in PATH. Links are not resolved: a virtual environment needs its link.
    if "/" in arguments.torch_python:
        arguments.torch_python = os.path.abspath(arguments.torch_python)
    if arguments.calls[0] in ("list", "report"):
        return arguments
    if arguments.calls == ["all"]:
        arguments.calls = list(CALLS)
    for given, known in ((arguments.calls, [*CALLS, "all", "list", "report"]), (arguments.models, list(WORKLOADS))):
        unknown = [name for name in given if name not in known]
        if unknown:
            parser.error(f"{', '.join(unknown)}: unknown; use {', '.join(known)}")
    if arguments.device == "cuda" and (old := old_driver()):
        print(f"cannot run here: {old}", file=sys.stderr)
        sys.exit(NO_GPU)
    arguments.build = os.path.abspath(arguments.build) if arguments.build else build(arguments.device)
    if not os.access(os.path.join(arguments.build, "trireme"), os.X_OK):
        preset = arguments.device
        print(f"cannot run here: {arguments.build}/trireme does not exist; build with: cmake --preset {preset} && cmake --build --preset "
              f"{preset}", file=sys.stderr)
        sys.exit(NO_GPU)
    return arguments


def build(device):
    """The build of the device's preset, made if there is none."""
    directory = os.path.join(REPOSITORY, "build", device)
    if not os.access(os.path.join(directory, "trireme"), os.X_OK):
        made = subprocess.run([os.path.join(REPOSITORY, "scripts", "gpu_check.sh"), "build", "--device", device], check=False)
        if made.returncode != 0:
            sys.exit(NO_GPU)
    return directory


def old_driver():
    """Asked before anything is built; "" if the driver is new enough, or cannot be asked."""
    try:
        said = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True,
                              timeout=30, check=False).stdout.strip()
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return ""
    major = re.match(r"\d+(?=\.)", said)
    if not major or int(major[0]) >= OLDEST_DRIVER:
        return ""
    return f"driver {said.splitlines()[0]} is too old: CUDA 13 needs {OLDEST_DRIVER} or newer; update it"


def why_no_gpu():
    """Why there is no usable GPU; None if there is one."""
    if not shutil.which("nvidia-smi") and not os.path.exists("/dev/nvidiactl"):
        return "no driver: there is neither nvidia-smi nor /dev/nvidiactl"
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30, check=False).stdout
    except FileNotFoundError:
        return ""  # a container with the driver's libraries alone
    except subprocess.TimeoutExpired:
        return "no driver that answers: nvidia-smi hangs"
    return "" if listed.startswith("GPU") else f"no GPU: nvidia-smi -L says '{listed.strip() or 'nothing'}'"


def why_not(check, row):
    """Why a row cannot run here, or None."""
    if check.on_gpu and check.no_gpu and not row.cpu:
        return check.no_gpu
    if check.no_engine and not row.free:
        return check.no_engine
    return ""


class CallRun:
    """One call: its plan, its rows, and the files written after each."""

    def __init__(self, arguments, name, no_gpu):
        self.arguments, self.name, self.no_gpu, self.found = arguments, name, no_gpu, []
        self.box = evidence.Box(os.path.join(arguments.out, f"evidence_{name}.tar.gz"))
        self.results_path = os.path.join(arguments.out, f"results_{name}.jsonl")

    def run(self):
        started = time.monotonic()
        # Several hosts share --out, not /tmp.
        hosts = self.arguments.hosts if self.name == "nodes" else ""
        where = self.arguments.out if hosts else None
        with tempfile.TemporaryDirectory(prefix="trireme-gpu-check-", dir=where, ignore_cleanup_errors=True) as place:
            check = Check(self.arguments, place, self.box, hosts)
            check.no_gpu = self.no_gpu
            check.deadline = started + RESERVE
            plan = [(section, section.rows(check)) for section in CALLS[self.name].sections]
            self.writer = results.Writer(self.results_path)
            self.writer.begin(self.name, check.device, report.machine(check), [(s.name, row) for s, rows in plan for row in rows])
            for section, rows in plan:
                self.run_section(check, section, rows)
            self.writer.line({"end": self.name, "seconds": time.monotonic() - started, "machine": report.machine(check)})
        self.write_report()
        return self.found

    def run_section(self, check, section, rows):
        print(f"== {self.name}: {section.name}", flush=True)
        deadline = time.monotonic() + section.cap - RESERVE
        for row in rows:
            seconds, commands, asked = 0.0, [], self.chosen(section, row)
            why = why_not(check, row) if asked else "left out by --only"
            if not why and time.monotonic() > deadline - 3:
                why = f"no time left of the section's {section.cap:.0f} s"
            if why:
                verdict = not_proved(why)
            else:
                verdict, seconds, commands = run_row(check, row, deadline)
            command = results.shown(commands, check.place, REPOSITORY)
            self.keep(results.Result(self.name, section.name, row.name, row.claim, verdict.status, verdict.detail, command, seconds,
                                     verdict.data, asked))

    def chosen(self, section, row):
        return re.search(self.arguments.only, f"{section.name}: {row.name}") is not None

    def keep(self, result):
        self.found.append(result)
        self.writer.result(result)
        if result.status == FAILED and (messages := evidence.kernel_messages()):
            self.box.add_text("kernel_messages.txt", messages)
        self.write_report()
        if result.asked:
            print(f"   {result.status:11}{result.row}{': ' + result.detail if result.detail else ''} ({result.seconds:.1f} s)", flush=True)

    def write_report(self):
        calls = [call for path in sorted(glob.glob(os.path.join(self.arguments.out, "results_*.jsonl"))) for call in results.read(path)]
        order = list(CALLS)
        calls.sort(key=lambda call: order.index(call.name))
        missing = [name for name in order if name not in {call.name for call in calls}]
        report.write(os.path.join(self.arguments.out, "report.md"), calls, missing)


def exit_code(found, strict, no_gpu):
    if any(one.status == FAILED for one in found) or (strict and any(one.status == NOT_PROVED and one.asked for one in found)):
        return FAULTS
    return NO_GPU if no_gpu else ALL_WELL


def list_calls():
    print("calls, in the order in which to run them; a call ends within its cap, whatever hangs:")
    for name, call in CALLS.items():
        print(f"  {name:10} {call.cap:4.0f} s  {call.what}")
        print(f"             {', '.join(f'{section.name} {section.cap:.0f}' for section in call.sections)}")


def merge(arguments):
    """Merges results of several calls, maybe from several machines."""
    paths = [path for given in arguments.calls[1:] or [arguments.out]
             for path in (sorted(glob.glob(os.path.join(given, "results_*.jsonl"))) if os.path.isdir(given) else [given])]
    calls = {call.name: call for path in paths for call in results.read(path)}
    if not calls:
        sys.exit("no results_*.jsonl in " + ", ".join(arguments.calls[1:] or [arguments.out]))
    os.makedirs(arguments.out, exist_ok=True)
    ordered = [calls[name] for name in CALLS if name in calls]
    report.write(os.path.join(arguments.out, "report.md"), ordered, [name for name in CALLS if name not in calls])
    print(os.path.join(arguments.out, "report.md"))
    no_gpu = all(call.device == "cuda" and "GPU" not in call.machine for call in ordered)
    return exit_code([one for call in ordered for one in call.results], arguments.strict, no_gpu)


def main():
    arguments = parse()
    if arguments.calls[0] == "list":
        list_calls()
        return ALL_WELL
    if arguments.calls[0] == "report":
        return merge(arguments)
    os.makedirs(arguments.out, exist_ok=True)
    no_gpu = why_no_gpu() if arguments.device == "cuda" else ""
    found = [one for name in arguments.calls for one in CallRun(arguments, name, no_gpu).run()]
    counts = {status: sum(one.status == status for one in found) for status in ("proved", FAILED, NOT_PROVED)}
    print("== " + ", ".join(f"{count} {status}" for status, count in counts.items()) + f"; {arguments.out}/report.md")
    if no_gpu:
        print(f"== nothing was proved about a GPU: {no_gpu}")
    return exit_code(found, arguments.strict, no_gpu)


if __name__ == "__main__":
    sys.exit(main())
