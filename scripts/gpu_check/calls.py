# SPDX-License-Identifier: Apache-2.0
"""The calls: their sections in order, with time limits. Sections that may hang come last."""
import dataclasses

import basics
import benchmark
import faults
import first
import gpt2
import layouts
import messages
import sanitizer
import test_programs
import training
from harness import Section

# Part of a section's limit, reserved for the evidence of a row that hangs at its end; otherwise a call would exceed its
# limit.
RESERVE = 20
LIMIT = 570  # seconds that the caps of a call may come to: a machine that is rented for ten minutes a call


@dataclasses.dataclass(frozen=True)
class Call:
    what: str
    sections: tuple

    @property
    def cap(self):
        return sum(section.cap for section in self.sections)


ENGINE = Section("engine", 55, basics.engine)
CALLS = {
    "first": Call("what tells most, the parts before the whole: the machine, five operations, a step, its speed, all GPUs", (
        Section("machine", 80, first.machine_rows), Section("riskiest tests", 95, test_programs.riskiest),
        Section("engine", 125, basics.first_engine), Section("operations", 90, first.one_gpu), Section("speed", 80, first.speed),
        Section("several GPUs", 100, first.several_gpus))),
    "basics": Call("the program trains here; unit tests; GPT and ResNet as on the CPU, twice, with CUDA graphs", (
        Section("control", 60, basics.control), Section("engine", 125, basics.first_engine),
        Section("unit tests", 140, test_programs.units), Section("parity", 115, training.parity),
        Section("repeat", 55, training.repeat), Section("graphs", 75, training.graphs))),
    "gpt2": Call("GPT-2 124M beside PyTorch from the same weights; every precision and switch; checkpoints", (
        ENGINE, Section("PyTorch", 215, gpt2.parity), Section("switches", 300, gpt2.switches))),
    "benchmark": Call("GPT-2 124M to 1.5B and ResNet-50: speed alone, then beside PyTorch", (
        ENGINE, Section("alone", 175, benchmark.alone), Section("beside PyTorch", 340, benchmark.beside_pytorch))),
    "sanitizer": Call("compute-sanitizer over the ops' tests: memcheck, racecheck, synccheck", (
        Section("sanitizer", 560, sanitizer.sanitizer),)),
    "messages": Call("two GPUs: matmuls beside NCCL's calls, with the thread blocks of each role and with NCCL's choice", (
        ENGINE, Section("thread blocks", 340, messages.rows))),
    "ranks": Call("2 and 4 ranks on one GPU or several: NCCL, layouts, graphs, lost ranks, pipelines", (
        ENGINE, Section("groups", 110, test_programs.groups), Section("layouts", 130, layouts.safe),
        Section("graphs of 2 ranks", 55, layouts.graphs), Section("lost ranks", 70, faults.faults),
        Section("pipelines", 150, layouts.pipelines))),
    "nodes": Call("two hosts or more (--hosts A:8,B:8): NCCL between them, bandwidth, bits, layouts; --out on a shared disk", (
        ENGINE, Section("several hosts", 500, first.several_hosts))),
}
