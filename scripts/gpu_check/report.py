# SPDX-License-Identifier: Apache-2.0
"""gpu_report.md: where, what, which, how fast, and what failed."""
import datetime
import os
import platform
import subprocess

import benchmark
import gpu_info
from harness import FAILED, OK, SKIPPED
from processes import revision


def machine(check):
    """(what, value) pairs of the machine and its libraries."""
    rows = [("date", datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")),
            ("revision", revision()), ("device", check.device)]
    values = gpu_info.query("name", "driver_version", "memory.total", "power.limit", "clocks.max.sm")
    if values:
        rows += [("GPU", f"{values[0]}, {values[2]} MiB, {values[3]} W, {values[4]} MHz"), ("driver", values[1])]
    rows += [("host", f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}")]
    version = subprocess.run([check.trireme, "--version"], capture_output=True, text=True, check=False)
    rows += [("program", f"{check.trireme}, {version.stdout.strip()}")]
    libraries = check.environment.get("libraries", {})
    rows += [("libraries", ", ".join(f"{name} {value}" for name, value in libraries.items()))] if libraries else []
    torch = next((row["torch"] for row in check.rows if row["torch"]), "")
    return rows + ([("PyTorch", torch)] if torch else [])


def speed_table(rows):
    yield "| model | what | PyTorch | Trireme | ratio | MFU PyTorch | MFU Trireme | GPU MiB PyTorch | GPU MiB Trireme |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for row in rows:
        side, torch = benchmark.ours(row), row["sides"].get("PyTorch")

        def both(key, form, one=side, other=torch):
            return [form(values[key]) if values and values[key] else "-" for values in (other, one)]

        rates = both("rate", "{:,.0f}".format)
        shares, memory = both("mfu", "{:.1%}".format), both("peak", "{:,.0f}".format)
        times = f"{benchmark.ratio(row):.2f}" if torch else "-"
        how = {"blocks": "; PyTorch compiled by the block", "all": "; PyTorch compiled"}.get((torch or {}).get("compile"), "")
        yield (f"| {row['title']}{how} | {row['unit']} | {rates[0]} | {rates[1]} | {times} | {shares[0]} | {shares[1]} | "
               f"{memory[0]} | {memory[1]} |")


def phase_table(rows):
    phases = list(benchmark.ours(rows[0])["phases"])
    yield "| model | step ms | " + " | ".join(name[:-3].replace("_", " ") for name in phases) + " |"
    yield "|---" * (len(phases) + 2) + "|"
    for row in rows:
        side = benchmark.ours(row)
        yield f"| {row['model']} | {side['step_ms']:.2f} | " + " | ".join(f"{side['phases'][name]:.2f}" for name in phases) + " |"


def lines(check, seconds):
    counts = {status: sum(one.status == status for one in check.outcomes) for status in (OK, FAILED, SKIPPED)}
    yield "# GPU check"
    yield ""
    yield f"{counts[OK]} ok, {counts[FAILED]} failed, {counts[SKIPPED]} skipped, in {seconds:.0f} s."
    if check.device == "cpu":
        yield "**A rehearsal on the CPU: it shows that the script works and nothing about a GPU.**"
    yield ""
    yield "| | |"
    yield "|---|---|"
    for name, value in machine(check):
        yield f"| {name} | {value} |"
    failed = [one for one in check.outcomes if one.status == FAILED]
    yield "\n## What failed\n"
    yield from ([f"- {one.section}, {one.name}: {one.detail}" for one in failed] or ["Nothing."])
    if check.rows:
        yield "\n## Speed\n"
        yield from speed_table(check.rows)
        yield "\nMilliseconds of Trireme's step by phase, mean; phases that overlap the step's computation count where they wait:\n"
        yield from phase_table(check.rows)
        if check.device == "cuda":
            yield "\nGoals for one H200:\n"
            yield from (f"- {'reached' if good else 'MISSED'}: {goal}" for row in check.rows for goal, good in benchmark.goals(row))
    yield "\n## All checks\n"
    yield "| section | check | result | what was seen | s |"
    yield "|---|---|---|---|---|"
    for one in check.outcomes:
        detail = one.detail.replace("|", "/").replace("\n", " ")
        yield f"| {one.section} | {one.name} | {one.status} | {detail} | {one.seconds:.1f} |"


def write(check, path, seconds):
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines(check, seconds)) + "\n")
