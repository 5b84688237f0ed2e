# SPDX-License-Identifier: Apache-2.0
"""compute-sanitizer over the ops' tests: memcheck for all, then races in shared memory and misused barriers."""
import glob
import os
import shutil

import processes
from harness import NotProvable, Row, judged, not_proved
from test_programs import SKIPPED_PROGRAM

FOUND = 99


def under(tool, mode, program):
    def run(check):
        if check.kept.get("sanitizer refused"):
            raise NotProvable(check.kept["sanitizer refused"])
        finished = check.run([tool, "--tool", mode, "--target-processes", "all", "--error-exitcode", str(FOUND), program],
                             environment={"TRIREME_TEST_DEVICE": check.device})
        if "Device not supported" in finished.output:
            check.kept["sanitizer refused"] = "compute-sanitizer says: Device not supported (a virtualised driver)"
            raise NotProvable(check.kept["sanitizer refused"])
        if finished.code == SKIPPED_PROGRAM:
            return not_proved(finished.last_lines(1))
        if finished.code == processes.TIMED_OUT:
            return not_proved(f"not done within {finished.seconds:.0f} s; nothing found until then")
        return judged(finished.code == 0 and "[  PASSED  ]" in finished.output, finished.last_lines(2))
    return run


def sanitizer(check):
    tool = shutil.which("compute-sanitizer") or next(iter(glob.glob("/usr/local/cuda*/bin/compute-sanitizer")), None)
    programs = sorted(glob.glob(os.path.join(check.build, "tests", "ops_*_test")))

    def absent(_check):
        raise NotProvable("there is no compute-sanitizer here" if not tool else f"{check.build}/tests has no ops_*_test")

    if not tool or not programs or not check.on_gpu:
        return [Row("compute-sanitizer", "the ops' tests pass under compute-sanitizer", 1, absent)]
    return [Row(f"{mode} {os.path.basename(program)}", f"{mode} finds nothing in {os.path.basename(program)}", 30,
                under(tool, mode, program)) for mode in ("memcheck", "racecheck", "synccheck") for program in programs]
