#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws .github/layout_matrix.svg from scripts/measurements/layout_matrix.txt, the last output of layout_matrix.sh.

    python3 scripts/layout_picture.py            writes the picture
    python3 scripts/layout_picture.py --check    exits 1 if the picture is another than the table's
"""
import itertools
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TABLE, PICTURE = "scripts/measurements/layout_matrix.txt", ".github/layout_matrix.svg"
ROW = re.compile(r" +(\d+)  (\S+ x \S+ x \S+) +(\S+) +(\S+) +(yes|no) +(none|full|selective) +(\S+) +([0-9a-f]{16})  yes$")
COLUMNS, LEFT, STEP_X, STEP_Y = 8, 88, 99, 46
STYLE = ("rect{fill:#e3f4ea;stroke:#2b8a57}text{fill:#1b2a33}.t{font-size:17px;font-weight:600}.r{font-size:14px;font-weight:600}"
         ".a{font-size:13px;text-anchor:middle}.b{font-size:10.5px;text-anchor:middle;fill:#3d5560}.f{font-size:13px}.bg{fill:#fff;stroke:none}")


def box(row, x, y):
    ranks, layout, schedule, zero, sequence, recompute = row[:6]
    words = [schedule.replace(":", " ")] if not layout.endswith(" x 1") else []
    words += [f"Z{zero}"] if zero != "0" else []
    words += ["SP"] if sequence == "yes" else []
    words += [recompute.replace("selective", "sel.")] if recompute != "none" else []
    title = f"{ranks} ranks: {layout}, {schedule}, ZeRO {zero}, sequence parallel {sequence}, recompute {recompute}"
    return (f'<g><title>{title}</title><rect x="{x}" y="{y}" width="93" height="40" rx="5"/>'
            f'<text x="{x + 46.5}" y="{y + 17}" class="a">{layout.replace(" x ", " × ")}</text>'
            f'<text x="{x + 46.5}" y="{y + 32}" class="b">{" ".join(words)}</text></g>')


def picture(table):
    rows = [match.groups() for match in map(ROW.match, table.splitlines()) if match]
    total = re.search(r"^== (\d+) of (\d+) layouts equal", table, re.MULTILINE)
    if not total or not len(rows) == int(total[1]) == int(total[2]) or len({row[6:] for row in rows}) != 1:
        sys.exit(f"{TABLE}: its rows are not {total[2] if total else 'any'} equal layouts")
    parts, y = [], 64
    for ranks, group in itertools.groupby(sorted(rows, key=lambda row: int(row[0])), key=lambda row: int(row[0])):
        parts.append(f'<text x="16" y="{y + 24}" class="r">{ranks} rank{"s" if ranks > 1 else ""}</text>')
        group = list(group)
        for place, row in enumerate(group):
            parts.append(box(row, LEFT + place % COLUMNS * STEP_X, y + place // COLUMNS * STEP_Y))
        y += -(-len(group) // COLUMNS) * STEP_Y + 10
    loss, weights = rows[0][6:]
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 {y + 30}" width="900" height="{y + 30}" role="img" '
            f'aria-label="{len(rows)} layouts of 1 to 8 ranks, all with the same loss and weights to the bit" font-family="system-ui, sans-serif">',
            f"<style>{STYLE}</style>", f'<rect class="bg" width="900" height="{y + 30}"/>',
            f'<text x="16" y="28" class="t">One config, {len(rows)} layouts, bitwise identical</text>',
            '<text x="16" y="48" class="f">data × tensor × pipeline ranks (2/4: messages in 4 tensor chunks); below: schedule, '
            "ZeRO stage/group (Z), sequence parallel (SP), recomputation</text>"]
    foot = [f'<text x="16" y="{y + 16}" class="f">All end with loss {loss} and weights of digest {weights} (scripts/layout_matrix.sh, fp32).</text>', "</svg>"]
    return "\n".join(head + parts + foot) + "\n"


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    os.chdir(ROOT)
    with open(TABLE, encoding="utf-8") as file:
        drawn = picture(file.read())
    if not sys.argv[1:]:
        with open(PICTURE, "w", encoding="utf-8") as file:
            file.write(drawn)
        return
    with open(PICTURE, encoding="utf-8") as file:
        if file.read() != drawn:
            sys.exit(f"{PICTURE} is not the picture of {TABLE}; python3 scripts/layout_picture.py draws it")


if __name__ == "__main__":
    main()
