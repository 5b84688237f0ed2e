# SPDX-License-Identifier: Apache-2.0
"""Shared by the rows of gpu_check: one row is one claim; the program under test, its launcher, runs with limits."""
import dataclasses
import os
import re
import shutil
import time
import traceback
import typing

import inputs
import processes
from workloads import REPOSITORY, mpirun, read_steps, set_options

PROVED, FAILED, NOT_PROVED = "proved", "failed", "not proved"


@dataclasses.dataclass(frozen=True)
class Verdict:
    status: str
    detail: str
    data: typing.Any = None  # what a table of the report is made of


def proved(detail, data=None):
    return Verdict(PROVED, detail, data)


def failed(detail):
    return Verdict(FAILED, detail)


def not_proved(why):
    return Verdict(NOT_PROVED, why)


def judged(good, detail):
    return proved(detail) if good else failed(detail)


def same_bits(one, two, more=""):
    """Of two training runs; a run without weights proves nothing."""
    return judged(one.weights() is not None and one.bits() == two.bits(),
                  f"{len(one.losses)} steps, weights {one.weights()} and {two.weights()}{more}")


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    claim: str
    limit: float  # seconds
    run: typing.Callable  # Check -> Verdict
    cpu: bool = False  # runs on the CPU: needs no GPU
    free: bool = False  # runs although the device could not train two steps
    lacks: str = ""  # what the CPU lacks for it


@dataclasses.dataclass(frozen=True)
class Section:
    name: str
    cap: float  # seconds of all its rows together
    rows: typing.Callable  # Check -> [Row]


class RunFailed(Exception):
    """A run that a row needs failed or reached its limit."""

    def __init__(self, what, finished):
        super().__init__(what)
        self.what, self.finished = what, finished


class NotProvable(Exception):
    """A row's requirement is missing; the message names it."""


class TrainingRun:
    """A training run's output and files."""

    def __init__(self, finished, directory):
        self.finished, self.directory, self.output = finished, directory, finished.output

    @property
    def code(self):
        return self.finished.code

    @property
    def steps(self):
        return read_steps(self.directory)

    @property
    def losses(self):
        return [step["loss"] for step in self.steps]

    @property
    def norms(self):
        return [step["grad_norm"] for step in self.steps]

    def weights(self):
        found = re.findall(r"weights xxh3 ([0-9a-f]+)", self.output)
        return found[-1] if found else None

    def bits(self):
        """Everything that must be equal in repeated runs."""
        return self.losses, self.norms, self.weights()

    def lines(self, pattern):
        return [line for line in self.output.splitlines() if re.search(pattern, line)]


class Check:
    """The program under test, its directory, its time limits, and its evidence."""

    def __init__(self, arguments, place, evidence_box, hosts=""):
        """`hosts`: where runs of several ranks go, "a:8,b:8"; "" for this machine."""
        self.arguments, self.place, self.box, self.hosts = arguments, place, evidence_box, hosts
        self.build, self.device = arguments.build, arguments.device
        self.trireme = os.path.join(self.build, "trireme")
        # A bundle has its own MPI library, which another MPI's mpirun cannot start.
        bundled = os.path.exists(os.path.join(self.build, "ctest.json"))
        self.launcher = arguments.launcher or ("mpi" if shutil.which("mpirun") and not bundled else "tcp")
        self.deadline, self.count, self.commands, self.runs = time.monotonic(), 0, [], []
        self.no_gpu, self.no_engine, self.libraries, self.kept = "", "", {}, {}

    @property
    def on_gpu(self):
        return self.device == "cuda"

    def left(self):
        return self.deadline - time.monotonic()

    def once(self, name, make):
        """A shared reference, computed by the first row that needs it; a failure is kept too."""
        if name not in self.kept:
            try:
                self.kept[name] = make()
            except (RunFailed, NotProvable) as error:
                self.kept[name] = error
        if isinstance(self.kept[name], Exception):
            raise self.kept[name]
        return self.kept[name]

    # ---- Runs. ----

    def run(self, command, limit=None, environment=None, directory=None):
        """Runs a command within the row's time. At the limit, collects evidence before killing it."""
        limit = max(1.0, min(limit or 1e9, self.left()))
        self.commands.append(command)
        finished = processes.run(command, limit, {"NCCL_DEBUG": "WARN", **(environment or {})}, REPOSITORY,
                                 lambda session, output: self.box.of_hang(session, output, directory))
        self.runs.append((finished, directory))
        return finished

    def launch(self, ranks, command):
        """`command` on this many ranks of the hosts, or of this machine: by mpirun, or without it by launch/tcp_run.sh."""
        if ranks == 1:
            return command
        if self.hosts:
            return ["bash", os.path.join(REPOSITORY, "launch", "mpi_run.sh"), "--host", self.hosts, "-np", str(ranks), *command]
        if self.launcher == "tcp":
            return ["bash", os.path.join(REPOSITORY, "launch", "tcp_run.sh"), str(ranks), *command]
        return mpirun(ranks, command)

    def pack(self):
        """Packs the data of the tiny configs, once per call."""
        self.once("inputs", lambda: inputs.pack(self))

    def train_command(self, config, settings, ranks=1):
        """Command and run directory of a training run; several ranks may share a device."""
        if "/" not in config:
            self.pack()
        self.count += 1
        directory = settings.get("run.directory") or os.path.join(self.place, f"run_{self.count}")
        settings = {"run.directory": directory, "device.type": self.device, **settings}
        if ranks > 1 and settings["device.type"] == "cuda":
            settings.setdefault("device.share", True)
        path = config if "/" in config else os.path.join(self.place, config + ".yaml")
        return self.launch(ranks, [self.trireme, "train", path, *set_options(settings)]), directory

    def try_train(self, config, settings, ranks=1, limit=None, environment=None):
        command, directory = self.train_command(config, settings, ranks)
        variables = {"TRIREME_END_SECONDS": "5", "TRIREME_START_SECONDS": "30", **(environment or {})}
        return TrainingRun(self.run(command, limit, variables, directory), directory)

    def train(self, config, settings, ranks=1, limit=None, environment=None):
        """A training run that must succeed; otherwise the row ends with its output."""
        run = self.try_train(config, settings, ranks, limit, environment)
        if run.code != 0:
            raise RunFailed("", run.finished)
        return run

    def evaluate(self, run, data, batches, setting):
        """The loss of trained weights."""
        text = self.tool("eval", run.directory, "--data", data, "--batches", str(batches), "--set", setting)
        return float(re.search(r"^loss +([0-9.]+)", text, re.MULTILINE).group(1))

    def tool(self, *arguments, limit=None):
        finished = self.run([self.trireme, *arguments], limit)
        if finished.code != 0:
            raise RunFailed(" ".join(arguments[:2]), finished)
        return finished.output


def run_row(check, row, deadline):
    """(verdict, seconds, commands) of one row; catches all exceptions."""
    started = time.monotonic()
    check.deadline, check.commands, check.runs = min(deadline, started + row.limit), [], []
    check.box.row = row.name
    cut = deadline < started + row.limit
    try:
        verdict = row.run(check) if check.on_gpu or not row.lacks else not_proved(f"the CPU has no {row.lacks}")
    except NotProvable as error:
        verdict = not_proved(str(error))
    except RunFailed as error:
        verdict = verdict_of(error, cut)
    except Exception as error:  # a mistake in one row must not lose the others
        verdict = failed(f"the check itself: {type(error).__name__}: {error}")
        check.box.add_text("traceback.txt", traceback.format_exc())
    if verdict.status == FAILED:
        for finished, directory in check.runs:
            if finished.code != 0:
                check.box.of_failure(finished, directory)
    return verdict, time.monotonic() - started, check.commands


def verdict_of(error, cut):
    what = error.what + " " if error.what else ""
    if error.finished.code == processes.TIMED_OUT and cut:
        return not_proved(f"{what}not done when the section's time was up, after {error.finished.seconds:.0f} s")
    if error.finished.code == processes.TIMED_OUT:
        return failed(f"{what}did not end within {error.finished.seconds:.0f} s, the rest of the row's limit; see the evidence: "
                      f"{error.finished.last_lines(2)}")
    return failed(f"{what}ended with {error.finished.code}: {error.finished.last_lines()}")


def worst_relative(found, expected):
    """The largest relative difference of two lists of numbers; infinite if their lengths differ."""
    if len(found) != len(expected) or not expected:
        return float("inf")
    return max(abs(a - b) / max(abs(b), 1e-30) if a is not None and b is not None else float("inf")
               for a, b in zip(found, expected))


def falls(losses):
    """Whether a loss decreases: the mean of the last three is below that of the first three."""
    return sum(losses[-3:]) < sum(losses[:3])
