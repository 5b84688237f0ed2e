"use strict";
// An ablation (trireme ablate): learning curves of variants, means over seeds.
const ablation = {
  axes: {
    steps: { label: "step", write: format.whole, of: (curve) => curve.steps },
    items: { label: "", write: format.number, of: (curve) => curve.items },
    seconds: { label: "time of steps and evaluations", write: format.duration, of: (curve) => curve.seconds },
    cost: { label: "rank hours", write: format.number, of: (curve, data) => curve.seconds.map((v) => v * data.ranks / 3600) },
  },

  // The first losses are far above the differences between variants; the initial view cuts them off.
  late(tables) {
    const most = Math.max(...tables.flatMap(([, losses]) => losses.slice(Math.ceil(losses.length / 10))).filter((v) => v != null));
    return { range: (u, low, high) => charts.range(low, low < most ? Math.min(high, most) : high) };
  },

  // A variant has one colour in all charts.
  curves(parent, data, axis, key, options) {
    const having = data.variants.map((one, index) => [one, index]).filter(([one]) => one[key].loss.some((v) => v != null));
    if (having.length === 0) return;
    const tables = having.map(([one]) => runCharts.ascending([axis.of(one[key], data), one[key].loss]));
    charts.add(parent, Object.assign({ data: uPlot.join(tables), xLabel: axis.label || data.items + " seen", xWrite: axis.write, write: format.number, yLabel: "loss",
      yScale: key === "training" ? ablation.late(tables) : undefined, series: having.map(([one, index]) => ({ label: one.name, index, width: index === 0 ? 2.5 : 1.5, dash: index >= 9 ? [6, 3] : undefined,
        points: { show: one[key].loss.length < 40, size: 5 } })) }, options));
  },

  draw(parent, data, axis) {
    charts.forget(parent);
    const grid = element("div", { class: "charts" });
    parent.append(grid);
    ablation.curves(grid, data, axis, "evaluations", { title: "Validation loss", broad: true, caption: "Means over the seeds." });
    ablation.curves(grid, data, axis, "training", { title: "Training loss", broad: true, caption: "Means over the seeds and the steps of each point; the first tenth may lie above the chart." });
  },

  open(data) {
    const place = document.getElementById("ablation"), choice = document.getElementById("axis");
    const draw = () => ablation.draw(place, data, ablation.axes[choice.value]);
    choice.addEventListener("change", draw);
    draw();
    document.documentElement.dataset.drawn = String(charts.all.length);
  },
};
