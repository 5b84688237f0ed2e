"use strict";
// An ablation (trireme ablate): learning curves of variants, means over seeds, and their differences to the base.
const ablation = {
  axes: {
    steps: { label: "step", write: format.whole, of: (curve) => curve.steps },
    items: { label: "", write: format.number, of: (curve) => curve.items },
    seconds: { label: "time of steps and evaluations", write: format.duration, of: (curve) => curve.seconds },
    cost: { label: "rank hours", write: format.number, of: (curve, data) => curve.seconds.map((v) => v * data.ranks / 3600) },
  },

  // Beginnings are far above where variants part; they run off the top until somebody looks at them.
  late(tables) {
    const most = Math.max(...tables.flatMap(([, losses]) => losses.slice(Math.ceil(losses.length / 10))).filter((v) => v != null));
    return { range: (u, low, high) => charts.range(low, low < most ? Math.min(high, most) : high) };
  },

  // A variant keeps its colour in every chart.
  curves(parent, data, axis, key, options) {
    const having = data.variants.map((one, index) => [one, index]).filter(([one]) => one[key].loss.some((v) => v != null));
    if (having.length === 0) return;
    const tables = having.map(([one]) => runCharts.ascending([axis.of(one[key], data), one[key].loss]));
    charts.add(parent, Object.assign({ data: uPlot.join(tables), xLabel: axis.label || data.items + " seen", xWrite: axis.write, write: format.number, yLabel: "loss",
      yScale: key === "training" ? ablation.late(tables) : undefined, series: having.map(([one, index]) => ({ label: one.name, index, width: index === 0 ? 2.5 : 1.5, dash: index >= 9 ? [6, 3] : undefined,
        points: { show: one[key].loss.length < 40, size: 5 } })) }, options));
  },

  // A row of points per variant: its mean with its interval, and its seeds.
  differences(parent, data) {
    const shown = data.variants.filter((one) => one.difference);
    if (shown.length === 0) return;
    const seeds = shown.map((one) => one.by_seed), most = Math.max(...seeds.map((values) => values.length));
    const draw = (u) => {
      u.ctx.save();
      u.ctx.lineWidth = 2 * devicePixelRatio;
      u.ctx.strokeStyle = theme.get("c1");
      u.ctx.setLineDash([]);
      shown.forEach((one, i) => {
        const [, low, high] = one.difference;
        if (low == null || !u.series[1].show) return;
        charts.whisker(u, u.valToPos(i, "x", true), low, high, 5 * devicePixelRatio);
      });
      u.ctx.restore();
    };
    const all = shown.flatMap((one) => [...one.difference, ...one.by_seed, 0]).filter((v) => v != null);
    const columns = Array.from({ length: most }, (_, s) => seeds.map((values) => values[s] === undefined ? null : values[s]));
    const dots = (index, size) => ({ width: 0, points: { show: true, size }, paths: () => null, index });
    charts.add(parent, { title: "Difference to the base at equal steps", broad: true, xLabel: "variants as in the table", yLabel: "metric less the base's",
      caption: "Below zero: better than the base with the same seed. Mean over the seeds, whiskers the 95 % interval of Student's t; small points are the seeds.",
      xWrite: (i) => shown[i] === undefined ? "" : String(i + 1), write: format.number, read: (i) => shown[i].name + ": " + shown[i].difference.map(format.number).join(", "),
      xAxis: { incrs: [1, 2, 5, 10, 20, 50] }, x: { range: (u, low, high) => [Math.round(low) - 0.6, Math.round(high) + 0.6] },
      yScale: { range: () => charts.range(Math.min(...all), Math.max(...all)) }, hooks: { draw: [draw] },
      data: [shown.map((_, i) => i), shown.map((one) => one.difference[0]), ...columns, shown.map(() => 0)],
      series: [Object.assign({ label: "mean" }, dots(1, 10)), ...columns.map((_, s) => Object.assign({ label: "seed " + (s + 1) }, dots(0, 5))),
        { label: "base", stroke: () => theme.get("soft"), dash: [6, 4], points: { show: false } }] });
  },

  draw(parent, data, axis) {
    charts.forget(parent);
    const grid = element("div", { class: "charts" });
    parent.append(grid);
    ablation.curves(grid, data, axis, "evaluations", { title: "Validation loss", broad: true, caption: "Means over the seeds." });
    ablation.curves(grid, data, axis, "training", { title: "Training loss", broad: true, caption: "Means over the seeds and the steps of each point; the first tenth may lie above the chart." });
    ablation.differences(grid, data);
  },

  open(data) {
    const place = document.getElementById("ablation"), choice = document.getElementById("axis");
    const draw = () => ablation.draw(place, data, ablation.axes[choice.value]);
    choice.addEventListener("change", draw);
    draw();
    document.documentElement.dataset.drawn = String(charts.all.length);
  },
};
