# SPDX-License-Identifier: Apache-2.0
"""Tests gpu_check with a fake program that refuses a capture, hangs, skips, or has no cuDNN. Run by CTest
(build_gpu_check_rows), or: python3 tests/checks/check_gpu_check.py
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import types
import unittest

HERE = str(pathlib.Path(__file__).resolve().parents[2] / "scripts" / "gpu_check")
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import basics  # noqa: E402
import calls  # noqa: E402
import evidence  # noqa: E402
import gpt2  # noqa: E402
import harness  # noqa: E402
import layouts  # noqa: E402
import report  # noqa: E402
import results  # noqa: E402
import test_programs  # noqa: E402
import training  # noqa: E402
from harness import FAILED, NOT_PROVED, PROVED, Row  # noqa: E402

# Trains as FAKE, a list of words, says.
PROGRAM = '''#!{python}
import json, os, signal, sys, time
fake = os.environ.get("FAKE", "").split()
settings = dict(word.split("=", 1) for word in sys.argv if "=" in word)
if sys.argv[1] != "train":
    print("fake 1.0")
    sys.exit(0)
directory = settings["run.directory"]
os.makedirs(directory, exist_ok=True)
cuda = settings["device.type"] == "cuda"
def dump(*_):
    with open(directory + "/collectives.rank0.txt", "w") as file:
        file.write("the last call")
    sys.exit(5)
signal.signal(signal.SIGTERM, dump)
with open(directory + "/environment.json", "w") as file:
    json.dump({{"libraries": {{}} if "bare" in fake else {{"cuBLASLt": "1", "cuDNN": "2", "NCCL": "3"}}}}, file)
with open(directory + "/metrics.jsonl", "w") as file:
    for step in range(int(settings.get("train.steps", 10))):
        file.write(json.dumps({{"step": step, "loss": 5.0 - 0.1 * step, "grad_norm": 1.0}}) + "\\n")
if "broken" in fake and cuda:
    print("error: cudaMalloc failed")
    sys.exit(1)
if "hang" in fake and cuda:
    print("NCCL WARN a connection is refused", flush=True)
    time.sleep(600)
graphs = settings.get("device.graphs", "off")
if graphs != "off" and "refuse" in fake:
    print("[warn] steps run without graphs from here on: device.graphs: the work cannot be recorded")
elif graphs != "off" and "silent" not in fake:
    print("[info] " + graphs + "s are replayed as CUDA graphs from step 1 on")
for name in ("forward", "backward"):
    if "ampere" in fake:
        print("[info] cuDNN has no plan for attention_" + name + " bf16, own kernels run it: Deterministic, not for SM8X")
    elif "own" in fake:
        print("[info] cuDNN has no plan for attention_" + name + " bf16 (2, 64), own kernels run it")
    elif "mute" not in fake:
        print("[info] cuDNN 9.28.1 runs attention_" + name + " bf16 (2, 64)")
print("weights xxh3 " + ("0f" if graphs != "off" and "other" in fake else "0a"))
'''


class FakeTest(unittest.TestCase):
    def setUp(self):
        self.place = self.enterContext(tempfile.TemporaryDirectory(prefix="trireme-gpu-check-test-"))
        self.build = self.program("trireme", PROGRAM.format(python=sys.executable), "build")

    def program(self, name, text, folder):
        directory = os.path.join(self.place, folder)
        os.makedirs(directory, exist_ok=True)
        with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(file.name, 0o755)
        return directory

    def check(self, fake="", device="cuda"):
        os.environ["FAKE"] = fake
        arguments = types.SimpleNamespace(build=self.build, device=device, launcher="tcp", torch_python=sys.executable, models=[], set=[])
        self.box = evidence.Box(os.path.join(self.place, "evidence.tar.gz"))
        return harness.Check(arguments, self.place, self.box)

    def verdict(self, row, fake="", deadline=60.0, device="cuda"):
        return harness.run_row(self.check(fake, device), row, time.monotonic() + deadline)[0]

    def in_evidence(self):
        """{file name: text} of the written archive."""
        with tarfile.open(self.box.path) as archive:
            return {os.path.basename(one.name): archive.extractfile(one).read().decode() for one in archive.getmembers()}


class Graphs(FakeTest):
    ROW = next(row for row in training.graphs(None) if row.name == "gpt graphs step")

    def test_replayed_graphs_with_equal_bits_are_proved(self):
        self.assertEqual(self.verdict(self.ROW).status, PROVED)

    def test_a_refused_capture_proves_nothing(self):
        verdict = self.verdict(self.ROW, "refuse")
        self.assertEqual(verdict.status, NOT_PROVED)
        self.assertIn("cannot be recorded", verdict.detail)

    def test_equal_bits_without_a_recording_fail(self):
        self.assertEqual(self.verdict(self.ROW, "silent").status, FAILED)

    def test_other_bits_fail(self):
        self.assertEqual(self.verdict(self.ROW, "other").status, FAILED)

    def test_the_cpu_proves_nothing(self):
        self.assertEqual(self.verdict(self.ROW, device="cpu").status, NOT_PROVED)


class Attention(FakeTest):
    ROW = next(row for row in training.parity(None) if row.name == "gpt bf16")

    def test_plans_of_cudnn_are_proved_and_named(self):
        verdict = self.verdict(self.ROW)
        self.assertEqual(verdict.status, PROVED, verdict.detail)
        self.assertIn("attention by cuDNN 9.28.1", verdict.detail)

    def test_a_shape_without_a_plan_fails_though_the_losses_are_right(self):
        self.assertEqual(self.verdict(self.ROW, "own").status, FAILED)

    def test_documents_before_hopper_are_proved_on_own_kernels(self):
        verdict = self.verdict(self.ROW, "ampere")
        self.assertEqual(verdict.status, PROVED, verdict.detail)
        self.assertIn("own kernels", verdict.detail)

    def test_a_log_that_names_no_plan_fails(self):
        self.assertEqual(self.verdict(self.ROW, "mute").status, FAILED)


class Hangs(FakeTest):
    def row(self, limit):
        return Row("a hang", "it ends", limit, lambda check: harness.proved(check.train("gpt", {}).weights()))

    def test_a_run_past_its_limit_fails_and_leaves_its_evidence(self):
        verdict = self.verdict(self.row(1.0), "hang")
        self.assertEqual(verdict.status, FAILED)
        self.assertIn("did not end within", verdict.detail)
        found = self.in_evidence()
        self.assertIn("NCCL WARN a connection is refused", found["1_output.txt"])
        self.assertIn("the last call", found["1_collectives.rank0.txt"])
        self.assertIn('"loss"', found["1_metrics.jsonl"])
        self.assertIn("trireme train", found["1_processes.txt"])
        self.assertTrue(any(name.startswith("1_stacks_") for name in found), found)

    def test_a_run_cut_off_by_its_section_is_not_proved(self):
        self.assertEqual(self.verdict(self.row(60.0), "hang", deadline=1.0).status, NOT_PROVED)

    def test_a_run_that_ends_with_an_error_leaves_its_output(self):
        verdict = self.verdict(self.row(20.0), "broken")
        self.assertEqual(verdict.status, FAILED)
        self.assertIn("cudaMalloc failed", verdict.detail)
        self.assertIn("cudaMalloc failed", self.in_evidence()["1_output.txt"])

    def test_evidence_is_bounded(self):
        self.check()
        for number in range(60):
            self.box.add_text(f"{number}.txt", "x" * (1 << 20))
        self.assertLess(sum(map(len, self.box.files.values())), evidence.TOTAL_BYTES + 60 * 100)


class TestPrograms(FakeTest):
    PASSED = "[ RUN      ] A.Works\n[       OK ] A.Works (0 ms)\n"

    def of(self, output, code=0):
        return test_programs.verdict_of(types.SimpleNamespace(output=output, code=code, last_lines=lambda count=6: output[-80:]))

    def test_a_skipped_program_is_not_proved(self):
        verdict = self.of("skipped: no GPU\n", test_programs.SKIPPED_PROGRAM)
        self.assertEqual((verdict.status, verdict.detail.strip()), (NOT_PROVED, "skipped: no GPU"))

    def test_a_skipped_test_is_named(self):
        skipped = "[ RUN      ] A.Other\na.cpp:9: Skipped\nneeds a peer\n\n[  SKIPPED ] A.Other (0 ms)\n"
        verdict = self.of(self.PASSED + skipped + "[  PASSED  ] 1 test.\n")
        self.assertEqual(verdict.status, NOT_PROVED)
        self.assertIn("A.Other (needs a peer)", verdict.detail)

    def test_a_test_about_the_cpu_is_no_gap(self):
        skipped = "[ RUN      ] A.Other\na.cpp:9: Skipped\ncode of the CPU's back end\n\n[  SKIPPED ] A.Other (0 ms)\n"
        self.assertEqual(self.of(self.PASSED + skipped + "[  PASSED  ] 1 test.\n").status, PROVED)

    def test_a_program_without_tests_fails(self):
        self.assertEqual(self.of("[  PASSED  ] 0 tests.\n").status, FAILED)

    def test_failed_tests_are_named(self):
        verdict = self.of("[  PASSED  ] 1 test.\n[  FAILED  ] 1 test, listed below:\n[  FAILED  ] A.Other\n 1 FAILED TEST\n", 1)
        self.assertEqual(verdict.status, FAILED)
        self.assertIn("A.Other", verdict.detail)


    def test_a_test_that_is_not_built_proves_nothing(self):
        check = self.check()
        with open(os.path.join(self.build, "ctest.json"), "w", encoding="utf-8") as file:
            json.dump({"tests": [{"name": "ops_x_test.cuda", "properties": [{"name": "LABELS", "value": ["unit", "cuda"]}]}]}, file)
        (row,) = test_programs.units(check)
        self.assertIn("is not built", self.verdict(row).detail)

    def test_the_first_call_runs_the_riskiest_operations_in_their_order(self):
        names = [f"{name}.cuda" for name in ("base_test", "ops_attention_test", "ops_linear_test", "device_contract_test")]
        check = self.check()
        with open(os.path.join(self.build, "ctest.json"), "w", encoding="utf-8") as file:
            json.dump({"tests": [{"name": name, "properties": [{"name": "LABELS", "value": ["cuda"]}]} for name in names]}, file)
        rows = test_programs.riskiest(check)
        self.assertEqual([row.name for row in rows], [names[3], names[2], names[1]])
        self.assertTrue(all(row.free for row in rows), "they run even if the program does not train")

    def test_a_build_without_tests_proves_nothing(self):
        (row,) = test_programs.units(self.check())
        self.assertEqual(self.verdict(row).status, NOT_PROVED)


class Calls(FakeTest):
    """Complete calls of the program, with an nvidia-smi that lists a GPU, or none."""

    def call(self, *arguments, fake="", gpu=True, driver="580.82"):
        tools = self.program("nvidia-smi", f"#!/bin/sh\ncase $1 in --query*) echo {driver};; *) echo 'GPU 0: a fake';; esac\n", "gpu")
        path = os.environ["PATH"]
        environment = os.environ | {"FAKE": fake, "PATH": f"{tools}:{path}" if gpu else self.without_driver(path)}
        self.out = os.path.join(self.place, "out")
        done = subprocess.run([sys.executable, HERE, *arguments, "--build", self.build, "--out", self.out], env=environment,
                              capture_output=True, text=True, check=False, timeout=120)
        report_file = os.path.join(self.out, "report.md")
        self.report = pathlib.Path(report_file).read_text(encoding="utf-8") if os.path.exists(report_file) else ""
        return done

    def test_an_old_driver_is_named_before_anything_runs(self):
        done = self.call("first", driver="570.86.15")
        self.assertEqual((done.returncode, self.report), (2, ""))
        self.assertIn("driver 570.86.15 is too old: CUDA 13 needs 580 or newer", done.stderr)

    def test_a_slow_first_start_does_not_forbid_what_follows(self):
        check = self.check("hang")
        row = Row("train two steps", "it trains", 2, basics.trains_on_device, free=True)
        self.assertEqual(harness.run_row(check, row, time.monotonic() + 60)[0].status, FAILED)
        self.assertEqual(check.no_engine, "")

    def without_driver(self, path):
        return ":".join(one for one in path.split(":") if not os.path.exists(os.path.join(one, "nvidia-smi")))

    def test_strict_counts_what_was_not_proved(self):
        only = ["--only", "graphs: gpt"]
        self.assertEqual(self.call("basics", *only, fake="refuse").returncode, 0)
        self.assertEqual(self.call("basics", *only, "--strict", fake="refuse").returncode, 1)
        self.assertIn("recording was refused", self.report.partition("## What was not proved")[2])
        self.assertEqual(self.call("basics", *only, "--strict").returncode, 0)

    def test_a_build_without_cudnn_fails(self):
        done = self.call("basics", "--only", "engine", fake="bare")
        self.assertEqual(done.returncode, 1)
        self.assertIn("lacks cuBLASLt, cuDNN, NCCL", self.report)

    def test_a_device_that_cannot_train_costs_the_others_no_time(self):
        done = self.call("ranks", fake="broken")
        self.assertEqual(done.returncode, 1)
        self.assertIn("cudaMalloc failed", self.report)
        self.assertIn("pipeline 2, 1f1b", self.report.partition("## What was not proved")[2])

    @unittest.skipIf(os.path.exists("/dev/nvidiactl"), "a driver is here")
    def test_without_a_driver_nothing_is_proved_about_a_gpu(self):
        done = self.call("gpt2", gpu=False)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("no driver", self.report.partition("## What was not proved")[2])
        self.assertEqual(self.call("gpt2", "--strict", gpu=False).returncode, 1)

    def test_calls_that_have_not_run_are_listed(self):
        self.call("basics", "--only", "engine")
        self.assertIn("all of the call ranks: it has not run", self.report)

    def test_a_call_that_is_killed_keeps_its_results(self):
        tools = self.program("nvidia-smi", "#!/bin/sh\necho 'GPU 0: a fake'\n", "gpu")
        out = os.path.join(self.place, "killed")
        child = subprocess.Popen([sys.executable, HERE, "basics", "--only", "engine|graphs", "--build", self.build, "--out", out],
                                 env=os.environ | {"FAKE": "", "PATH": f"{tools}:{os.environ['PATH']}", "TMPDIR": self.place},
                                 stdout=subprocess.PIPE, text=True)
        for line in child.stdout:
            if "train two steps" in line:
                break
        child.send_signal(signal.SIGKILL)
        child.stdout.close()
        child.wait()
        (call,) = results.read(os.path.join(out, "results_basics.jsonl"))
        by_name = {one.row: one for one in call.results}
        self.assertEqual(by_name["train two steps"].status, PROVED)
        self.assertEqual((by_name["resnet graphs step"].status, by_name["resnet graphs step"].detail),
                         (NOT_PROVED, "the call ended before it"))
        self.assertIn("cut off before its end", "\n".join(report.lines([call])))


class Plan(unittest.TestCase):
    def test_each_call_ends_within_its_limit(self):
        for name, call in calls.CALLS.items():
            self.assertLessEqual(call.cap, calls.LIMIT, name)
        self.assertLess(calls.LIMIT, 600)

    def test_each_row_fits_its_section(self):
        check = types.SimpleNamespace(arguments=types.SimpleNamespace(models=[]), on_gpu=True, hosts="a:8,b:8")
        for call in calls.CALLS.values():
            for section in call.sections:
                if section.name in ("unit tests", "riskiest tests", "groups", "sanitizer"):
                    continue  # of a build
                for row in section.rows(check):
                    self.assertLessEqual(row.limit, section.cap - calls.RESERVE, row.name)

    def test_what_may_hang_comes_last(self):
        self.assertEqual(list(calls.CALLS)[-2:], ["ranks", "nodes"])
        self.assertIs(calls.CALLS["ranks"].sections[-1].rows, layouts.pipelines)
        self.assertTrue(all(row.limit <= 25 for row in layouts.pipelines(None)))

    def test_every_precision_and_switch_has_a_row(self):
        names = {row.name for row in gpt2.switches(None)}
        self.assertLessEqual({"fp32", "tf32", "fp16", "fp8", "fp8 blockwise", "fp8 mxfp8", "fused epilogues", "autotune",
                              "dropout", "evaluation", "checkpoint and resume", "graphs"}, names)

    def test_list_says_the_caps(self):
        said = subprocess.run([sys.executable, HERE, "list"], check=True, capture_output=True, text=True).stdout
        for name, call in calls.CALLS.items():
            self.assertRegex(said, rf"{name} +{call.cap:.0f} s")


class Commands(unittest.TestCase):
    def test_a_command_is_shown_without_directories_of_the_machine(self):
        shown = results.shown([["a"], ["/repo/launch/mpi_env.sh", "2", "mpirun", "/repo/x/trireme", "train", "/tmp/p/gpt.yaml"]],
                              "/tmp/p", "/repo")
        self.assertEqual(shown, "launch/mpi_env.sh 2 mpirun x/trireme train $PLACE/gpt.yaml (and 1 before it)")

    def test_results_survive_a_line_that_is_cut_off(self):
        with tempfile.TemporaryDirectory() as place:
            path = os.path.join(place, "results.jsonl")
            writer = results.Writer(path)
            writer.begin("basics", "cuda", {}, [("engine", Row("a", "it is", 1, None)), ("engine", Row("b", "it was", 1, None))])
            writer.result(results.Result("basics", "engine", "a", "it is", PROVED, ""))
            writer.file.write(json.dumps({"result": {"call": "basics"}})[:-9])
            writer.file.close()
            (call,) = results.read(path)
        self.assertEqual([one.status for one in call.results], [PROVED, NOT_PROVED])


if __name__ == "__main__":
    unittest.main()
