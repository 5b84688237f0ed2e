# SPDX-License-Identifier: Apache-2.0
"""Sections that run other programs: CTest, compute-sanitizer, and a job that loses a rank."""
import glob
import os
import shutil
import signal
import subprocess
import threading
import time
import xml.etree.ElementTree

from harness import FAILED, SKIPPED
from workloads import REPOSITORY

TEST_SKIPPED = 77  # what our test programs exit with where they find no device


def tests(check):
    """Every CTest test that can run on the device."""
    if not shutil.which("ctest"):
        check.add("ctest", SKIPPED, "no ctest on PATH")
        return
    report = os.path.join(check.place, "ctest.xml")
    # On the CPU this only proves that the section works: the suite itself is run by scripts/test.sh.
    which = ["-L", "^cuda$"] if check.device == "cuda" else ["-R", "^base_test$"]
    jobs = min(8, os.cpu_count() or 1)
    done = check.run(["ctest", "--test-dir", check.build, *which, "-j", str(jobs), "--timeout", "120", "--no-tests=error",
                      "--output-on-failure", "--output-junit", report], environment={"TRIREME_TEST_DEVICE": check.device})
    if not os.path.exists(report):
        why = "not all done within" if done.code == 124 else f"ended with {done.code} after"
        check.judge("ctest", False, f"{why} {done.seconds:.0f} s: {done.last_lines()}", done.seconds)
        return
    cases = list(xml.etree.ElementTree.parse(report).iter("testcase"))
    failed = [case for case in cases if case.get("status") == "fail"]
    skipped = [case for case in cases if case.get("status") in ("notrun", "disabled", "skipped")]
    for case in failed:
        check.add(case.get("name"), FAILED, "see the output above the table", float(case.get("time") or 0))
    if failed:
        print(done.output[-8000:])
    passed = len(cases) - len(failed) - len(skipped)
    check.judge("ctest", done.code == 0 and passed > 0, f"{passed} of {len(cases)} tests passed, "
                f"{len(skipped)} skipped", done.seconds)


def ranks_of(directory):
    """{rank: process id} of the run in `directory`, from what mpirun put into the ranks' environment."""
    found = {}
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(path, "rb") as environment, open(os.path.dirname(path) + "/cmdline", "rb") as command:
                variables = dict(item.split(b"=", 1) for item in environment.read().split(b"\0") if b"=" in item)
                if directory.encode() in command.read() and b"OMPI_COMM_WORLD_RANK" in variables:
                    found[int(variables[b"OMPI_COMM_WORLD_RANK"])] = int(os.path.basename(os.path.dirname(path)))
        except OSError:
            continue  # ended meanwhile, or another user's
    return found


def abort(check):
    """A rank is killed in the middle of a step: the job must end by itself, non-zero, within seconds."""
    if not check.mpirun:
        check.add("a killed rank", SKIPPED, "no mpirun on PATH")
        return
    watch = 5
    for signal_name, limit in (("SIGKILL", 20), ("SIGSTOP", watch + 20)):
        command, directory = check.train_command(
            "gpt", {"train.steps": 1000000, "train.log_every": 100000, "parallel.timeout_seconds": watch}, ranks=2)
        struck = threading.Event()

        def strike(directory=directory, signal_name=signal_name, struck=struck):
            metrics = os.path.join(directory, "metrics.jsonl")
            for _ in range(600):
                time.sleep(0.1)
                if os.path.exists(metrics) and os.path.getsize(metrics) > 2000:
                    process = ranks_of(directory).get(1)
                    if process:
                        struck.time = time.monotonic()
                        struck.set()
                        os.kill(process, getattr(signal, signal_name))
                    return

        thread = threading.Thread(target=strike)
        thread.start()
        done = check.run(command, 60 + limit)
        ended = time.monotonic()
        thread.join()
        name = f"rank 1 of 2 gets {signal_name}"
        if not struck.is_set():
            check.judge(name, False, f"the run logged no steps: {done.last_lines()}", done.seconds)
            continue
        left = ranks_of(directory)
        for process in left.values():
            os.kill(process, signal.SIGKILL)
        took = ended - struck.time
        check.judge(name, done.code not in (0, 124) and took <= limit and not left,
                    f"the job ended with {done.code} after {took:.1f} s (limit {limit} s), {len(left)} ranks left behind",
                    done.seconds)


def sanitizer(check):
    """compute-sanitizer over the ops' tests; those with shared memory under racecheck too."""
    tool = shutil.which("compute-sanitizer")
    if check.device != "cuda" or not tool:
        check.add("compute-sanitizer", SKIPPED, "no compute-sanitizer on PATH" if check.device == "cuda" else
                  "only for the cuda device")
        return
    binaries = sorted(glob.glob(os.path.join(check.build, "tests", "ops_*_test")))
    if not binaries:
        check.judge("compute-sanitizer", False, f"{check.build}/tests has no ops_*_test; build the tests")
        return
    environment = {"TRIREME_TEST_DEVICE": check.device}
    for mode in ("memcheck",) if check.quick else ("memcheck", "racecheck", "synccheck"):
        for binary in binaries:
            name = f"{mode} {os.path.basename(binary)}"
            done = check.run([tool, "--tool", mode, "--error-exitcode", "99", binary], 30, environment)
            if "Device not supported" in done.output:
                check.add("compute-sanitizer", SKIPPED, "it says: Device not supported (a virtualised driver)")
                return
            if done.code == TEST_SKIPPED:
                check.add(name, SKIPPED, done.last_lines(1), done.seconds)
            elif done.code == 124:
                check.add(name, SKIPPED, "not done within its time; nothing found until then", done.seconds)
            else:
                check.judge(name, done.code == 0, done.last_lines(2), done.seconds)


def revision():
    done = subprocess.run(["git", "-C", REPOSITORY, "describe", "--always", "--dirty", "--abbrev=12"], capture_output=True,
                          text=True, check=False)
    return done.stdout.strip() or "no git revision"
