#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of check_plan.sh: predicted and measured step times. Reads the layouts (name, ranks, settings) from stdin.

    compare_plan.py DIRECTORY ROUNDS TOLERANCE_PERCENT
"""
import itertools
import json
import pathlib
import statistics
import sys

from shared import read_steps


def measured_ms(run: pathlib.Path) -> float:
    steps = [step["step_ms"] for step in read_steps(run)]
    return statistics.quantiles(steps[len(steps) // 5 :], n=4)[0]


def main() -> int:
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    work, rounds, tolerance = pathlib.Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    names = [line.split()[0] for line in sys.stdin if line.strip()]

    def predicted_ms(name: str, number: int) -> float:
        plan = json.loads((work / f"{name}.{number}.json").read_text())
        return 1e3 * plan["step_seconds"]["total"]

    # Other load makes calibrations and runs slower, never faster.
    calibration = min(range(1, rounds + 1), key=lambda number: predicted_ms(names[0], number))
    predicted = {name: predicted_ms(name, calibration) for name in names}
    measured = {name: min(measured_ms(work / f"{name}.{i}") for i in range(1, rounds + 1)) for name in names}

    wrong = []
    print(f"{'layout':<20}{'predicted ms':>14}{'measured ms':>14}{'error':>9}")
    for name in names:
        error = 100 * (predicted[name] / measured[name] - 1)
        print(f"{name:<20}{predicted[name]:>14.1f}{measured[name]:>14.1f}{error:>+8.1f}%")
        if abs(error) > tolerance:
            wrong.append(f"{name} is off by {error:+.1f} %")
    apart = agree = 0
    for a, b in itertools.combinations(names, 2):
        slow, fast = (a, b) if measured[a] > measured[b] else (b, a)
        if measured[slow] < measured[fast] * (1 + tolerance / 100):
            continue
        apart += 1
        agree += predicted[slow] > predicted[fast]
        if predicted[slow] <= predicted[fast]:
            wrong.append(f"{slow} is slower than {fast}, which was not predicted")
    print(f"order: {agree} of {apart} pairs of layouts whose times differ by more than {tolerance:g} % as predicted")
    print(*wrong[:10], sep="\n")
    if len(wrong) > 10:
        print(f"and {len(wrong) - 10} more")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
