# SPDX-License-Identifier: Apache-2.0
"""report.md: claims, commands and results; at its end the unproved claims."""
import datetime
import os
import platform
import subprocess

import benchmark
import gpu_info
from harness import FAILED, NOT_PROVED, PROVED
from workloads import REPOSITORY


def revision():
    marked = os.path.join(REPOSITORY, "revision.txt")  # of a bundle, which has no git
    if os.path.exists(marked):
        with open(marked, encoding="utf-8") as file:
            return file.read().strip()
    try:
        done = subprocess.run(["git", "-C", REPOSITORY, "describe", "--always", "--dirty", "--abbrev=12"], capture_output=True,
                              text=True, check=False)
    except OSError:
        return "no git"
    return done.stdout.strip() or "no git revision"


def machine(check):
    """{what: value} of the machine and its libraries."""
    rows = {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"), "revision": revision()}
    values = gpu_info.query("name", "driver_version", "memory.total", "power.limit", "clocks.max.sm")
    if values:
        rows |= {"GPU": f"{values[0]}, {values[2]} MiB, {values[3]} W, {values[4]} MHz", "driver": values[1]}
    rows["host"] = f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    rows["launcher of ranks"] = {"mpi": "mpirun", "tcp": "launch/tcp_run.sh"}[check.launcher]
    version = subprocess.run([check.trireme, "--version"], capture_output=True, text=True, check=False)
    rows["program"] = version.stdout.strip() or f"ends with {version.returncode}"
    if check.libraries:
        rows["libraries"] = ", ".join(f"{name} {value}" for name, value in check.libraries.items())
    return rows


def speed_table(rows):
    yield "| model | unit | Trireme | PyTorch | x PyTorch | MFU | MFU of PyTorch | peak MiB | MiB of PyTorch |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for row in rows:
        side, torch = benchmark.ours(row), row["sides"].get("PyTorch")

        def both(name, form):
            return [form(one[name]) if one and one[name] else "-" for one in (side, torch)]

        rates, shares, memory = both("rate", "{:,.0f}".format), both("mfu", "{:.1%}".format), both("peak", "{:,.0f}".format)
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


def in_cell(text):
    return text.replace("|", "/").replace("\n", " ")


def plan_table(rows):
    """Measured and planned values, and the three parts with the largest deviations, by their share of the step or of
    memory."""
    apart = []
    yield "| model | measured / planned |"
    yield "|---|---|"
    for row in rows:
        parts = list(benchmark.beside_plan(row))
        yield f"| {row['model']} | " + ", ".join(f"{what} {seen:,.1f} / {plan:,.1f} {unit}" for what, seen, plan, unit in parts) + " |"
        whole = {"ms": row["planned"]["total"], "MiB": row["planned"]["memory"]}
        apart += [(abs(seen - plan) / whole[unit], f"{row['model']} {what}: {seen:,.1f} instead of {plan:,.1f} {unit}")
                  for what, seen, plan, unit in parts if what != "step"]
    yield "\nThe three largest differences: " + "; ".join(text for _, text in sorted(apart, reverse=True)[:3]) + "."


def speed(calls):
    rows = [one.data for call in calls for one in call.results if one.data]
    if not rows:
        return
    yield "\n## Speed\n"
    yield from speed_table(rows)
    yield "\nMilliseconds of Trireme's step by phase, mean; phases that overlap the step's computation count where they wait:\n"
    yield from phase_table(rows)
    if with_plan := [row for row in rows if row.get("planned")]:
        yield f"\nBeside `trireme plan --hardware configs/hardware/{with_plan[0]['planned']['hardware']}.yaml`:\n"
        yield from plan_table(with_plan)
    if any(call.device == "cuda" for call in calls):
        yield "\nGoals for one H200:\n"
        yield from (f"- {'reached' if good else 'MISSED'}: {goal}" for row in rows for goal, good in benchmark.goals(row))


def lines(calls, missing_calls=()):
    results = [one for call in calls for one in call.results]
    counts = {status: sum(one.status == status for one in results) for status in (PROVED, FAILED, NOT_PROVED)}
    yield "# GPU check"
    yield ""
    yield f"{counts[PROVED]} proved, {counts[FAILED]} failed, {counts[NOT_PROVED]} not proved."
    if any(call.device == "cpu" for call in calls):
        yield "**A rehearsal on the CPU: it shows that the script works and nothing about a GPU.**"
    for call in calls:
        ended = f"{call.seconds:.0f} s" if call.ended else "**cut off before its end**"
        yield f"\n## {call.name} ({ended})\n"
        yield "; ".join(f"{name}: {value}" for name, value in call.machine.items()) + "\n"
        yield "| claim | command | result | what was seen | s |"
        yield "|---|---|---|---|---|"
        for one in (one for one in call.results if one.asked):
            command = f"`{in_cell(one.command)}`" if one.command else ""
            status = one.status if one.status == PROVED else f"**{one.status}**"
            yield f"| {in_cell(one.claim)} | {command} | {status} | {in_cell(one.detail)} | {one.seconds:.1f} |"
    yield from speed(calls)
    yield "\n## What failed\n"
    failed = [one for one in results if one.status == FAILED]
    yield from ([f"- {one.call}, {one.row}: {one.claim}: {one.detail}" for one in failed] or ["Nothing."])
    yield "\n## What was not proved\n"
    open_ones = [one for one in results if one.status == NOT_PROVED and one.asked]
    yield from (f"- {one.call}, {one.row}: {one.claim}: {one.detail}" for one in open_ones)
    yield from (f"- all of the call {name}: it has not run" for name in missing_calls)
    left_out = sum(not one.asked for one in results)
    if left_out:
        yield f"- {left_out} rows were left out by --only"
    if not open_ones and not missing_calls and not left_out:
        yield "Nothing."


def write(path, calls, missing_calls=()):
    temporary = path + ".tmp"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write("\n".join(lines(calls, missing_calls)) + "\n")
    os.replace(temporary, path)
