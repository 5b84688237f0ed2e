"use strict";
// One chart: a figure with a uPlot canvas, keys to move its cursor, and its numbers as a table.
const charts = {
  all: [],
  // Round intervals in seconds.
  durations: [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 18000, 36000, 86400, 172800, 432000, 864000, 2592000],

  // Counts have no fractions.
  wholes: Array.from({ length: 15 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat(),

  // All labels of an axis in one format.
  clocks(u, splits) {
    const write = Math.max(...splits) < 10 ? format.duration : format.clock;
    return splits.map((v) => v == null ? "" : write(v));
  },

  axis(label, write, more) {
    return Object.assign({
      label, labelSize: label ? 18 : 0, labelFont: "12px system-ui, sans-serif", font: "12px system-ui, sans-serif",
      stroke: () => theme.get("soft"), grid: { stroke: () => theme.get("grid"), width: 1 },
      ticks: { stroke: () => theme.get("grid"), width: 1 },
      values: (u, splits) => write === format.number || write === format.whole ? format.axis(splits) : splits.map((v) => v == null ? "" : write(v)),
    }, more);
  },

  // The reader's settings for curves: smoothing (0: none), without outliers, logarithmic.
  view: { smoothing: 0, outliers: true, log: false },

  // After the axis selector.
  toolbar(bar) {
    const smoothing = element("select", { id: "smoothing", autocomplete: "off" });
    for (const [value, name] of [[0, "none"], [0.6, "some"], [0.9, "much"], [0.97, "very much"]]) smoothing.append(element("option", { value }, name));
    const box = (name, change) => {
      const input = element("input", { type: "checkbox", autocomplete: "off" });
      input.addEventListener("change", () => { change(input.checked); charts.all.forEach(charts.draw); });
      return element("label", {}, input, " " + name);
    };
    smoothing.addEventListener("change", () => { charts.view.smoothing = Number(smoothing.value); charts.all.forEach(charts.draw); });
    bar.querySelector("select").after(element("span", {}, element("label", { for: "smoothing" }, "Smoothing "), smoothing),
      box("without outliers", (on) => { charts.view.outliers = !on; }), box("logarithmic", (on) => { charts.view.log = on; }));
  },

  // A debiased exponential mean with `weight`, like TensorBoard's.
  smoothed(values, weight) {
    let sum = 0, count = 0;
    return values.map((v) => {
      if (v == null) return v;
      sum = weight * sum + (1 - weight) * v;
      count = weight * count + (1 - weight);
      return sum / count;
    });
  },

  // The range of the middle 90 % of the values.
  middle(columns) {
    const all = columns.flat().filter((v) => v != null).sort((a, b) => a - b), at = (share) => all[Math.round(share * (all.length - 1))];
    return all.length < 20 ? null : [at(0.05), at(0.95)];
  },

  // Ticks of a logarithmic axis: as on a linear one below a decade, else 1, 2 and 5 of each decade.
  logarithmic(u, axis, low, high) {
    const marks = [], size = 10 ** Math.floor(Math.log10(high - low));
    if (high < 10 * low) {
      const step = [0.1, 0.2, 0.5, 1, 2].map((v) => v * size).find((v) => (high - low) / v <= 6);
      for (let v = Math.ceil(low / step); v * step <= high; ++v) marks.push(+(v * step).toPrecision(6));
      return marks;
    }
    const digits = high > 1e4 * low ? [1] : [1, 2, 5];
    for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; ++power)
      for (const digit of digits) marks.push(+(digit * 10 ** power).toPrecision(6));
    return marks.filter((v) => v >= low && v <= high);
  },

  // Applies the reader's settings to `options`; stacks, bars and exact values are unchanged.
  wanted(options) {
    const { smoothing, outliers, log } = charts.view;
    if (options.original || options.exact || options.series.some((one) => one.paths)) return options;
    const shown = options.series.map((one, s) => [one, options.data[s + 1]]);
    const lines = shown.filter(([one]) => !one.band), positive = lines.every(([, values]) => values.every((v) => v == null || v > 0));
    const changed = Object.assign({}, options, { log: log && positive && !options.zero });
    // A few evaluations are not smoothed.
    const noisy = (one, values) => !one.band && values.filter((v) => v != null).length > 50;
    if (smoothing > 0) {
      changed.data = [options.data[0], ...shown.map(([one, values]) => noisy(one, values) ? charts.smoothed(values, smoothing) : values)];
      const measured = lines.length <= 3 ? lines.filter(([one, values]) => noisy(one, values)) : [];  // shown behind the mean
      changed.data.push(...measured.map(([, values]) => values));
      changed.series = [...options.series, ...measured.map(([one]) => ({ label: one.label + ", as measured", stroke: theme.faded(one.index, 0.3), width: 1, points: { show: false }, band: true, more: { class: "measured" } }))];
    }
    const noise = lines.filter(([one, values]) => noisy(one, values)).map(([, values]) => values);
    const few = lines.filter(([one, values]) => !noisy(one, values)).flatMap(([, values]) => values.filter((v) => v != null));
    let range = outliers || options.yScale ? null : charts.middle(noise);
    if (range) range = [Math.min(range[0], ...few), Math.max(range[1], ...few)];
    if (changed.log) Object.assign(changed, { yScale: { range: (u, low, high) => [low / 1.03, high * 1.03] }, 
      yAxis: { splits: charts.logarithmic, filter: (u, splits) => splits, values: (u, splits) => splits.map(format.number) } });
    if (range) changed.yScale = { range: () => changed.log ? range : charts.range(...range, options.zero) };
    return changed;
  },

  // options: {title, caption, xLabel, xWrite, yLabel, write, log, broad, height, series: [{label, index, dash, fill, band, points, hidden}],
  // data: [xs, ys...], zero: start y at 0, bands, plugins, paths, read: (i) => text for screen readers, x: uPlot's scale options}
  add(parent, options) {
    const plot = element("div", { class: "plot", tabindex: "0", role: "img" });
    const figure = element("figure", options.broad ? { class: "broad" } : {}, element("h3", {}, options.title), plot);
    if (options.caption) figure.append(element("figcaption", {}, options.caption));
    parent.append(figure);
    plot.setAttribute("aria-label", options.title + ". Arrow keys move the cursor; the numbers follow as a table.");
    const live = element("p", { class: "readout soft", "aria-live": "polite" });
    const chart = { options, plot, figure, live, uplot: null };
    figure.append(live);
    charts.draw(chart);
    charts.keys(chart);
    figure.append(charts.table(chart));
    charts.all.push(chart);
    return chart;
  },

  draw(chart) {
    const { plot } = chart, options = charts.wanted(chart.options);
    if (chart.uplot) chart.uplot.destroy();
    const width = charts.width(plot);
    const yScale = { distr: options.log ? 3 : 1 }, yLabel = (options.yLabel || "") + (options.log ? (options.yLabel ? ", " : "") + "logarithmic" : "");
    if (!options.log) yScale.range = (u, low, high) => charts.range(low, high, options.zero);
    Object.assign(yScale, options.yScale);
    const steps = options.xWrite === format.duration ? charts.durations : options.xWrite === format.whole ? charts.wholes : null;
    const xAxis = Object.assign(steps ? { incrs: steps } : {}, steps === charts.durations ? { values: charts.clocks } : {}, options.xAxis);
    const series = options.series.map((one) => Object.assign({
      label: one.label, stroke: one.stroke || theme.series(one.index), width: one.width == null ? 1.5 : one.width, dash: one.dash,
      fill: one.fill ? theme.faded(one.index, one.fill) : undefined, points: one.points || { show: options.data[0].length < 40, size: 5 },
      value: (u, v, s, i) => (one.write || options.write)(options.original && i != null ? options.original[s - 1][i] : v), spanGaps: one.spanGaps !== false, show: one.show !== false,
      paths: one.paths,
    }, one.more));
    chart.uplot = new uPlot({
      width, height: options.height || (width < 480 ? 220 : 270), tzDate: undefined,
      legend: { live: true }, cursor: { drag: { x: true, y: false }, points: { size: 7 } },
      padding: [8, 34, 0, 0],
      scales: { x: Object.assign({ time: false }, options.x), y: yScale },
      axes: [charts.axis(options.xLabel, options.xWrite, { size: 34, space: 60 }),
        charts.axis(yLabel || undefined, options.axisWrite || options.write, { size: charts.axisSize })].map((axis, i) => Object.assign(axis, i ? options.yAxis : xAxis)),
      series: [Object.assign({ label: options.xLabel, value: (u, v) => options.xWrite(v) }, options.xSeries), ...series],
      bands: options.bands, plugins: options.plugins || [],
      // The legend shows the values at the cursor; a single curve has none without a cursor.
      hooks: Object.assign({ setCursor: [(u) => plot.classList.toggle("idle", u.cursor.idx == null || u.cursor.left < 0)] }, options.hooks),
    }, options.data, plot);
    plot.classList.add("idle");
    plot.classList.toggle("single", options.series.length === 1);
    plot.querySelector("canvas").setAttribute("aria-hidden", "true");
  },

  // From `low` to `high` of the axis, with strokes of twice `end` pixels at both.
  whisker(u, at, low, high, end) {
    const from = u.valToPos(low, "y", true), to = u.valToPos(high, "y", true);
    u.ctx.beginPath();
    for (const y of [from, to]) { u.ctx.moveTo(at - end, y); u.ctx.lineTo(at + end, y); }
    u.ctx.moveTo(at, from);
    u.ctx.lineTo(at, to);
    u.ctx.stroke();
  },

  // As wide as its longest number.
  axisSize(u, values) {
    const longest = Math.max(3, ...(values || []).map((text) => (text || "").length));
    return 20 + 7 * longest;
  },

  width(plot) {
    return Math.max(Math.floor(plot.clientWidth), 200);
  },

  range(low, high, zero) {
    if (low == null || high == null) return [0, 1];
    if (zero) low = Math.min(low, 0);
    const room = 0.05 * (high - low) || Math.abs(high) * 0.1 || 1;
    return [zero && low === 0 ? 0 : low - room, high + room];
  },

  // Left and right move the cursor, Home and End go to the ends, Escape resets a zoom.
  keys(chart) {
    let at = -1;
    chart.plot.addEventListener("keydown", (event) => {
      const xs = chart.options.data[0], last = xs.length - 1, leap = event.shiftKey ? Math.max(Math.round(xs.length / 20), 1) : 1;
      if (event.key === "ArrowRight") at = Math.min(at + leap, last);
      else if (event.key === "ArrowLeft") at = Math.max(at - leap, 0);
      else if (event.key === "Home") at = 0;
      else if (event.key === "End") at = last;
      else if (event.key === "Escape") chart.uplot.setScale("x", { min: xs[0], max: xs[last] });
      else return;
      event.preventDefault();
      const u = chart.uplot;
      if (u.cursor.left < 0 || u.cursor.top < 0) u.setCursor({ left: 0, top: u.over.clientHeight / 2 });
      u.setCursor({ left: u.valToPos(xs[at], "x"), top: u.over.clientHeight / 2 });
      chart.live.textContent = charts.reading(chart, at);
    });
  },

  reading(chart, i) {
    const { options } = chart;
    if (options.read) return options.read(i);
    const values = options.series.map((one, s) => [one, options.original ? options.original[s][i] : options.data[s + 1][i]])
      .filter(([one, value]) => !one.band && value != null).map(([one, value]) => one.label + " " + (one.write || options.write)(value));
    return options.xLabel + " " + options.xWrite(options.data[0][i]) + ": " + (values.join(", ") || "no value");
  },

  // Created when opened; about fifty of many rows.
  table(chart) {
    const details = element("details", {}, element("summary", {}, "Numbers"));
    details.addEventListener("toggle", () => {
      if (!details.open || details.querySelector("table")) return;
      const { options } = chart, rows = options.data[0].length, every = Math.max(1, Math.ceil(rows / 50));
      const columns = options.series.map((one, s) => [one, options.original ? options.original[s] : options.data[s + 1]]);
      const head = element("tr", {}, element("th", { scope: "col" }, options.xLabel));
      for (const [one] of columns) head.append(element("th", { scope: "col" }, one.label));
      const body = element("tbody", {});
      for (let i = 0; i < rows; i += every) {
        const row = element("tr", {}, element("th", { scope: "row" }, options.xWrite(options.data[0][i])));
        for (const [one, values] of columns) row.append(element("td", {}, (one.write || options.write)(values[i])));
        body.append(row);
      }
      const table = element("table", {}, element("caption", { class: "soft" }, every > 1 ? "every " + every + "th of " + rows + " rows" : rows + " rows"), element("thead", {}, head), body);
      details.append(element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": options.title }, table));
    });
    return details;
  },

  // Stacks the series: uPlot's data and the bands between them.
  stacked(data) {
    const sums = new Array(data[0].length).fill(0), out = [data[0]];
    for (let s = 1; s < data.length; ++s) {
      out.push(data[s].map((value, i) => { sums[i] += Math.max(value || 0, 0); return sums[i]; }));
    }
    const bands = [];
    for (let s = data.length - 1; s > 1; --s) bands.push({ series: [s, s - 1] });
    return { data: out, bands };
  },

  forget(parent) {
    charts.all = charts.all.filter((chart) => {
      if (!parent.contains(chart.figure)) return true;
      chart.uplot.destroy();
      return false;
    });
    parent.replaceChildren();
  },
};

addEventListener("resize", () => {
  for (const chart of charts.all) {
    const width = charts.width(chart.plot);
    if (width !== chart.uplot.width) chart.uplot.setSize({ width, height: chart.uplot.height });
  }
});
// Also the legend's marks.
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.all.forEach(charts.draw));
addEventListener("beforeprint", () => charts.all.forEach(charts.draw));
