#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plots of a scaling study as PNG, from what `trireme scale` wrote. Needs matplotlib.

    python3 scripts/plot_scaling.py scaling/scaling.json [--out DIRECTORY]

Writes throughput_MODE.png, efficiency_MODE.png and losses_MODE.png for each mode of the study beside scaling.json.
"""
import argparse
import json
import pathlib
import sys

LOSSES = ["exposed_comm", "bubble", "data_wait", "straggler", "compute_slowdown"]
# Colours that remain apart for most colour-blind readers (Okabe and Ito, 2008).
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00"]


def curve_of(point):
    axes = [f"{axis} {point[axis]}" for axis in ("tensor", "pipeline") if point[axis] > 1]
    return ", ".join(axes) or "data parallel"


def curves(points):
    by_name = {}
    for point in points:
        by_name.setdefault(curve_of(point), []).append(point)
    return by_name.items()


def rank_axis(axes, points):
    ranks = sorted({point["ranks"] for point in points})
    axes.set_xscale("log", base=2)
    axes.set_xticks(ranks, [str(count) for count in ranks])
    axes.minorticks_off()
    axes.set_xlabel("ranks")
    axes.grid(alpha=0.3)


def whiskers(points, key, scale):
    spread = [point[key] for point in points]
    return [[scale(p, s["median"] - s["least"]) for p, s in zip(points, spread)],
            [scale(p, s["most"] - s["median"]) for p, s in zip(points, spread)]]


def plot_throughput(axes, points, items):
    def per_second(point, samples):
        return samples * point[f"{items}_per_second"] / point["samples_per_second"]["median"]

    for name, curve in curves(points):
        axes.errorbar([p["ranks"] for p in curve], [p[f"{items}_per_second"] for p in curve],
                      yerr=whiskers(curve, "samples_per_second", per_second), marker="o", capsize=3, label=name)
    base = points[0]
    ranks = sorted({point["ranks"] for point in points})
    axes.plot(ranks, [base[f"{items}_per_second"] * count / base["ranks"] for count in ranks], "--", color="grey",
              label="ideal")
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_ylabel(f"{items} per second")
    rank_axis(axes, points)


def plot_efficiency(axes, points, _):
    for name, curve in curves(points):
        axes.errorbar([p["ranks"] for p in curve], [100 * p["efficiency"]["median"] for p in curve],
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
            share = 100 * point["loss_seconds"][loss] / point["step_seconds"]
            base = above if share > 0 else below
            axes.bar(place, share, 0.6, bottom=base[place], color=colour,
                     label=loss.replace("_", " ") if place == 0 else None)
            base[place] += share
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_xticks(list(places), [f"{p['ranks']}\n{p['layout']}" for p in points], fontsize=7)
    axes.set_ylabel("lost efficiency, % of the step")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=pathlib.Path, help="scaling.json of trireme scale")
    parser.add_argument("--out", type=pathlib.Path, help="directory of the pictures (default: the report's)")
    arguments = parser.parse_args()
    try:
        import matplotlib
    except ImportError:
        sys.exit("plot_scaling.py needs matplotlib: python3 -m pip install matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    report = json.loads(arguments.report.read_text())
    out = arguments.out or arguments.report.parent
    out.mkdir(parents=True, exist_ok=True)
    for mode in ("weak", "strong"):
        points = [point for point in report["points"] if point["mode"] == mode and "efficiency" in point]
        if not points:
            continue
        for name, plot in (("throughput", plot_throughput), ("efficiency", plot_efficiency), ("losses", plot_losses)):
            figure, axes = pyplot.subplots(figsize=(7, 4.2), constrained_layout=True)
            plot(axes, points, report["items"])
            axes.set_title(f"{report['config']}: {mode} scaling, {name}", fontsize=10)
            axes.legend(fontsize=8)
            path = out / f"{name}_{mode}.png"
            figure.savefig(path, dpi=150)
            pyplot.close(figure)
            print(path)


if __name__ == "__main__":
    main()
