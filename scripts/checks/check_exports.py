#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a run's files for other tools back with those tools' own readers and holds them to metrics.jsonl.

    scripts/checks/check_exports.py tensorboard|wandb|mlflow|prometheus RUN_DIRECTORY

Prints one line; exit code 0, or 1 with what differs, or 77 where the reader is not installed:
pip install tensorboard; pip install 'wandb<0.20' (later ones have no reader in Python); pip install mlflow-skinny;
apt-get install prometheus (promtool).
"""
import glob
import json
import math
import os
import shutil
import subprocess
import sys


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def fail(problem):
    print(f"error: {problem}")
    sys.exit(1)


def lines_of(directory):
    """Steps and evaluations by step, as {"train/loss": value}."""
    points = {}
    with open(f"{directory}/metrics.jsonl", encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            step = line.pop("step")
            timestamp = line.pop("timestamp")
            line.pop("non_finite", None)
            if {"skipped", "checkpoint_failed", "warning"} & set(line):
                continue
            evaluation = "validation_loss" in line
            sources = line.pop("validation", {})
            for name, value in line.items():
                group = "evaluation" if evaluation else "time" if name.endswith("_ms") else "train"
                points[(f"{group}/{name}", step)] = value
            for source, values in sources.items():
                points[(f"evaluation_{source}/validation_loss", step)] = values["loss"]
                if "accuracy" in values:
                    points[(f"evaluation_{source}/accuracy", step)] = values["accuracy"]
            del timestamp
    return points


def compare(kind, found, directory, tolerance):
    """Every point of metrics.jsonl and no other; times there are in thousandths."""
    expected = lines_of(directory)
    for missing in sorted(set(expected) - set(found))[:3]:
        fail(f"{kind}: {missing} is missing")
    for more in sorted(set(found) - set(expected))[:3]:
        fail(f"{kind}: {more} is not in metrics.jsonl")
    for point, value in expected.items():
        other = found[point]
        if value is None:
            if math.isfinite(other):
                fail(f"{kind}: {point} is {other}, which metrics.jsonl has as not finite")
        elif not math.isclose(value, other, rel_tol=tolerance, abs_tol=6e-4):
            fail(f"{kind}: {point} is {other} and {value} in metrics.jsonl")
    tags = {tag for tag, _ in found}
    steps = {step for _, step in found}
    print(f"{kind}: {len(found)} values of {len(tags)} metrics at {len(steps)} steps are those of metrics.jsonl")


def check_snapshots(events):
    """Histograms, texts and pictures are there as TensorBoard's plugins want them."""
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


def wandb(directory):
    try:
        from wandb.proto import wandb_internal_pb2
        from wandb.sdk.internal import datastore
        import wandb as module
    except ImportError:
        skip("Python has no wandb with a reader (pip install 'wandb<0.20')")
    module._assert_is_internal_process = True
    files = glob.glob(f"{directory}/wandb/offline-run-*/run-*.wandb")
    if len(files) != 1:
        fail(f"wandb: expected one file, found {files}")
    store = datastore.DataStore()
    store.open_for_scan(files[0])
    found, records, kinds = {}, 0, []
    while (data := store.scan_data()) is not None:
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        records += 1
        if record.num != records:
            fail(f"wandb: record {records} says that it is number {record.num}")
        kinds.append(record.WhichOneof("record_type"))
        if kinds[-1] == "history":
            row = {item.key: json.loads(item.value_json) for item in record.history.item}
            if row["_step"] != record.history.step.num:
                fail(f"wandb: a row says step {row['_step']} and {record.history.step.num}")
            for name, value in row.items():
                if not name.startswith("_"):
                    found[(name, row["_step"])] = float(value)
        elif kinds[-1] == "run":
            config = {item.key: json.loads(item.value_json) for item in record.run.config.update}
            if config["train"]["steps"] <= 0 or record.run.run_id not in files[0]:
                fail("wandb: the run record is not this run's")
    if kinds[0] != "run":
        fail(f"wandb: begins with {kinds[0]}")
    compare("wandb", found, directory, 1e-12)
    print(f"wandb: {records} records, the last {kinds[-1]}")


def mlflow(directory):
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    try:
        from mlflow.tracking import MlflowClient
    except ImportError:
        skip("Python has no mlflow (pip install mlflow-skinny)")
    client = MlflowClient(tracking_uri=f"file://{os.path.abspath(directory)}/mlruns")
    experiment = client.get_experiment_by_name("trireme")
    runs = client.search_runs([experiment.experiment_id])
    if len(runs) != 1:
        fail(f"mlflow: expected one run, found {len(runs)}")
    found = {}
    for name in runs[0].data.metrics:
        for metric in client.get_metric_history(runs[0].info.run_id, name):
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
