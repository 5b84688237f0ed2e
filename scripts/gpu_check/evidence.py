# SPDX-License-Identifier: Apache-2.0
"""Evidence of a run that hung or failed: thread stacks, the ranks' reports, the driver's view. All of it goes into
one evidence.tar.gz, rewritten after each row and bounded in size, so that a kill from outside loses nothing.
"""
import concurrent.futures
import glob
import io
import os
import re
import shutil
import subprocess
import tarfile
import time

import processes

FILE_BYTES = 256 << 10  # of each file, its end
TOTAL_BYTES = 8 << 20  # before compression
SECONDS = 15.0  # that the evidence of one hang may take
TOOL_SECONDS = 6.0
RANK_VARIABLES = (b"OMPI_COMM_WORLD_RANK", b"RANK")


def asked(command, seconds=TOOL_SECONDS):
    """A tool's output, or why there is none."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=max(1.0, seconds), check=False,
                              stdin=subprocess.DEVNULL)
    except OSError as error:
        return f"{error}\n"
    except subprocess.TimeoutExpired as error:
        return f"{error}\n{(error.output or b'').decode('utf-8', errors='replace')}"
    return f"$ {' '.join(command)}\n{done.stdout}{done.stderr}"


def stack_command(process):
    """The command of the available debugger, or None."""
    if shutil.which("eu-stack"):
        return ["eu-stack", "-p", str(process), "-n", "40"]
    for debugger in ("gdb", "cuda-gdb"):
        if shutil.which(debugger):
            return [debugger, "-q", "-batch", "-p", str(process), "-ex", "set pagination off", "-ex", "thread apply all bt 40"]
    return None


def stacks(wanted, give_up):
    """{process: debugger output}; in parallel, since attaching to a CUDA process takes seconds."""
    def of_process(process):
        tool = stack_command(process)
        return asked(tool, give_up - time.monotonic()) if tool else "no debugger here\n"

    with concurrent.futures.ThreadPoolExecutor() as pool:
        return dict(zip(wanted, pool.map(of_process, wanted)))


def read(path, size=FILE_BYTES):
    """The end of a file; of files in /proc, which have no size, the beginning."""
    try:
        with open(path, "rb") as file:
            if path.startswith("/proc/"):
                return file.read(size).decode("utf-8", errors="replace")
            return processes.tail(file, size)
    except OSError as error:
        return f"{error}\n"


def threads(process):
    """Where each thread of a process waits in the kernel: works without a debugger."""
    lines = []
    for task in sorted(glob.glob(f"/proc/{process}/task/[0-9]*")):
        name, where = (read(os.path.join(task, part)).strip() for part in ("comm", "wchan"))
        state = re.search(r"^State:\s*(.*)$", read(os.path.join(task, "status")), re.MULTILINE)
        lines.append(f"thread {os.path.basename(task)} {name}: {state.group(1) if state else '?'}, in {where}, system call "
                     f"{read(os.path.join(task, 'syscall')).strip()}")
    return "\n".join(lines) + "\n"


def command_line(process):
    return read(f"/proc/{process}/cmdline").replace("\0", " ").strip()


def rank_of(process):
    try:
        with open(f"/proc/{process}/environ", "rb") as file:
            variables = dict(item.split(b"=", 1) for item in file.read().split(b"\0") if b"=" in item)
    except OSError:
        return None
    found = next((variables[name] for name in RANK_VARIABLES if name in variables), None)
    return int(found) if found is not None and found.isdigit() else None


class Box:
    """The evidence of all rows, as {path in the archive: text}."""

    def __init__(self, path):
        self.path, self.row, self.files, self.bytes, self.runs = path, "", {}, 0, 0

    def add_text(self, name, text):
        folder = re.sub(r"[^A-Za-z0-9]+", "_", self.row).strip("_").lower()[:60] or "call"
        data = text.encode("utf-8", errors="replace")[-FILE_BYTES:]
        if self.bytes + len(data) > TOTAL_BYTES:
            data = b"left out: the evidence is full\n"
        self.files[f"{folder}/{name}"] = data
        self.bytes += len(data)
        self.write()

    def write(self):
        if not self.path:
            return
        temporary = self.path + ".tmp"
        with tarfile.open(temporary, "w:gz") as archive:
            for name, data in self.files.items():
                entry = tarfile.TarInfo("evidence/" + name)
                entry.size, entry.mtime = len(data), int(time.time())
                archive.addfile(entry, io.BytesIO(data))
        os.replace(temporary, self.path)

    def of_hang(self, session, output, directory):
        """For a session past its limit; ends it."""
        self.runs += 1
        prefix, give_up = f"{self.runs}_", time.monotonic() + SECONDS
        self.add_text(prefix + "output.txt", output)
        if shutil.which("nvidia-smi"):
            self.add_text(prefix + "nvidia_smi.txt", asked(["nvidia-smi"]))
        found = processes.members(session)
        self.add_text(prefix + "processes.txt", "".join(
            f"{process} rank {rank_of(process)}: {command_line(process)}\n{threads(process)}\n" for process in found))
        ours = [process for process in found if os.path.basename(os.path.realpath(f"/proc/{process}/exe")) not in
                ("bash", "dash", "sh", "timeout", "orted", "mpirun", "orterun", "prterun")]
        for process, text in stacks(ours[:8], give_up).items():
            self.add_text(prefix + f"stacks_rank{rank_of(process)}_{process}.txt", text)
        # Ranks write collectives.rank*.txt at TERM.
        processes.end(session, 3.0)
        self._of_directory(prefix, directory)

    def of_failure(self, finished, directory):
        """For a run that failed by itself. A hang has its evidence already."""
        if finished.code == processes.TIMED_OUT:
            return
        self.runs += 1
        self.add_text(f"{self.runs}_output.txt", f"ended with {finished.code}\n{finished.output}")
        self._of_directory(f"{self.runs}_", directory)

    def _of_directory(self, prefix, directory):
        """A run's remains: the last lines of its metrics, its log, the calls that its ranks waited in."""
        for path in sorted(glob.glob(os.path.join(directory or "", "collectives.rank*.txt")))[:8] if directory else []:
            self.add_text(prefix + os.path.basename(path), read(path))
        for name in ("metrics.jsonl", "console.log", "environment.json"):
            if directory and os.path.exists(os.path.join(directory, name)):
                self.add_text(prefix + name, read(os.path.join(directory, name), 16 << 10))


def kernel_messages():
    """The driver's kernel messages, the only place of Xid errors."""
    lines = [line for line in asked(["dmesg"]).splitlines() if re.search(r"NVRM|Xid|nvidia|Out of memory", line)]
    return "\n".join(lines[-40:])
