# SPDX-License-Identifier: Apache-2.0
"""What the sections of gpu_check share: runs with deadlines, training runs and their results, the list of outcomes."""
import dataclasses
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from workloads import REPOSITORY, read_steps, set_options

OK, FAILED, SKIPPED = "ok", "FAILED", "skipped"

CONFIGS = {
    "gpt": """
run: {directory: runs/check, seed: 7}
reproducibility: run
model: {family: gpt2, layers: 4, hidden: 128, heads: 4, context: 64, vocabulary: 256}
data: {path: DATA/text/train, workers: 1, prefetch: 2}
train: {steps: 10, global_batch: 16, micro_batch: 2, log_every: 5, clip_norm: 1.0}
optimizer: {name: adamw, learning_rate: 1e-3, weight_decay: 0.1}
lr_schedule: {name: cosine, warmup_steps: 2}
parallel: {bucket_megabytes: 0.25, timeout_seconds: 60}
""",
    "resnet": """
run: {directory: runs/check, seed: 7}
reproducibility: run
model: {family: resnet, block: bottleneck, stem: small, stages: [1, 1], width: 16, image_size: 16, channels: 3, classes: 10}
data: {path: DATA/images/train, workers: 1, prefetch: 2, crop_padding: 2, flip: true, mean: [0.5, 0.5, 0.5], std: [0.25, 0.25, 0.25]}
train: {steps: 10, global_batch: 32, micro_batch: 8, log_every: 5, clip_norm: 0, label_smoothing: 0.1}
optimizer: {name: sgd, learning_rate: 0.05, momentum: 0.9, nesterov: true, weight_decay: 5e-4}
parallel: {bucket_megabytes: 0.25, timeout_seconds: 60}
""",
}


@dataclasses.dataclass
class Outcome:
    section: str
    name: str
    status: str
    detail: str = ""
    seconds: float = 0.0


@dataclasses.dataclass
class Finished:
    code: int  # 124: stopped at its time limit
    output: str
    seconds: float

    def last_lines(self, count=6):
        """The first error and what follows it, else the end; the lines that say what went wrong."""
        lines = [line for line in self.output.splitlines() if line.strip()]
        start = next((i for i, line in enumerate(lines) if "error" in line.lower()), max(0, len(lines) - count))
        return " | ".join(lines[start:start + count])


@dataclasses.dataclass
class TrainingRun(Finished):
    directory: str

    @property
    def steps(self):
        return read_steps(self.directory)

    @property
    def losses(self):
        return [step["loss"] for step in self.steps]

    def bits(self):
        """Everything that must not change from run to run."""
        weights = re.search(r"weights xxh3 ([0-9a-f]+)", self.output)
        return [(step["loss"], step["grad_norm"]) for step in self.steps], weights.group(1) if weights else None


class OutOfTime(Exception):
    pass


class Check:
    """The program under test, where it runs, how long it may, and what was found."""

    def __init__(self, arguments, place):
        self.build, self.device, self.quick = arguments.build, arguments.device, arguments.quick
        self.arguments, self.place = arguments, place
        self.trireme = os.path.join(self.build, "trireme")
        self.mpirun = shutil.which("mpirun")
        self.outcomes, self.rows, self.deadline, self.count = [], [], time.monotonic(), 0
        self.section, self.environment = "", {}

    # ---- Results. ----

    def add(self, name, status, detail="", seconds=0.0):
        self.outcomes.append(Outcome(self.section, name, status, detail, seconds))
        print(f"   {status:8}{name}{': ' + detail if detail else ''} ({seconds:.1f} s)", flush=True)

    def judge(self, name, good, detail, seconds=0.0):
        self.add(name, OK if good else FAILED, detail, seconds)

    def ended_well(self, name, run):
        """Whether a run ended with 0; one that did not is a failure of `name`, or out of time."""
        if run.code == 0:
            return True
        self.judge(name, False, f"ended with {run.code}: {run.last_lines()}", run.seconds)
        return False

    # ---- Runs. ----

    def left(self):
        return self.deadline - time.monotonic()

    def run(self, command, limit=None, environment=None):
        """Runs a command in a process group of its own, which ends with it or at its limit."""
        limit = min(limit or 1e9, self.left())
        if limit <= 1:
            raise OutOfTime
        started = time.monotonic()
        log = os.path.join(self.place, "command.log")
        with open(log, "w+", encoding="utf-8", errors="replace") as output:
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                     cwd=REPOSITORY, env={**os.environ, **(environment or {})}, start_new_session=True)
            try:
                code = child.wait(limit)
            except subprocess.TimeoutExpired:
                code = 124
            finally:
                try:  # ranks that a dead launcher left behind, too
                    os.killpg(child.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                child.wait()
            output.seek(0)
            text = output.read()
        return Finished(code, text, time.monotonic() - started)

    def train_command(self, model, settings, ranks=1):
        """Command and run directory of a training run of `ranks` ranks that share one device."""
        self.count += 1
        directory = os.path.join(self.place, f"run_{self.count}")
        settings = {"run.directory": directory, "device.type": self.device, **settings}
        if ranks > 1 and self.device == "cuda":
            settings["device.share"] = True
        command = [self.trireme, "train", os.path.join(self.place, model + ".yaml"), *set_options(settings)]
        if ranks > 1:
            script = f'source launch/mpi_env.sh {ranks} && exec mpirun -np {ranks} "$@"'
            command = ["bash", "-c", script, "--", *command]
        return command, directory

    def train(self, model, settings, ranks=1, limit=60):
        command, directory = self.train_command(model, settings, ranks)
        done = self.run(command, limit)
        return TrainingRun(done.code, done.output, done.seconds, directory)

    def pack_data(self):
        """Text and images with something to learn, and the configs that read them."""
        words = ["oar ", "rower ", "keel ", "bench ", "trireme ", "sea ", "pull ", "the "]
        state, text, pixels, labels = 1, [], bytearray(), bytearray()
        while len(text) < 12000:
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            text.append(words[state >> 61])
        for index in range(640):
            labels.append(index % 10)
            for _ in range(16 * 16):
                state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
                pixels.append((state >> 56) % 100 + 15 * (index % 10))
        header = b"\0\0\x08\x03" + b"".join(size.to_bytes(4, "big") for size in (640, 16, 16))
        for name, data in {"text.txt": "".join(text).encode(), "images.idx": header + pixels,
                           "labels.idx": b"\0\0\x08\x01" + (640).to_bytes(4, "big") + labels}.items():
            with open(os.path.join(self.place, name), "wb") as file:
                file.write(data)
        pack = [self.trireme, "data"]
        for command in (["pack-text", "text.txt", "--out", "text"],
                        ["pack-images", "images.idx", "--labels", "labels.idx", "--classes", "10", "--channels", "3", "--out",
                         "images"]):
            paths = [os.path.join(self.place, word) if word in ("text.txt", "text", "images.idx", "labels.idx", "images")
                     else word for word in command]
            done = self.run([*pack, *paths, "--split", "train", "--quiet"], 60)
            if done.code != 0:
                sys.exit(f"{' '.join(pack + paths)} ended with {done.code}: {done.last_lines()}")
        for name, text in CONFIGS.items():
            with open(os.path.join(self.place, name + ".yaml"), "w", encoding="utf-8") as file:
                file.write(text.replace("DATA", self.place))


def worst_relative(found, expected):
    """The largest relative difference of two rows of numbers; infinite where they are not alike."""
    if len(found) != len(expected) or not expected:
        return float("inf")
    return max(abs(a - b) / max(abs(b), 1e-30) if a is not None and b is not None else float("inf")
               for a, b in zip(found, expected))
