# SPDX-License-Identifier: Apache-2.0
"""The repository's test programs on the device, one process per row, so that each result is kept at once."""
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess

import processes
from harness import NotProvable, Row, RunFailed, failed, not_proved, proved
from workloads import REPOSITORY

SKIPPED_PROGRAM = 77  # what our test programs exit with where they find no device
# Tests of the CPU prove nothing about a GPU.
ABOUT_THE_CPU = r"CPU|on the host"

# The operations of a step that most depend on libraries and hardware, first.
RISK = ("device", "ops_linear_test", "ops_attention_test", "ops_transformer_test", "ops_cross_entropy_test", "ops_optimizer_test")

# Creating an NCCL communicator takes most of a second on a shared GPU, and each test creates one. So of the group tests
# only those that need NCCL run, one process each. (ranks, program, tests, claim)
GROUPS = [
    (2, "comm_test", "Dtypes/Collectives.*/f32", "collectives and messages of fp32"),
    (2, "comm_test", "Dtypes/Collectives.*/bf16_in_place", "collectives of bf16 in place"),
    (2, "comm_test", "CommunicatorTest.SumsHaveTheBits*:CommunicatorTest.AGroup*:CommunicatorTest.Split*:"
     "CommunicatorTest.GroupsOfASplit*:CommunicatorTest.Barrier*:CommunicatorTest.Stats*", "groups, splits and ordered sums"),
    (2, "comm_test", "Checked.LetsAgreeing*:Checked.SplitsInto*", "checked collectives"),
    (4, "comm_test", "Dtypes/Collectives.AllReduce*/f32:Dtypes/Collectives.AllToAll*/f32", "collectives of four ranks"),
    (4, "checkpoint_layouts_test", "*", "checkpoints of four ranks"),
]


@dataclasses.dataclass(frozen=True)
class Program:
    name: str
    path: str
    labels: frozenset
    environment: tuple


def from_ctest(listing, places):
    """Test programs of a `ctest --show-only=json-v1`; in a bundle, directories are {name} of `places`. A test whose
    program is not built has no command; its row says so."""
    found = []
    for test in listing["tests"]:
        command = test.get("command") or [os.path.join(places["build"], "tests", test["name"].partition(".")[0])]
        properties = {one["name"]: one["value"] for one in test.get("properties", [])}
        path = command[-1]
        for name, place in places.items():
            path = path.replace("{" + name + "}", place)
        found.append(Program(test["name"], path, frozenset(properties.get("LABELS", [])),
                             tuple(item.partition("=")[::2] for item in properties.get("ENVIRONMENT", []) if "=" in item)))
    return found


def programs(check):
    listing = os.path.join(check.build, "ctest.json")
    if os.path.exists(listing):
        return from_ctest(json.loads(pathlib.Path(listing).read_text()), {"build": check.build, "source": REPOSITORY})
    if not shutil.which("ctest"):
        raise NotProvable(f"neither {listing} nor ctest is here to say which tests there are")
    done = subprocess.run(["ctest", "--test-dir", check.build, "--show-only=json-v1"], capture_output=True, text=True, check=False,
                          timeout=60)
    if done.returncode != 0:
        raise NotProvable(f"ctest does not list the tests of {check.build}: {done.stderr.strip()}")
    return from_ctest(json.loads(done.stdout), {"build": check.build})


def skips(output):
    """{test: reason} of the tests that GoogleTest skipped."""
    found = {}
    for name in re.findall(r"^\[  SKIPPED \] (\S+) \(\d+ ms\)", output, re.MULTILINE):
        text = output.partition(f"[ RUN      ] {name}\n")[2].partition("[  SKIPPED ]")[0]
        found[name] = text.partition(": Skipped\n")[2].strip().replace("\n", " ")
    return found


def verdict_of(finished):
    """The verdict of a test program that ended by itself."""
    if finished.code == SKIPPED_PROGRAM:
        return not_proved(finished.last_lines(1))
    if finished.code != 0:
        broken = re.findall(r"^\[  FAILED  \] ([A-Za-z_]\S*?),?(?: |$)", finished.output, re.MULTILINE)
        return failed(f"ended with {finished.code}: {', '.join(dict.fromkeys(broken)) or finished.last_lines()}")
    passed = re.search(r"^\[  PASSED  \] (\d+) tests?", finished.output, re.MULTILINE)
    if not passed or int(passed.group(1)) == 0:
        return failed(f"no test ran: {finished.last_lines(2)}")
    left_out = {name: why for name, why in skips(finished.output).items() if not re.search(ABOUT_THE_CPU, why)}
    if left_out:
        return not_proved(f"{passed.group(1)} tests passed, and were skipped: "
                          + "; ".join(f"{name} ({why})" for name, why in left_out.items()))
    return proved(f"{passed.group(1)} tests passed")


def run_program(program, ranks=1, tests=None):
    def run(check):
        if not os.access(program.path, os.X_OK):
            raise NotProvable(f"{program.path} is not built")
        command = check.launch(ranks, [program.path, *([f"--gtest_filter={tests}"] if tests else [])])
        environment = dict(program.environment) | {"TRIREME_TEST_DEVICE": check.device, "TRIREME_END_SECONDS": "3"}
        finished = check.run(command, environment=environment)
        if finished.code == processes.TIMED_OUT:
            raise RunFailed("", finished)
        return verdict_of(finished)
    return run


def listed(check, make):
    """Rows of the programs, or one row that says why there are none: an empty list would look like nothing to prove."""
    try:
        rows, why = make(programs(check)), f"{check.build} has no such test"
    except NotProvable as error:
        rows, why = [], str(error)

    def absent(_check):
        raise NotProvable(why)
    return rows or [Row("test programs", "the test programs pass on the device", 1, absent, free=True)]


def units(check, among=lambda one: True):
    """Tests in one process; on the CPU only one, to show that the section works: scripts/test.sh runs the suite."""
    def make(found):
        chosen = [one for one in found if among(one) and "cuda" in one.labels and not {"mpi", "build"} & one.labels and
                  not one.name.startswith("cudnn_graphs")]
        if not check.on_gpu:
            chosen = [one for one in found if one.name == "base_test"]
        chosen.sort(key=lambda one: (risk(one), one.name))
        return [Row(one.name, f"the tests of {one.name.partition('.')[0]} pass on the device", 40, run_program(one), free=True)
                for one in chosen]
    return listed(check, make)


def risk(program):
    """The place of a program in RISK; programs that are not in it come last."""
    return next((place for place, name in enumerate(RISK) if program.name.startswith(name)), len(RISK))


def riskiest(check):
    """Before the program trains: a fault is found in its operation."""
    return units(check, lambda one: risk(one) < len(RISK))


def groups(check):
    def make(found):
        by_name = {os.path.basename(one.path): one for one in found}
        rows = []
        for ranks, name, tests, what in GROUPS if check.on_gpu else GROUPS[:1]:
            program = by_name.get(name) or Program(name, os.path.join(check.build, "tests", name), frozenset(), ())
            rows.append(Row(f"{name}, {ranks} ranks: {what}", f"{what} are right between {ranks} ranks", 25,
                            run_program(program, ranks, tests)))
        return rows
    return listed(check, make)
