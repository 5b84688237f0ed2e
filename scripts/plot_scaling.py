#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plots a scaling study as PNG from the output of `trireme scale`. Needs matplotlib.

    python3 scripts/plot_scaling.py scaling [--out DIRECTORY]

Takes the study's directory or its scaling.json. Writes throughput_MODE.png, efficiency_MODE.png and losses_MODE.png for
each mode of the study beside scaling.json.
"""
import argparse
import json
import math
import pathlib
import sys

LOSSES = ["exposed_comm", "bubble", "data_wait", "straggler", "cpu_contention", "compute_slowdown"]
# Colours that most colour-blind readers can distinguish (Okabe and Ito, 2008).
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#882255", "#e69f00"]


def curve_of(point):
    axes = [f"{axis} {point[axis]}" for axis in ("tensor", "pipeline") if point[axis] > 1]
    if max(shared := point.get("spatial", [1])) > 1:
        axes.append("spatial " + " x ".join(map(str, shared)))
    return ", ".join(axes) or "data parallel"


def curves(points):
    by_name = {}
    for point in points:
        by_name.setdefault(curve_of(point), []).append(point)
    return by_name.items()


def spaced(values, least):
    """Drops ascending values whose base-2 logarithms are closer than the limit; first and last stay."""
    kept = values[:1]
    for value in values[1:-1]:
        if math.log2(value / kept[-1]) >= least and math.log2(values[-1] / value) >= least:
            kept.append(value)
    return kept + values[-1:] if len(values) > 1 else kept


def nice_ticks(low, high):
    """1, 2 and 5 times powers of ten around low to high, finer where those are fewer than four."""
    exponent = math.floor(math.log10(low))
    for digits in ([1, 2, 5], [1, 1.5, 2, 3, 4, 5, 6, 8], [1 + i / 10 for i in range(90)]):
        ticks = [digit * 10**power for power in range(exponent - 1, math.ceil(math.log10(high)) + 2) for digit in digits]
        below = max(tick for tick in ticks if tick <= low)
        above = min(tick for tick in ticks if tick >= high)
        found = [tick for tick in ticks if below <= tick <= above]
        if len(found) >= 4:
            return found[:: math.ceil(len(found) / 9)]
    return found


def rank_axis(axes, points):
    ranks = sorted({point["ranks"] for point in points})
    shown = spaced(ranks, max(0.2, math.log2(ranks[-1] / ranks[0]) / 16))
    axes.set_xscale("log", base=2)
    axes.set_xticks(shown, [str(count) for count in shown])
    axes.minorticks_off()
    axes.set_xlim(ranks[0] / 1.2, ranks[-1] * 1.2)
    axes.set_xlabel("ranks")
    axes.grid(alpha=0.3)


def beside(points, name):
    """Offsets on the rank axis, so that points at the same ranks do not overlap."""
    names = [curve for curve, _ in curves(points)]
    return lambda rank: rank * 2 ** (0.04 * (names.index(name) - (len(names) - 1) / 2))


def whiskers(points, key, scale):
    spread = [point[key] for point in points]
    return [[scale(p, s["median"] - s["least"]) for p, s in zip(points, spread)],
            [scale(p, s["most"] - s["median"]) for p, s in zip(points, spread)]]


def plot_throughput(axes, points, items):
    def per_second(point, samples):
        return samples * point[f"{items}_per_second"] / point["samples_per_second"]["median"]

    for name, curve in curves(points):
        place = beside(points, name)
        axes.errorbar([place(p["ranks"]) for p in curve], [p[f"{items}_per_second"] for p in curve],
                      yerr=whiskers(curve, "samples_per_second", per_second), marker="o", capsize=3, label=name)
    base = points[0]
    ranks = sorted({point["ranks"] for point in points})
    axes.plot(ranks, [base[f"{items}_per_second"] * count / base["ranks"] for count in ranks], "--", color="grey",
              label="ideal")
    rates = [rate * point[f"{items}_per_second"] / point["samples_per_second"]["median"]
             for point in points for rate in point["samples_per_second"].values()]
    rates += [base[f"{items}_per_second"] * ranks[-1] / base["ranks"]]
    ticks = nice_ticks(min(rates), max(rates))
    axes.set_yscale("log", base=2)
    axes.set_yticks(ticks, [f"{tick:,.6g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_ylim(ticks[0] / 1.03, max(ticks[-1], max(rates)) * 1.03)
    axes.set_ylabel(f"{items} per second")
    rank_axis(axes, points)


def plot_efficiency(axes, points, _):
    for name, curve in curves(points):
        place = beside(points, name)
        axes.errorbar([place(p["ranks"]) for p in curve], [100 * p["efficiency"]["median"] for p in curve],
                      yerr=whiskers(curve, "efficiency", lambda _, share: 100 * share), marker="o", capsize=3, label=name)
    axes.axhline(100, linestyle="--", color="grey", label="ideal")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("efficiency, %")
    rank_axis(axes, points)


def plot_losses(axes, points, _):
    places = range(len(points))
    above, below = [0.0] * len(points), [0.0] * len(points)
    for loss, colour in zip(LOSSES, COLOURS):
        for place, point in zip(places, points):
            share = 100 * point["loss_seconds"].get(loss, 0) / point["step_seconds"]
            base = above if share > 0 else below
            axes.bar(place, share, 0.6, bottom=base[place], color=colour,
                     label=loss.replace("_", " ") if place == 0 else None)
            base[place] += share
    axes.axhline(0, color="black", linewidth=0.8)
    labels = [f"{p['ranks']}{'*' if p.get('shares_cores') else ''}  {p['layout'].replace(':', ' ')}" for p in points]
    crowded = len(points) * max(map(len, labels)) > 70
    axes.set_xticks(list(places), labels, fontsize=8, rotation=35 if crowded else 0, ha="right" if crowded else "center",
                    rotation_mode="anchor")
    axes.set_xlim(-0.6, len(points) - 0.4)
    axes.set_xlabel("ranks and layout" + ("; * more ranks than cores" if any(p.get("shares_cores") for p in points) else ""))
    axes.set_ylabel("lost efficiency, % of the step")


def read_report(path):
    """The study's report; exits with a message if there is none."""
    if path.is_dir():
        path = path / "scaling.json"
    try:
        report = json.loads(path.read_text())
        modes = {point["mode"] for point in report["points"]}
    except OSError as error:
        sys.exit(f"{path}: {error.strerror}; give the directory that trireme scale wrote, or its scaling.json")
    except (ValueError, KeyError, TypeError):
        sys.exit(f"{path}: is no report of trireme scale; give its scaling.json")
    if not any("efficiency" in point for point in report["points"]):
        sys.exit(f"{path}: no run of this study ended well, so there is nothing to draw ({', '.join(sorted(modes))})")
    return report, path


def place_of(report):
    """Host and time, for the line below the title."""
    if not report.get("hosts"):
        return ""
    hosts = report["hosts"][0] + (f" and {len(report['hosts']) - 1} more" if len(report["hosts"]) > 1 else "")
    return f"{hosts}: {report['cpus'][0]}, {report['cores_per_host']} cores, {report['first_run_started'][:10]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=pathlib.Path, help="directory of a study, or its scaling.json")
    parser.add_argument("--out", type=pathlib.Path, help="directory of the pictures (default: the report's)")
    arguments = parser.parse_args()
    report, path = read_report(arguments.report)
    try:
        import matplotlib
    except ImportError:
        sys.exit("plot_scaling.py needs matplotlib: python3 -m pip install matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    out = arguments.out or path.parent
    out.mkdir(parents=True, exist_ok=True)
    for mode in ("weak", "strong"):
        points = [point for point in report["points"] if point["mode"] == mode and "efficiency" in point]
        if not points:
            continue
        for name, plot in (("throughput", plot_throughput), ("efficiency", plot_efficiency), ("losses", plot_losses)):
            figure, axes = pyplot.subplots(figsize=(8.5, 4.2), constrained_layout=True)
            plot(axes, points, report["items"])
            axes.set_title(f"{report['config']}: {mode} scaling, {name}\n{place_of(report)}".strip(), fontsize=10)
            axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0)
            picture = out / f"{name}_{mode}.png"
            figure.savefig(picture, dpi=150)
            pyplot.close(figure)
            print(picture)


if __name__ == "__main__":
    main()
