#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a run's exports with the readers of the tools and compares them with metrics.jsonl.

    tests/checks/check_exports.py tensorboard|wandb|mlflow|prometheus RUN_DIRECTORY

For W&B (offline) and MLflow it first sends the run with scripts/export_run.py. Prints one line. Exit code 0; 1 with the
difference; 77 without the reader: pip install tensorboard; pip install wandb; pip install mlflow; apt-get install
prometheus (promtool).
"""
import glob
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))
from export_run import points_of  # noqa: E402


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def fail(problem):
    print(f"error: {problem}")
    sys.exit(1)


def lines_of(directory):
    """Steps and evaluations by step, as {("train/loss", 1): value}."""
    with open(f"{directory}/metrics.jsonl", encoding="utf-8") as lines:
        return {(name, line["step"]): value for line in map(json.loads, lines) for name, value in points_of(line).items()}


def compare(kind, found, directory, tolerance):
    """Every point of metrics.jsonl and no other; times are rounded to thousandths."""
    expected = lines_of(directory)
    for missing in sorted(set(expected) - set(found))[:3]:
        fail(f"{kind}: {missing} is missing")
    for more in sorted(set(found) - set(expected))[:3]:
        fail(f"{kind}: {more} is not in metrics.jsonl")
    for point, value in expected.items():
        other = found[point]
        if math.isnan(value):
            if math.isfinite(other):
                fail(f"{kind}: {point} is {other}, which metrics.jsonl has as not finite")
        elif not math.isclose(value, other, rel_tol=tolerance, abs_tol=6e-4):
            fail(f"{kind}: {point} is {other} and {value} in metrics.jsonl")
    tags = {tag for tag, _ in found}
    steps = {step for _, step in found}
    print(f"{kind}: {len(found)} values of {len(tags)} metrics at {len(steps)} steps are those of metrics.jsonl")


def check_snapshots(events):
    """Histograms, texts and images are stored as TensorBoard's plugins expect."""
    histograms, pictures = 0, 0
    for tag in events.Tags()["tensors"]:
        plugin = events.SummaryMetadata(tag).plugin_data.plugin_name
        for event in events.Tensors(tag):
            tensor = event.tensor_proto
            if plugin == "histograms":
                rows = [tensor.double_val[i:i + 3] for i in range(0, len(tensor.double_val), 3)]
                shape = [dimension.size for dimension in tensor.tensor_shape.dim]
                edges = [edge for left, right, _ in rows for edge in (left, right)]
                if shape != [len(rows), 3] or edges != sorted(edges) or not sum(count for _, _, count in rows) > 0:
                    fail(f"tensorboard: {tag} at step {event.step} is no histogram: {shape}, {rows[:3]}")
                histograms += 1
            elif plugin == "images":
                width, height, file = tensor.string_val
                size = (int.from_bytes(file[16:20], "big"), int.from_bytes(file[20:24], "big"))
                if file[:8] != b"\x89PNG\r\n\x1a\n" or size != (int(width), int(height)):
                    fail(f"tensorboard: {tag} at step {event.step} is no PNG of {width} x {height} pixels")
                pictures += 1
            elif plugin == "text":
                tensor.string_val[0].decode("utf-8")
    print(f"tensorboard: {histograms} histograms and {pictures} pictures are whole")


def tensorboard(directory):
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError:
        skip("Python has no tensorboard (pip install tensorboard)")
    events = EventAccumulator(directory, size_guidance={"scalars": 0, "tensors": 0}).Reload()
    found = {}
    for tag in events.Tags()["scalars"]:
        for event in events.Scalars(tag):
            found[(tag, event.step)] = event.value
    for tag in events.Tags()["tensors"]:
        metadata = events.SummaryMetadata(tag)
        if metadata.plugin_data.plugin_name != "scalars":
            continue
        if not metadata.summary_description:
            fail(f"tensorboard: {tag} has no description")
        for event in events.Tensors(tag):
            found[(tag, event.step)] = event.tensor_proto.float_val[0]
    compare("tensorboard", found, directory, 1e-6)
    check_snapshots(events)
    for text in ("config", "command line"):
        if text not in events.Tags()["tensors"]:
            fail(f"tensorboard: no text {text}")


def export(tool, directory, *options):
    """Sends the run twice with scripts/export_run.py; the second time must add nothing."""
    for _ in range(2):
        done = subprocess.run([sys.executable, SCRIPTS / "export_run.py", tool, directory, *options], check=False)
        if done.returncode == 77:
            skip(f"Python has no {tool} (pip install {tool})")
        if done.returncode != 0:
            fail(f"export_run.py {tool} ended with {done.returncode}")


def records_of(path):
    """The records of W&B's file: LevelDB's log format after 7 bytes."""
    whole, at, parts = pathlib.Path(path).read_bytes(), 7, b""
    while at + 7 <= len(whole):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        size, kind = int.from_bytes(whole[at + 4:at + 6], "little"), whole[at + 6]
        parts += whole[at + 7:at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # whole, or the last part
            yield parts
            parts = b""


def wandb(directory):
    os.environ["WANDB_MODE"] = "offline"
    export("wandb", directory)
    from wandb.proto import wandb_internal_pb2
    files = glob.glob(f"{directory}/wandb/offline-run-*/run-*.wandb")
    found, kinds = {}, set()
    for data in records_of(files[0]):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        kinds.add(record.WhichOneof("record_type"))
        row = {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
        found |= {(name, row["_step"]): float(value) for name, value in row.items() if name[0] != "_"}
        if record.HasField("run") and record.run.config.update:
            config = {item.key: json.loads(item.value_json) for item in record.run.config.update}
            if config["train"]["steps"] <= 0:
                fail("wandb: the config is not this run's")
    if not {"run", "exit"} <= kinds:
        fail(f"wandb: only has {kinds}")
    compare("wandb", found, directory, 1e-12)


def mlflow(directory):
    uri = f"sqlite:///{os.path.abspath(directory)}/mlflow.db"
    export("mlflow", directory, "--uri", uri)
    from mlflow.tracking import MlflowClient
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("trireme")
    runs = client.search_runs([experiment.experiment_id])
    if len(runs) != 1:
        fail(f"mlflow: expected one run, found {len(runs)}")
    found = {}
    for name in runs[0].data.metrics:
        for metric in client.get_metric_history(runs[0].info.run_id, name):
            if (name, metric.step) in found:
                fail(f"mlflow: {name} has two values at step {metric.step}")
            found[(name, metric.step)] = metric.value
    if int(runs[0].data.params["train.steps"]) <= 0:
        fail("mlflow: the params are not this run's")
    compare("mlflow", found, directory, 1e-12)
    print(f"mlflow: {runs[0].info.status}, {len(runs[0].data.params)} params")


def prometheus(directory):
    if shutil.which("promtool") is None:
        skip("there is no promtool (apt-get install prometheus)")
    with open(f"{directory}/metrics.prom", "rb") as text:
        checked = subprocess.run(["promtool", "check", "metrics"], stdin=text, capture_output=True, text=True, check=False)
    if checked.returncode != 0 or checked.stdout or checked.stderr:
        fail(f"prometheus: promtool says {checked.stdout}{checked.stderr}")
    print("prometheus: promtool has nothing to say against metrics.prom")


def main():
    checks = {"tensorboard": tensorboard, "wandb": wandb, "mlflow": mlflow, "prometheus": prometheus}
    if len(sys.argv) != 3 or sys.argv[1] not in checks:
        print(__doc__.strip(), file=sys.stderr)
        sys.exit(2)
    checks[sys.argv[1]](sys.argv[2].rstrip("/"))


if __name__ == "__main__":
    main()
