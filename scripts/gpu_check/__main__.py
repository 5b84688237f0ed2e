# SPDX-License-Identifier: Apache-2.0
"""Runs the sections of gpu_check one after another, each within its own time, and writes the report. Called by
scripts/gpu_check.sh, which finds the build and the device."""
import argparse
import os
import sys
import tempfile
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import benchmark  # noqa: E402
import processes  # noqa: E402
import report  # noqa: E402
import training  # noqa: E402
from harness import FAILED, SKIPPED, Check, OutOfTime  # noqa: E402
from workloads import REPOSITORY  # noqa: E402

# Section, seconds that it may take at most; what is left of the whole goes to the last.
SECTIONS = {
    "engine": (training.engine, 30),
    "tests": (processes.tests, 110),
    "parity": (training.parity, 45),
    "ranks": (training.ranks, 100),
    "abort": (processes.abort, 40),
    "graphs": (training.graphs, 35),
    "repeat": (training.repeat, 35),
    "sanitizer": (processes.sanitizer, 40),
    "benchmark": (benchmark.benchmark, 10000),
}
NEED_ENGINE = {"parity", "ranks", "abort", "graphs", "repeat", "benchmark"}


def parse():
    names = ",".join(SECTIONS)
    parser = argparse.ArgumentParser(prog="scripts/gpu_check.sh", description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--sections", default=names)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=float, default=530)
    parser.add_argument("--report", default=os.path.join(REPOSITORY, "gpu_report.md"))
    parser.add_argument("--torch-python", default=sys.executable)
    parser.add_argument("--models", type=lambda text: text.split(","), default=[])
    parser.add_argument("--set", action="append", default=[])
    arguments = parser.parse_args()
    arguments.build, arguments.report = os.path.abspath(arguments.build), os.path.abspath(arguments.report)
    arguments.sections = arguments.sections.split(",")
    for given, known in ((arguments.sections, list(SECTIONS)), (arguments.models, benchmark.known_models())):
        unknown = [name for name in given if name not in known]
        if unknown:
            parser.error(f"{', '.join(unknown)}: unknown; use {', '.join(known)}")
    return arguments


def run_section(check, name, limit):
    function, seconds = SECTIONS[name]
    check.section, check.deadline = name, min(limit, time.monotonic() + seconds)
    print(f"== {name}", flush=True)
    try:
        return function(check)
    except OutOfTime:
        check.add("the rest", SKIPPED, "no time left for this section")
    except Exception as error:  # a mistake in one section must not lose the others
        traceback.print_exc()
        check.add("the section itself", FAILED, f"{type(error).__name__}: {error}")
    return False


def main():
    arguments = parse()
    started = time.monotonic()
    limit = started + arguments.seconds
    with tempfile.TemporaryDirectory(prefix="trireme-gpu-check-") as place:
        check = Check(arguments, place)
        check.deadline = limit
        check.pack_data()
        usable = True
        try:
            for name in SECTIONS:
                if name not in arguments.sections and name != "engine":
                    continue
                if name in NEED_ENGINE and not usable:
                    check.section = name
                    check.add("all of it", SKIPPED, "the program cannot train on this device, see section engine")
                    continue
                good = run_section(check, name, limit)
                usable = usable and (name != "engine" or good)
        finally:
            report.write(check, arguments.report, time.monotonic() - started)
    failed = [one for one in check.outcomes if one.status == FAILED]
    print(f"== {len(failed)} failed of {len(check.outcomes)} checks after {time.monotonic() - started:.0f} s; "
          f"{arguments.report}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
