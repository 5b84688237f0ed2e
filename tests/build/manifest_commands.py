#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks Kubernetes manifests as far as possible without a cluster, and prints the commands of their containers.

    python3 tests/build/manifest_commands.py launch/kubernetes/*.yaml

One command per line, quoted for a shell. Every document needs apiVersion, kind and a name, every mount a volume, every
container an image and limits, every pod an unprivileged user. Network policies must admit the ports that pods choose,
and the patches of a kustomization must fit its resources. Exits 1 with file and fault otherwise. Needs PyYAML.
"""
import os
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
    if document.get("kind") == "Kustomization":
        return
    if not document.get("metadata", {}).get("name"):
        yield f"{document.get('kind')} without a name"
    for spec in pod_specs(document):
        user = spec.get("securityContext", {})
        if not user.get("runAsNonRoot") or not user.get("runAsUser"):
            yield "a pod that runs as root"
        volumes = {volume["name"] for volume in spec.get("volumes", [])}
        for container in spec["containers"]:
            name = container.get("name")
            for key in ("name", "image", "command", "resources"):
                if not container.get(key):
                    yield f"container {name} without {key}"
            if container.get("securityContext", {}).get("capabilities", {}).get("drop") != ["ALL"]:
                yield f"container {name} keeps capabilities"
            for mount in container.get("volumeMounts", []):
                if mount["name"] not in volumes:
                    yield f"container {name} mounts {mount['name']}, which is no volume of its pod"


def port_ranges(document):
    """Ports that pods choose, and ports that policies admit, as (first, last)."""
    for spec in pod_specs(document):
        for sysctl in spec.get("securityContext", {}).get("sysctls", []):
            if sysctl["name"] == "net.ipv4.ip_local_port_range":
                yield tuple(int(port) for port in sysctl["value"].split())
        for container in spec["containers"]:
            for variable in container.get("env", []):
                if variable["name"] == "TRIREME_PORTS":
                    yield tuple(int(port) for port in variable["value"].split("-"))
    if document.get("kind") == "NetworkPolicy":
        for rule in document["spec"]["ingress"]:
            for port in rule["ports"]:
                if "endPort" in port:
                    yield port["port"], port["endPort"]


def patch_faults(document, directory):
    """Faults in the JSON patches of a kustomization: their paths must exist."""
    resources = []
    for file in document["resources"]:
        with open(os.path.join(directory, file), encoding="utf-8") as stream:
            resources += yaml.safe_load_all(stream)
    for patch in document["patches"]:
        target = patch["target"]
        fitting = [r for r in resources if r["kind"] == target["kind"] and r["metadata"]["name"] == target["name"]]
        if len(fitting) != 1:
            yield f"{len(fitting)} resources are the target {target}"
            continue
        for change in yaml.safe_load(patch["patch"]):
            *parents, last = [word.replace("~1", "/") for word in change["path"].split("/")[1:]]
            node = fitting[0]
            try:
                for word in parents:
                    node = node[int(word)] if isinstance(node, list) else node[word]
                if (change["op"] == "replace") != (last in node):
                    yield f"{change['op']} {change['path']}: does not fit"
            except (KeyError, IndexError, TypeError, ValueError):
                yield f"{change['path']}: is not in {target['kind']} {target['name']}"


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    wrong, ranges = [], set()
    for file in sys.argv[1:]:
        with open(file, encoding="utf-8") as stream:
            try:
                documents = list(yaml.safe_load_all(stream))
            except yaml.YAMLError as error:
                sys.exit(f"{file}: {error}")
        for document in documents:
            found = list(faults(document))
            if document["kind"] == "Kustomization":
                found += patch_faults(document, os.path.dirname(file))
            wrong += (f"{file}: {fault}" for fault in found)
            ranges.update(port_ranges(document))
            for spec in pod_specs(document):
                for container in spec["containers"]:
                    print(shlex.join(str(word) for word in container.get("command", [])))
    if len(ranges) > 1:
        wrong.append(f"ranges of ports that differ: {sorted(ranges)}")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
