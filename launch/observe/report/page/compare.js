"use strict";
// Several runs in one chart for each series.
const comparison = {
  // Equal curves hide each other: the second is labelled as equal and drawn dashed on top.
  curves(having, tables, more) {
    const written = tables.map((table) => JSON.stringify(table));
    return having.map(([run, index], i) => {
      const first = written.indexOf(written[i]);
      return Object.assign({ label: run.name + (first < i ? " (same as " + having[first][0].name + ")" : ""), index, dash: first < i ? [4, 8] : index >= 9 ? [6, 3] : undefined }, more);
    });
  },

  chart(parent, runs, key, more) {
    const keyOf = (run) => typeof key === "function" ? key(run) : key;
    const having = runs.map((run, index) => [run, index]).filter(([run]) => run.series[keyOf(run)] && run.step.length > 0);
    if (having.length === 0) return;
    const axis = runCharts.axisNow;
    const tables = having.map(([run]) => runCharts.ascending([axis.of(run), run.series[keyOf(run)].mean]));
    charts.add(parent, Object.assign({ data: uPlot.join(tables), xLabel: axis.label, xWrite: axis.write, write: format.number,
      series: comparison.curves(having, tables, { points: { show: false } }) }, more));
  },

  validation(parent, runs, key, more) {
    const having = runs.map((run, index) => [run, index]).filter(([run]) => run.evaluations[key].some((v) => v != null) && run.step.length > 0);
    if (having.length === 0) return;
    const axis = runCharts.axisNow;
    const tables = having.map(([run]) => runCharts.ascending([evaluationPlaces(run, axis), run.evaluations[key]]));
    charts.add(parent, Object.assign({ data: uPlot.join(tables), xLabel: axis.label, xWrite: axis.write, write: format.number,
      series: comparison.curves(having, tables, { width: 2 }) }, more));
  },

  draw(parent, runs) {
    charts.forget(parent);
    const grid = element("div", { class: "charts" });
    parent.append(grid);
    comparison.chart(grid, runs, "loss", { title: "Training loss", yLabel: "loss", broad: true, caption: "Means of the steps of each point." });
    comparison.validation(grid, runs, "loss", { title: "Validation loss", yLabel: "loss" });
    for (const [key, more] of qualityCharts) comparison.validation(grid, runs, key, more);
    comparison.chart(grid, runs, (run) => run.items + "_per_s", { title: "Throughput", yLabel: "items per second", zero: true });
    comparison.chart(grid, runs, "step_ms", { title: "Step time", yLabel: "ms", zero: true, write: format.milliseconds, axisWrite: format.number });
    comparison.chart(grid, runs, "mfu", { title: "Model FLOPs utilisation", yLabel: "of the peak", zero: true, write: format.percent });
    comparison.chart(grid, runs, "lr", { title: "Learning rate", zero: true, exact: true });
    comparison.chart(grid, runs, "grad_norm", { title: "Gradient norm" });
  },
};
