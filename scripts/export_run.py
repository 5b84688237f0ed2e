#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sends a run to W&B or MLflow with their own clients, during or after training.

    scripts/export_run.py wandb  RUN_DIRECTORY [--follow] [--project trireme] [--offline]
    scripts/export_run.py mlflow RUN_DIRECTORY [--follow] [--project trireme] [--uri URI]

Sends every value of metrics.jsonl under its TensorBoard name, the config, the command line, host and start time. A
later call sends only new steps; steps already sent stay, even if the run went back to a checkpoint. --follow waits for
new lines until the run's job ends. --offline (or WANDB_MODE=offline) writes RUN_DIRECTORY/wandb, for `wandb sync`;
--uri is MLflow's tracking URI (default: MLFLOW_TRACKING_URI). Needs pip install wandb, or pip install mlflow
(mlflow-skinny for a server).
"""
import argparse
import datetime
import fcntl
import hashlib
import json
import os
import pathlib
import struct
import sys
import time

BATCH = 500  # MLflow takes 1,000 values a call


def points_of(line):
    """A line of metrics.jsonl as {"train/loss": value}; empty for events."""
    values = {}
    if {"skipped", "checkpoint_failed", "warning"} & set(line):
        return values
    evaluation = "validation_loss" in line
    for name, value in line.items():
        if name in ("step", "timestamp", "non_finite", "validation", "experts"):
            continue
        group = "evaluation" if evaluation else "time" if name.endswith("_ms") else "train"
        values[f"{group}/{name}"] = float("nan") if value is None else value
    for source, scores in line.get("validation", {}).items():
        for name, value in scores.items():
            values[f"evaluation_{source}/{'validation_loss' if name == 'loss' else name}"] = value
    for layer, load in line.get("experts", {}).items():
        for name, value in load.items():
            values[f"experts/{layer}/{name}"] = value
    return values


def seconds_of(line):
    return datetime.datetime.fromisoformat(line["timestamp"].replace("Z", "+00:00")).timestamp()


def is_held(run):
    """Whether a job holds the run directory."""
    try:
        with open(run / "owner.lock", "rb") as lock:
            asked = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            return struct.unpack("hhqqi", fcntl.fcntl(lock, fcntl.F_GETLK, asked))[0] != fcntl.F_UNLCK
    except OSError:
        return False


def new_lines(run, follow):
    """The lines of metrics.jsonl; with `follow` also later ones, and None while it waits for more."""
    path, read = run / "metrics.jsonl", 0
    while True:
        held = is_held(run)  # before the last look at the file
        if path.stat().st_size < read:
            read = 0  # the run went back to a checkpoint
        with open(path, "rb") as file:
            file.seek(read)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                read += len(line)
                yield json.loads(line)
        if not follow or not held:
            return
        yield None
        time.sleep(2)


class Wandb:
    def __init__(self, arguments, run, facts):
        import wandb
        mode = "offline" if arguments.offline else os.environ.get("WANDB_MODE") or "online"
        self.run = wandb.init(id=facts["id"], project=arguments.project, name=str(run), config=facts["config"] | {
            "command_line": facts["command_line"]}, dir=run, resume="allow" if mode == "online" else None,
            mode=mode, settings=wandb.Settings(console="off"))
        self.sent = self.run.step - 1 if self.run.resumed else -1
        self.waiting = {}

    def add(self, line, values):
        step = line["step"]
        if step <= self.sent:
            return
        if self.waiting and step != self.waiting["step"]:
            self.flush()
        self.waiting.update({"step": step, "time": seconds_of(line)}, values=self.waiting.get("values", {}) | values)

    def rest(self):
        """Holds back the last step: its evaluation may follow, and W&B accepts a step once."""

    def flush(self):
        if not self.waiting:
            return
        self.run.log(self.waiting["values"] | {"_timestamp": self.waiting["time"]}, step=self.waiting["step"])
        self.sent, self.waiting = self.waiting["step"], {}

    def end(self, done):
        self.flush()
        self.run.finish(exit_code=0 if done else 1)


class Mlflow:
    def __init__(self, arguments, run, facts):
        import mlflow
        self.entities = mlflow.entities
        self.client = mlflow.MlflowClient(tracking_uri=arguments.uri)
        experiment = self.client.get_experiment_by_name(arguments.project)
        number = experiment.experiment_id if experiment else self.client.create_experiment(arguments.project)
        found = self.client.search_runs([number], f"tags.`trireme.id` = '{facts['id']}'")
        tags = {"trireme.id": facts["id"], "mlflow.runName": str(run), "mlflow.source.name": facts["command_line"]}
        made = found[0] if found else self.client.create_run(number, start_time=int(1e3 * facts["start"]), tags=tags)
        self.id, self.sent, self.waiting, self.file = made.info.run_id, {}, [], run / "config.yaml"
        for name in made.data.metrics:
            self.sent[name] = max(value.step for value in self.client.get_metric_history(self.id, name))
        if not found:
            params = [mlflow.entities.Param(key, str(value)[:6000]) for key, value in flat(facts["config"])]
            for at in range(0, len(params), 100):
                self.client.log_batch(self.id, params=params[at:at + 100])
            self.client.log_artifact(self.id, str(self.file))
        self.client.set_terminated(self.id, "RUNNING")

    def add(self, line, values):
        for name, value in values.items():
            name = "".join(letter if letter.isalnum() or letter in "_-./ " else "_" for letter in name)
            if line["step"] > self.sent.get(name, -1):
                self.waiting.append(self.entities.Metric(name, value, int(1e3 * seconds_of(line)), line["step"]))
                self.sent[name] = line["step"]
        if len(self.waiting) > BATCH:
            self.rest()

    def rest(self):
        for at in range(0, len(self.waiting), BATCH):
            self.client.log_batch(self.id, metrics=self.waiting[at:at + BATCH])
        self.waiting = []

    def end(self, done):
        self.rest()
        self.client.set_terminated(self.id, "FINISHED" if done else "KILLED")


def flat(config, before=""):
    for key, value in config.items():
        if isinstance(value, dict) and value:
            yield from flat(value, f"{before}{key}.")
        else:
            yield before + key, value


def facts_of(run):
    import yaml  # of both clients
    config = yaml.safe_load((run / "config.yaml").read_text())
    command, start = "", time.time()
    with open(run / "metrics.jsonl", encoding="utf-8") as file:
        first = file.readline()
        start = seconds_of(json.loads(first)) if first else start
    if (run / "environment.json").exists():
        command = " ".join(json.loads((run / "environment.json").read_text()).get("command_line", []))
    # A run keeps its id while its first line is the same.
    key = f"{run.resolve()}\n{first}"
    return {"config": config, "command_line": command, "start": start,
            "id": "trireme" + hashlib.sha256(key.encode()).hexdigest()[:16]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", choices=["wandb", "mlflow"])
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("--follow", action="store_true")
    parser.add_argument("--project", default="trireme")
    parser.add_argument("--offline", action="store_true")
    parser.add_argument("--uri")
    arguments = parser.parse_args()
    run = arguments.run
    if not (run / "metrics.jsonl").is_file() or not (run / "config.yaml").is_file():
        sys.exit(f"error: {run}: holds no metrics.jsonl and config.yaml; give a run's directory")
    try:
        client = {"wandb": Wandb, "mlflow": Mlflow}[arguments.tool](arguments, run, facts_of(run))
    except ImportError as error:
        print(f"error: {error}; pip install {arguments.tool}", file=sys.stderr)
        sys.exit(77)
    steps = 0
    try:
        for line in new_lines(run, arguments.follow):
            if line is None:
                client.rest()
            elif values := points_of(line):
                client.add(line, values)
                steps = line["step"]
    except KeyboardInterrupt:
        print("interrupted; the same command sends the rest", file=sys.stderr)
    client.end((run / "weights.safetensors").exists())
    print(f"{arguments.tool}: {run} up to step {steps}")


if __name__ == "__main__":
    main()
