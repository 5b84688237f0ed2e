"use strict";
// Several runs in one chart for each series.
const comparison = {
  chart(parent, runs, key, more) {
    const keyOf = (run) => typeof key === "function" ? key(run) : key;
    const having = runs.map((run, index) => [run, index]).filter(([run]) => run.series[keyOf(run)] && run.step.length > 0);
    if (having.length === 0) return;
    const axis = runCharts.axisNow;
    const tables = having.map(([run]) => runCharts.ascending([axis.of(run), run.series[keyOf(run)].mean]));
    charts.add(parent, Object.assign({ data: uPlot.join(tables), xLabel: axis.label, xWrite: axis.write, write: format.number,
      series: having.map(([run, index]) => ({ label: run.name, index, dash: index >= 9 ? [6, 3] : undefined, points: { show: false } })) }, more));
  },

  validation(parent, runs) {
    const having = runs.map((run, index) => [run, index]).filter(([run]) => run.evaluations.step.length > 0 && run.step.length > 0);
    if (having.length === 0) return;
    const axis = runCharts.axisNow;
    const tables = having.map(([run]) => runCharts.ascending([run.evaluations.step.map((step, i) => axis === axes.time ? run.evaluations.elapsed[i] : placeOf(run, axis, step)), run.evaluations.loss]));
    charts.add(parent, { title: "Validation loss", data: uPlot.join(tables), xLabel: axis.label, xWrite: axis.write, write: format.number, yLabel: "loss",
      series: having.map(([run, index]) => ({ label: run.name, index, width: 2 })) });
  },

  draw(parent, runs) {
    charts.forget(parent);
    const grid = element("div", { class: "charts" });
    parent.append(grid);
    comparison.chart(grid, runs, "loss", { title: "Training loss", yLabel: "loss", broad: true, caption: "Means of the steps of each point." });
    comparison.validation(grid, runs);
    comparison.chart(grid, runs, (run) => run.items + "_per_s", { title: "Throughput", yLabel: "items per second", zero: true });
    comparison.chart(grid, runs, "step_ms", { title: "Step time", yLabel: "ms", zero: true, write: format.milliseconds, axisWrite: format.number });
    comparison.chart(grid, runs, "mfu", { title: "Model FLOPs utilisation", yLabel: "of the peak", zero: true, write: format.percent });
    comparison.chart(grid, runs, "lr", { title: "Learning rate", zero: true });
    comparison.chart(grid, runs, "grad_norm", { title: "Gradient norm" });
  },
};
