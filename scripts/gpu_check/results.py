# SPDX-License-Identifier: Apache-2.0
"""results.jsonl: a call's plan, each row's result at once, and the end. If a call is killed, its results so far are
kept, and the plan shows what is missing.
"""
import dataclasses
import json
import os
import shlex
import typing

from harness import NOT_PROVED


@dataclasses.dataclass
class Result:
    call: str
    section: str
    row: str
    claim: str
    status: str
    detail: str
    command: str = ""
    seconds: float = 0.0
    data: typing.Any = None
    asked: bool = True  # False: left out by the caller, so that it is no fault


def shown(commands, place, repository):
    """The last command of a row as one line, without the directories of this machine."""
    if not commands:
        return ""
    text = shlex.join(commands[-1]).replace(place, "$PLACE").replace(repository + os.sep, "")
    return text + (f" (and {len(commands) - 1} before it)" if len(commands) > 1 else "")


class Writer:
    """Each line is on disk before the next row begins."""

    def __init__(self, path):
        self.file = open(path, "w", encoding="utf-8")

    def line(self, fields):
        self.file.write(json.dumps(fields) + "\n")
        self.file.flush()
        os.fsync(self.file.fileno())

    def begin(self, call, device, machine, plan):
        self.line({"begin": call, "device": device, "machine": machine,
                   "plan": [{"section": section, "row": row.name, "claim": row.claim} for section, row in plan]})

    def result(self, result):
        self.line({"result": dataclasses.asdict(result)})


@dataclasses.dataclass
class Call:
    name: str
    device: str
    machine: dict
    results: list
    seconds: float = 0.0
    ended: bool = False


def read(path):
    """The calls of a file, the last of each name; planned rows without a result are not proved."""
    calls, plans = {}, {}
    with open(path, encoding="utf-8") as file:
        for text in file:
            try:
                line = json.loads(text)
            except ValueError:
                continue  # cut off in the middle
            if "begin" in line:
                calls[line["begin"]] = Call(line["begin"], line["device"], line["machine"], [])
                plans[line["begin"]] = line["plan"]
            elif "result" in line:
                result = Result(**line["result"])
                calls[result.call].results.append(result)
            elif "end" in line:
                call = calls[line["end"]]
                call.seconds, call.ended, call.machine = line["seconds"], True, line["machine"]
    for name, call in calls.items():
        there = {(one.section, one.row) for one in call.results}
        missing = [one for one in plans[name] if (one["section"], one["row"]) not in there]
        call.results += [Result(name, one["section"], one["row"], one["claim"], NOT_PROVED, "the call ended before it")
                         for one in missing]
    return list(calls.values())
