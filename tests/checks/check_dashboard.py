#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a Grafana dashboard with Grafana Labs' own classes and checks that the schema has every key, with a value of
the right type.

    tests/checks/check_dashboard.py launch/monitoring/grafana_dashboard.json

Prints one line. Exit code 0; 1 with the fault; 77 without the classes: pip install grafana-foundation-sdk (Python 3.11
or newer). tests/launch/monitoring checks the queries.
"""
import enum
import json
import sys
import types
import typing


def lost(before, after, place="dashboard"):
    """Values that reading and writing drops or changes."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            if key in after:
                yield from lost(value, after[key], f"{place}.{key}")
            else:
                yield f"{place}.{key}: the schema has no such key"
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, pair in enumerate(zip(before, after)):
            yield from lost(*pair, f"{place}[{index}]")
    elif before != after:
        yield f"{place}: {before!r} is read as {after!r}"


def fits(value, hint):
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return any(fits(value, each) for each in arguments)
    if typing.get_origin(hint) is list:
        return isinstance(value, list) and all(fits(each, arguments[0]) for each in value)
    if typing.get_origin(hint) is dict:
        return isinstance(value, dict) and all(fits(each, arguments[1]) for each in value.values())
    if typing.get_origin(hint) is typing.Literal:
        return value in arguments
    if not isinstance(hint, type) or hint is object:
        return True
    if issubclass(hint, enum.Enum):
        return value in [each.value for each in hint]
    number = (int, float) if hint is float else hint
    return isinstance(value, number) and (hint is bool or not isinstance(value, bool))


def wrong_types(read, place="dashboard"):
    if isinstance(read, (list, dict)):
        for key, value in read.items() if isinstance(read, dict) else enumerate(read):
            yield from wrong_types(value, f"{place}[{key}]")
    elif hasattr(read, "to_json"):
        hints = typing.get_type_hints(type(read), vars(sys.modules[type(read).__module__]))
        for key, value in vars(read).items():
            if key in hints and not fits(value, hints[key]):
                yield f"{place}.{key}: {value!r} is no {hints[key]}"
            yield from wrong_types(value, f"{place}.{key}")


def main():
    if len(sys.argv) != 2:
        print(__doc__.strip(), file=sys.stderr)
        sys.exit(2)
    try:
        from grafana_foundation_sdk.cog.encoder import JSONEncoder
        from grafana_foundation_sdk.cog.plugins import register_default_plugins
        from grafana_foundation_sdk.models.dashboard import Dashboard
    except ImportError:
        print("skipped: Python has no grafana_foundation_sdk (pip install grafana-foundation-sdk)")
        sys.exit(77)
    register_default_plugins()
    with open(sys.argv[1], encoding="utf-8") as file:
        given = json.load(file)
    read = Dashboard.from_json(given)
    wrong = [*lost(given, json.loads(json.dumps(read, cls=JSONEncoder))), *wrong_types(read)]
    for problem in wrong:
        print(f"error: {problem}")
    if not wrong:
        print(f"{sys.argv[1]}: {len(read.panels)} panels are as Grafana's schema has them")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
