#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits efficiency.matmul in configs/hardware/{a100,h100,h100_500w}.yaml, one number per kind of GPU, to the
published rows that tests/plan marks `fit`, and reports the errors on all rows. Minimises the sum of squared
logarithms of predicted / published.
"""

import argparse
import collections
import math
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
KINDS = {"a100": ["a100"], "h100": ["h100", "h100_500w"]}
MATMUL = [i / 100 for i in range(50, 91)]
Row = collections.namedtuple("Row", "system model gpus error use")
USES = ("fit", "seen", "held out")


def set_matmul(directory, kind, value):
    for name in KINDS[kind]:
        path = directory / "configs" / "hardware" / f"{name}.yaml"
        text, count = re.subn(r"^(  matmul: )\S+", rf"\g<1>{value}", path.read_text(), flags=re.M)
        if count != 1:
            sys.exit(f"{path}: {count} lines set efficiency.matmul; wanted one")
        path.write_text(text)


def rows(binary, directory):
    """Predictions with the files of `directory`."""
    done = subprocess.run([binary, "--gtest_filter=Published.*"], cwd=directory, capture_output=True,
                          text=True, check=False)  # large errors are its failures and our business
    found = []
    for line in done.stdout.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 8 or cells[-1] not in USES or "/s" not in cells[3]:
            continue
        found.append(Row(*cells[:3], float(cells[6].split()[0]) / 100, cells[7]))
    if not found:
        sys.exit(f"{binary} printed no rows:\n{done.stdout[-2000:]}{done.stderr}")
    return found


def losses(binary, directory, matmul):
    for kind, value in matmul.items():
        set_matmul(directory, kind, value)
    sums = dict.fromkeys(KINDS, 0.0)
    for row in rows(binary, directory):
        if row.use == "fit":
            kind = next(kind for kind, names in KINDS.items() if row.gpus.split()[1] in names)
            sums[kind] += math.log1p(row.error) ** 2
    return sums


def fit(binary, directory):
    tried = {kind: [] for kind in KINDS}
    for value in MATMUL:
        for kind, loss in losses(binary, directory, dict.fromkeys(KINDS, value)).items():
            tried[kind].append((loss, value))
    for kind in KINDS:
        loss, value = min(tried[kind])
        print(f"{', '.join(KINDS[kind])}: efficiency.matmul {value} (loss {loss:.5f})")
        set_matmul(directory, kind, value)


def print_summary(found):
    print("| rows | number | median error | 9 of 10 within | worst |\n|---|---|---|---|---|")
    groups = {}
    for row in found:
        groups.setdefault((USES.index(row.use), ""), []).append(row)
        if row.use != "fit":
            groups.setdefault((USES.index(row.use), row.system), []).append(row)
    for (use, system), group in sorted(groups.items()):
        errors = sorted(abs(row.error) for row in group)
        worst = max(group, key=lambda row: abs(row.error))
        name = f"{USES[use]}: {system}" if system else f"**{USES[use]}**"
        print(f"| {name} | {len(group)} | {100 * statistics.median(errors):.1f} % | "
              f"{100 * errors[math.ceil(0.9 * len(errors)) - 1]:.1f} % | "
              f"{100 * worst.error:+.1f} % ({worst.model}, {worst.gpus}) |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", type=pathlib.Path, required=True,
                        help="plan_published_test of a build")
    parser.add_argument("--summary", action="store_true",
                        help="fit nothing, sum up the rows with the files as they are")
    arguments = parser.parse_args()
    binary = arguments.binary.resolve()
    if arguments.summary:
        print_summary(rows(binary, ROOT))
        return
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        shutil.copytree(ROOT / "configs" / "hardware", directory / "configs" / "hardware")
        fit(binary, directory)
        print_summary(rows(binary, directory))


if __name__ == "__main__":
    main()
