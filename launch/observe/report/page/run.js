"use strict";
// The charts of one run.
const axes = {
  step: { label: "step", write: format.whole, of: (run) => run.step },
  items: { label: "tokens or images", write: format.number, of: (run) => run.seen },
  time: { label: "running time", write: format.duration, of: (run) => run.elapsed },
};

// By key of an evaluation; a run has those that fit its targets.
const qualityCharts = [
  ["accuracy", { title: "Validation accuracy", yLabel: "of the samples", write: format.percent }],
  ["mae", { title: "Validation mean absolute error", yLabel: "error", write: format.number }],
  ["vrmse", { title: "Validation VRMSE", yLabel: "error / deviation", write: format.number }],
  ["f1", { title: "Validation F1", yLabel: "mean over classes", write: format.percent }],
  ["auc", { title: "Validation AUC", yLabel: "under the ROC curve", write: format.percent }],
  ["mean_iou", { title: "Validation mean IoU", yLabel: "of the union", write: format.percent }],
  ["mean_dice", { title: "Validation mean dice", yLabel: "of both", write: format.percent }],
];

// A step's place on the axis, for values without a place.
function placeOf(run, axis, step) {
  const places = axis.of(run);
  let low = 0, high = run.step.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (run.step[middle] < step) low = middle + 1; else high = middle;
  }
  return axis === axes.step ? step : places[low];
}

function evaluationPlaces(run, axis) {
  return run.evaluations.step.map((step, i) => axis === axes.time ? run.evaluations.elapsed[i] : placeOf(run, axis, step));
}

const runCharts = {
  axisNow: axes.step,

  base(run, more) {
    const axis = runCharts.axisNow, label = axis === axes.items ? run.items + " seen" : axis.label;
    return Object.assign({ xLabel: label, xWrite: axis.write, write: format.number }, more);
  },

  // The mean, with the range over the steps of a point.
  series(parent, run, key, more) {
    const one = run.series[key];
    if (!one || (more.unlessZero && !one.mean.some((v) => v))) return;
    const xs = runCharts.axisNow.of(run), banded = one.min !== undefined;
    const series = [{ label: banded ? "mean" : more.label || more.title.toLowerCase(), index: more.index || 0 }], data = [xs, one.mean];
    if (banded) {
      data.push(one.max, one.min);
      const edge = { index: more.index || 0, width: 0.5, points: { show: false }, band: true };
      series.push(Object.assign({ label: "greatest", fill: 0.25 }, edge), Object.assign({ label: "least" }, edge));
    }
    charts.add(parent, runCharts.base(run, Object.assign({ data, series, bands: banded ? [{ series: [2, 3] }] : undefined }, more)));
  },

  loss(parent, run) {
    const one = run.series.loss;
    if (!one) return;
    const axis = runCharts.axisNow, xs = axis.of(run), banded = one.min !== undefined;
    const own = banded ? [xs, one.mean, one.max, one.min] : [xs, one.mean];
    const validation = run.evaluations.step.length > 0, tables = [own];
    if (validation) tables.push([evaluationPlaces(run, axis), run.evaluations.loss]);
    if (validation) tables[1] = runCharts.ascending(tables[1]);
    const edge = { index: 0, width: 0.5, points: { show: false }, band: true };
    const series = [{ label: "training", index: 0 }];
    if (banded) series.push(Object.assign({ label: "greatest", fill: 0.25 }, edge), Object.assign({ label: "least" }, edge));
    if (validation) series.push({ label: "validation", index: 1, width: 2, points: { show: run.evaluations.step.length < 60, size: 6 } });
    charts.add(parent, runCharts.base(run, { title: "Loss", data: uPlot.join(tables), series, yLabel: "loss", broad: true,
      bands: banded ? [{ series: [2, 3] }] : undefined, caption: runCharts.lossCaption(run) }));
  },

  // Besides the total loss: the qualities, and the loss of each source.
  validations(parent, run) {
    const places = evaluationPlaces(run, runCharts.axisNow), few = { show: places.length < 60, size: 6 };
    for (const [key, more] of qualityCharts) {
      if (!run.evaluations[key].some((v) => v != null)) continue;
      charts.add(parent, runCharts.base(run, Object.assign({ data: runCharts.ascending([places, run.evaluations[key]]),
        series: [{ label: key.replace("_", " "), index: 1, width: 2, points: few }] }, more)));
    }
    const sources = Object.entries(run.evaluations.sources);
    if (sources.length === 0) return;
    charts.add(parent, runCharts.base(run, { title: "Validation loss by source", data: uPlot.join(sources.map(([, losses]) => runCharts.ascending([places, losses]))), yLabel: "loss",
      series: sources.map(([label], index) => ({ label, index, width: 2, points: few })) }));
  },

  // uPlot needs strictly ascending places; a clock that was set back breaks that.
  ascending(table) {
    const rows = table[0].map((x, i) => [x, table[1][i]]).filter(([x]) => x != null).sort((a, b) => a[0] - b[0]);
    const once = rows.filter((row, i) => i + 1 === rows.length || rows[i + 1][0] !== row[0]);
    return [once.map((row) => row[0]), once.map((row) => row[1])];
  },

  lossCaption(run) {
    const parts = [];
    if (run.stride > 1) parts.push("Every point is " + format.whole(run.stride) + " steps: their mean, and the range from the least to the greatest.");
    if (run.non_finite.count > 0) parts.push("NaN or infinite in " + format.whole(run.non_finite.count) + " steps: " + run.non_finite.first.slice(0, 8).map(format.whole).join(", ") + (run.non_finite.count > 8 ? ", ..." : "") + ".");
    if (run.skipped.count > 0) parts.push(format.whole(run.skipped.count) + " batches were skipped because the loss leapt, first at step " + format.whole(run.skipped.first[0].step) + ".");
    return parts.join(" ");
  },

  phases(parent, run) {
    const known = run.phases.filter(([key]) => run.series[key] && run.series[key].mean.some((v) => v > 0));
    if (known.length === 0) return;
    const original = known.map(([key]) => run.series[key].mean);
    const { data, bands } = charts.stacked([runCharts.axisNow.of(run), ...original]);
    const failed = run.failed_saves.count > 0 ? " " + format.whole(run.failed_saves.count) + " checkpoints could not be written." : "";
    charts.add(parent, runCharts.base(run, { title: "A step by its parts", data, bands, series: runCharts.parts(known.map(([, name]) => name)), original, zero: true, yLabel: "ms per step", write: format.milliseconds, axisWrite: format.number,
      broad: true, caption: "Mean over the ranks; the parts add up to the step, with what lies between steps on top of it." + failed }));
  },

  parts(names) {
    return names.map((label) => ({ label, index: label, fill: 0.75, width: 0.5, points: { show: false } }));
  },

  // Includes time between steps, by cause; in windows of seconds.
  windows(parent, run) {
    if (!run.windows || run.windows.last.length < 2) return;
    const known = Object.entries(run.windows.parts).filter(([, values]) => values.some((v) => v > 0)), original = known.map(([, values]) => values);
    const { data, bands } = charts.stacked([run.windows.last, ...original]);
    charts.add(parent, { title: "All time by its causes", xLabel: "step", xWrite: format.whole, data, bands, series: runCharts.parts(known.map(([name]) => name)), original, zero: true,
      yLabel: "ms per step", write: format.milliseconds, axisWrite: format.number, broad: true, caption: "Mean over the ranks, by window of steps; checkpoints and evaluations included." });
  },

  memory(parent, run) {
    const memory = run.memory;
    if (!memory) return;
    const xs = memory.names.map((_, i) => i), bars = (shift) => uPlot.paths.bars({ size: [0.38, 60], align: shift });
    charts.add(parent, { title: "Memory per rank, at most", xLabel: "use", yLabel: "MiB", xWrite: (i) => memory.names[i] === undefined ? "" : memory.names[i], write: (v) => v == null ? "–" : format.number(v) + " MiB", axisWrite: format.number,
      zero: true, x: { range: (u, low, high) => [low - 0.5, high + 0.5] }, xAxis: { label: null, labelSize: 0, incrs: [1], space: 10, rotate: -40, size: 76 }, height: 300,
      data: [xs, memory.planned, memory.measured], caption: "Planned from the config before the run, and what it held.",
      series: [{ label: "planned", index: 7, fill: 0.8, paths: bars(-1), points: { show: false } }, { label: "measured", index: 0, fill: 0.8, paths: bars(1), points: { show: false } }] });
  },

  ranks(parent, run) {
    for (const map of run.heat || []) {
      heatmap.add(parent, Object.assign({}, map, {
        rowLabel: "rank", rowMark: (row) => format.whole(row * map.ranks_per_row),
        rowName: (row) => map.ranks_per_row > 1 ? "ranks " + row * map.ranks_per_row + " to " + ((row + 1) * map.ranks_per_row - 1) :
          "rank " + row + (run.hosts[row] === undefined ? "" : " on " + run.hosts[row]) }));
    }
  },

  titles: { reduce_ms: "Reduction of gradients", joules: "Energy of a step", loss_scale: "Loss scale", skipped_steps: "Skipped steps", noise_scale: "Gradient noise scale",
    expert_max_over_mean: "Experts: highest load by the mean", dead_experts: "Experts without a token", expert_passes_in_rounds: "Passes in several rounds",
    expert_rows_off_rank: "Rows of experts that leave their rank", expert_rows_off_node: "Rows of experts that leave their host", expert_rank_load: "Ranks: highest load of experts by the mean", spikes: "Spikes so far", non_finite_steps: "Steps that were not finite" },

  // All series without a chart, so that those of later versions are shown too.
  others(parent, run) {
    const shown = new Set(["loss", "lr", "grad_norm", "step_ms", run.items + "_per_s", run.items + "_seen", "epoch", "elapsed_s", "mfu", "model_gflops_per_s", "goodput", "targets",
      "core_wait_ms", "expert_passes", ...run.phases.map(([key]) => key)]);
    for (const key of Object.keys(run.series)) {
      if (shown.has(key) || !run.series[key].mean.some((v) => v)) continue;
      runCharts.series(parent, run, key, { title: runCharts.titles[key] || key.replace(/_/g, " "), label: runCharts.titles[key], write: key.endsWith("_ms") ? format.milliseconds : format.number, axisWrite: format.number, yLabel: key.endsWith("_ms") ? "ms" : undefined });
    }
  },

  draw(parent, run) {
    charts.forget(parent);
    if (run.step.length === 0) return;
    const grid = element("div", { class: "charts" });
    parent.append(grid);
    runCharts.loss(grid, run);
    runCharts.validations(grid, run);
    runCharts.series(grid, run, run.items + "_per_s", { title: "Throughput", yLabel: run.items + " per second", zero: true });
    runCharts.series(grid, run, "lr", { title: "Learning rate", label: "learning rate", zero: true, exact: true });
    runCharts.series(grid, run, "grad_norm", { title: "Gradient norm", caption: "Before clipping." });
    runCharts.series(grid, run, "goodput", { title: "Goodput", write: format.percent, exact: true, yScale: { range: () => [0, 1.02] }, yLabel: "of the time so far",
      caption: "Time of new steps in all of the time since the first line, stops and repeated steps included." });
    runCharts.phases(grid, run);
    runCharts.windows(grid, run);
    runCharts.ranks(grid, run);
    runCharts.memory(grid, run);
    runCharts.others(grid, run);
  },
};
