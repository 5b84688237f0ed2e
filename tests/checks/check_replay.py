#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants faults in training runs and checks that replay finds each: the step from the run's certificate; the tensor,
the rank and the kind of cause from recordings.

    check_replay.py --build build/cpu            every fault: a table as Markdown
    check_replay.py --build build/cpu --short    a few, for tests
    check_replay.py --build build/cpu --clean 2000   no fault: that many steps must report nothing

A run is trained by trireme_faulty (tests/launch/fixture/test_faults.cpp) with one fault in one step. Then `trireme
replay`, the program without faults, replays it on one rank from the previous checkpoint and must name that step; it
records the step. Last, trireme_faulty replays the step on the run's layout, where the fault occurs again, and is
compared with that recording: the first tensor that differs must be the faulty one, on the faulty rank.
"""
import collections
import random
import re
import shutil
import sys
import tempfile

from shared import add_built, parser_of, prepare, run, sets

CONFIG = """
run: {directory: runs/test, seed: 7}
precision: fp32
reproducibility: layout
model: {family: gpt2, layers: 2, hidden: 32, heads: 2, context: 24, vocabulary: 256}
data: {path: text, workers: 1, prefetch: 2}
parallel: {tensor_blocks: 2}
checkpoint: {every_steps: 3, keep: 9}
train: {steps: 9, global_batch: 8, micro_batch: 2, log_every: 100, clip_norm: 1.0, divergence_check_every: 0}
telemetry: {tensorboard: false, weight_digests: 1, health_minutes: 0}
optimizer: {name: adamw, learning_rate: 3e-3, weight_decay: 0.1}
lr_schedule: {name: cosine, warmup_steps: 2}
"""
STEP = 5
LAYOUTS = {
    "data 2": [],
    "ZeRO 1": ["parallel.zero=1"],
    "ZeRO 2": ["parallel.zero=2"],
    "ZeRO 3": ["parallel.zero=3"],
    "tensor 2": ["parallel.tensor=2"],
    "pipeline 2": ["parallel.pipeline=2"],
}


# text: for TRIREME_TEST_FAULT; tensor: the expected name; ranks: where; cause: a word of the expected cause; seen: the step
# with a different line in the certificate.
Fault = collections.namedtuple("Fault", "what layout text tensor ranks cause short seen", defaults=(False, STEP))


def faults():
    norm, tied, expand = "blocks.1.norm2.weight", "embedding.token.weight", "blocks.0.mlp.expand.weight"
    weight, qkv, contract = "blocks.0.mlp.contract.weight", "blocks.1.attention.qkv.weight", "blocks.1.mlp.contract.weight"
    one, both = "rank 1", "ranks 0, 1"
    table = []

    def add(*arguments, **more):
        table.append(Fault(*arguments, **more))

    # Memory.
    for layout in ("data 2", "tensor 2", "pipeline 2"):
        name = contract if layout == "pipeline 2" else weight
        add("bit of a weight, between steps", layout, f"what=weights_before,kind=flip,rank=1,name={name},element=70",
            f"the weights before it, .*{name}", one, "memory", layout == "data 2")
    for layout in ("ZeRO 1", "ZeRO 3"):
        add("bit of a weight, in the update", layout, f"what=weights,kind=flip,rank=1,name={expand},element=3",
            f"the weights after the update, .*{expand}", one, "update")
    for layout in ("data 2", "tensor 2", "ZeRO 3"):
        micro_batch = 1 if layout == "ZeRO 3" else 2  # which of them are rank 1's
        add("bit of an activation", layout, f"what=activation,kind=flip,rank=1,layer=1,micro_batch={micro_batch},element=17",
            f"micro-batch {micro_batch}: forward, .*layer 1, blocks.0", one, "tensor group" if layout == "tensor 2" else "forward pass")
    for layout in ("data 2", "pipeline 2", "tensor 2"):
        add("bit of a gradient", layout, "what=gradient,kind=flip,rank=1,layer=2,micro_batch=2,element=5",
            "micro-batch 2: backward, the gradient of a layer's input, layer 2", one,
            "tensor group" if layout == "tensor 2" else "backward pass")
    # Messages.
    add("bit of a message between stages", "pipeline 2", "what=activation,kind=flip,rank=1,received=1,micro_batch=1,element=9",
        "micro-batch 1: forward, .*layer 1, ", one, "message", True)
    add("message back, halves changed", "pipeline 2", "what=gradient,kind=swap,rank=0,received=1,micro_batch=3",
        "micro-batch 3: backward, .*layer 2, ", "rank 0", "message")
    add("sum of the tensor group lost on one rank", "tensor 2", "what=activation,kind=zero,rank=1,layer=2,micro_batch=0",
        "micro-batch 0: forward, .*layer 2, blocks.1", one, "tensor group")
    # Collectives of gradients.
    add("slices in a wrong order of ranks", "data 2", f"what=reduced_gradient,kind=swap,rank=all,name={qkv}",
        f"the reduced gradient, .*{qkv}", both, "collective", True)
    add("slices in a wrong order of ranks", "ZeRO 1", f"what=reduced_gradient,kind=swap,rank=all,name={qkv}",
        f"the reduced gradient, .*{qkv}", "rank", "collective")
    add("one rank's sum not added", "ZeRO 2", f"what=reduced_gradient,kind=scale,factor=0.5,rank=1,name={expand}",
        f"the reduced gradient, .*{expand}", one, "collective")
    add("bit of a reduced gradient", "ZeRO 3", f"what=reduced_gradient,kind=flip,rank=1,name={expand},element=1",
        f"the reduced gradient, .*{expand}", one, "collective")
    for layout in ("data 2", "tensor 2"):
        add("tied gradient twice", layout, f"what=reduced_gradient,kind=scale,factor=2,rank=all,name={tied}",
            f"the reduced gradient, .*{tied}", both, "tied")
    # Tensor parallelism.
    add("scale missing in a norm's gradient", "tensor 2", f"what=parameter_gradient,kind=scale,factor=2,rank=1,name={norm}",
        # A weight that is replicated over the tensor group: rank 0's copy is digested, the other only shows in the
        # loss.
        f"micro-batch 0: backward, the gradient of a parameter, .*{norm}", one, "tensor group", seen=STEP + 1)
    add("scale missing in a norm's gradient, everywhere", "tensor 2",
        f"what=parameter_gradient,kind=scale,factor=2,rank=all,name={norm}",
        f"micro-batch 0: backward, the gradient of a parameter, .*{norm}", both, "tensor group")
    # Schedule.
    for layout in ("data 2", "pipeline 2", "ZeRO 1"):
        add("micro-batch left out", layout, "what=parameter_gradient,kind=zero,rank=all,micro_batch=2",
            "micro-batch 2: backward, the gradient of a parameter, ", "rank", "schedule")
    add("micro-batch taken twice", "data 2", "what=parameter_gradient,kind=scale,factor=2,rank=1,micro_batch=3",
        "micro-batch 3: backward, the gradient of a parameter, ", one, "schedule")
    # Data.
    for layout, micro_batch in (("data 2", 2), ("ZeRO 3", 1)):
        add("another sample", layout, f"what=batch,kind=copy,rank=1,rows=2,name=inputs,micro_batch={micro_batch}",
            f"micro-batch {micro_batch}: the batch, inputs", one, "data", layout == "data 2")
    add("another target", "pipeline 2", "what=batch,kind=flip,rank=1,name=targets,micro_batch=1,bit=1,element=20",
        "micro-batch 1: the batch, targets", one, "data")
    # Operations.
    for layout in ("tensor 2", "data 2"):
        add("rounding of another library, forward", layout, "what=activation,kind=rounding,rank=all,layer=2",
            "micro-batch 0: forward, .*layer 2, blocks.1", "rank", "forward pass")
    add("rounding of another library, backward", "pipeline 2", "what=gradient,kind=rounding,rank=all,layer=1",
        "micro-batch 0: backward, .*layer 1, blocks.0", "rank 0", "backward pass")
    add("rounding of another library, one weight's gradient", "ZeRO 1", f"what=parameter_gradient,kind=rounding,rank=all,name={contract}",
        f"micro-batch 0: backward, the gradient of a parameter, .*{contract}", "rank", "backward pass")
    add("update off by a last bit", "tensor 2", f"what=weights,kind=rounding,rank=all,name={weight}",
        f"the weights after the update, .*{weight}", "rank", "update")
    return table


class Check:
    def __init__(self, build, directory):
        self.trireme, self.faulty = f"{build}/trireme", f"{build}/tests/trireme_faulty"
        self.directory = directory
        words = ["oar ", "rower ", "keel ", "bench ", "trireme ", "sea ", "pull ", "the "]
        source = random.Random(1)
        prepare(self.trireme, directory, CONFIG, "".join(source.choice(words) for _ in range(1300)))

    def run(self, program, arguments, ranks=1, fault="", codes=(0,)):
        launcher = ["mpirun", "--oversubscribe", "-np", ranks] if ranks > 1 else []
        variables = {"OMP_NUM_THREADS": "1", "TRIREME_LOG": "warn"} | ({"TRIREME_TEST_FAULT": fault} if fault else {})
        done = run([*launcher, program, *arguments], codes, variables, cwd=self.directory, timeout=300)
        return done.stdout + done.stderr

    def train(self, layout, fault, more=(), ranks=2):
        shutil.rmtree(f"{self.directory}/run", ignore_errors=True)
        settings = ["data.path=text", "run.directory=run", *layout, *more]
        return self.run(self.faulty, ["train", "gpt.yaml", *sets(settings)], ranks, fault)

    # The unmet expectations of a fault, or "", and the message about the tensor.
    def fault(self, fault):
        text = f"{fault.text},step={STEP}"
        layout = LAYOUTS[fault.layout]
        self.train(layout, text)
        said = self.run(self.trireme, ["replay", "run", "--step", str(STEP), "--steps", "2", "--record", "right", "--values"],
                        codes=(0, 4))
        problems = []
        if not re.search(rf"does not replay: step {fault.seen}: another", said):
            problems.append("its step is not named")
        said = self.run(self.faulty, ["replay", "run", "--step", str(STEP), "--steps", "2", "--record", "wrong", "--values",
                                      "--against", "right"], 2, text, codes=(0, 4))
        if "the bits of the run" not in said:
            problems.append("the run does not replay on its own layout")
        found = re.search(r"wrong is not right: (.*)", said)
        where = found.group(1) if found else said.strip()
        for pattern in (rf"^step {STEP}.*{fault.tensor}", rf"differs on {fault.ranks}", rf"likely .*{fault.cause}"):
            if not re.search(pattern, where):
                problems.append(f"no '{pattern}' in it")
        return "; ".join(problems), where


def main():
    parser = parser_of(__doc__, program="")
    add_built(parser, "--build", "")
    parser.add_argument("--short", action="store_true", help="a few faults")
    parser.add_argument("--clean", type=int, metavar="STEPS", help="no fault: verify and replay a run of so many steps")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        check = Check(options.build, directory)
        if options.clean:
            steps = options.clean
            check.train([], "", [f"train.steps={steps}", f"checkpoint.every_steps={steps // 2}"])
            check.run(check.trireme, ["replay", "run"])
            print(check.run(check.trireme, ["replay", "run", "--step", "1", "--steps", str(steps)]), end="")
            return 0
        chosen = [fault for fault in faults() if fault.short or not options.short]
        print("| fault | layout | step | tensor, rank and cause |\n|---|---|---|---|")
        failed = 0
        for fault in chosen:
            problem, where = check.fault(fault)
            failed += bool(problem)
            shown = re.sub(r"^step \d+[,:] ", "", where).replace("|", "/")
            print(f"| {fault.what} | {fault.layout} | {fault.seen if 'its step' not in problem else 'no'} | {shown} |"
                  + (f" NOT FOUND: {problem}" if problem else ""), flush=True)
        print(f"\n{len(chosen) - failed} of {len(chosen)} faults found at their step and in their tensor")
        return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
