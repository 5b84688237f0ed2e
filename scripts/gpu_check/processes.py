# SPDX-License-Identifier: Apache-2.0
"""Commands with a limit, each in its own session, which ends with it."""
import dataclasses
import glob
import os
import signal
import subprocess
import tempfile
import time

TIMED_OUT = 124
KEPT_OUTPUT = 4 << 20  # bytes of a command's output, its end


@dataclasses.dataclass
class Finished:
    command: list
    code: int  # TIMED_OUT: stopped at its limit
    output: str
    seconds: float

    def last_lines(self, count=6):
        """The first error and the following lines, else the end."""
        lines = [line for line in self.output.splitlines() if line.strip()]
        start = next((i for i, line in enumerate(lines) if "error" in line.lower()), max(0, len(lines) - count))
        return " / ".join(lines[start:start + count])


def members(session):
    """Processes of a session in any group: launchers give ranks groups of their own."""
    found = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue  # ended meanwhile
        if fields[0] != "Z" and int(fields[3]) == session:
            found.append(int(os.path.basename(os.path.dirname(path))))
    return sorted(found)


def send(session, number):
    for process in members(session):
        try:
            os.kill(process, number)
        except (ProcessLookupError, PermissionError):
            pass


def end(session, patience):
    """TERM, on which ranks write what they waited for; then KILL."""
    send(session, signal.SIGTERM)
    give_up = time.monotonic() + patience
    while members(session) and time.monotonic() < give_up:
        time.sleep(0.1)
    send(session, signal.SIGKILL)


def tail(file, size):
    """The end of a file. Without a seek: the running child writes at the shared position."""
    end_of_file = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), size, max(0, end_of_file - size)).decode("utf-8", errors="replace")


def run(command, limit, environment, directory, on_timeout):
    """Runs `command`; at its limit calls on_timeout(session, output so far), then ends it."""
    started = time.monotonic()
    with tempfile.TemporaryFile() as output:
        try:
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=directory,
                                     env={**os.environ, **environment}, start_new_session=True)
        except OSError as error:
            return Finished(command, 127, str(error), 0.0)
        try:
            code = child.wait(limit)
        except subprocess.TimeoutExpired:
            code = TIMED_OUT
            seconds = time.monotonic() - started
            on_timeout(child.pid, tail(output, KEPT_OUTPUT))
        finally:
            end(child.pid, 0)  # ranks that a dead launcher left behind, too
            child.wait()
        if code != TIMED_OUT:
            seconds = time.monotonic() - started
        return Finished(command, code, tail(output, KEPT_OUTPUT), seconds)
