#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks Kubernetes manifests as far as that goes without a cluster, and prints the commands of their containers.

    python3 scripts/manifest_commands.py launch/kubernetes/*.yaml

One command per line, quoted for a shell. Every document needs apiVersion, kind and a name, every mount a volume, every
container an image and limits; exits 1 with file and fault otherwise. Needs PyYAML.
"""
import shlex
import sys

import yaml


def pod_specs(node):
    """The specs that have containers, wherever they are."""
    if isinstance(node, dict):
        if "containers" in node:
            yield node
        for value in node.values():
            yield from pod_specs(value)
    elif isinstance(node, list):
        for value in node:
            yield from pod_specs(value)


def faults(document):
    for key in ("apiVersion", "kind"):
        if not document.get(key):
            yield f"a document without {key}"
    if not document.get("metadata", {}).get("name"):
        yield f"{document.get('kind')} without a name"
    for spec in pod_specs(document):
        volumes = {volume["name"] for volume in spec.get("volumes", [])}
        for container in spec["containers"]:
            name = container.get("name")
            for key in ("name", "image", "command", "resources"):
                if not container.get(key):
                    yield f"container {name} without {key}"
            for mount in container.get("volumeMounts", []):
                if mount["name"] not in volumes:
                    yield f"container {name} mounts {mount['name']}, which is no volume of its pod"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    found = False
    for file in sys.argv[1:]:
        with open(file, encoding="utf-8") as stream:
            try:
                documents = list(yaml.safe_load_all(stream))
            except yaml.YAMLError as error:
                sys.exit(f"{file}: {error}")
        for document in documents:
            for fault in faults(document):
                print(f"{file}: {fault}", file=sys.stderr)
                found = True
            for spec in pod_specs(document):
                for container in spec["containers"]:
                    print(shlex.join(str(word) for word in container.get("command", [])))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
