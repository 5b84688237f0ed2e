"use strict";
// Ranks over time: uPlot draws the axes, this file the cells, on one canvas.
const heatmap = {
  rgb(hex) {
    return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  },

  // From the background to the strongest colour.
  colour(share) {
    const low = heatmap.rgb(theme.get("grid")), high = heatmap.rgb(theme.get("c1"));
    const t = Math.sqrt(Math.min(Math.max(share, 0), 1));
    return "rgb(" + low.map((from, i) => Math.round(from + t * (high[i] - from))).join(",") + ")";
  },

  // Limits the effect of few extreme cells on the colour scale.
  ceiling(values) {
    const all = values.flat().filter((v) => v > 0).sort((a, b) => a - b);
    return all.length ? all[Math.min(Math.floor(0.995 * all.length), all.length - 1)] : 0;
  },

  // windows: {first, last, values: [window][row]}, rowName(row), title, caption, unit
  add(parent, windows) {
    const { first, last, values } = windows, rows = Math.max(...values.map((list) => list.length)), top = heatmap.ceiling(values);
    const middles = first.map((from, i) => (from + last[i]) / 2);
    const cells = (u) => {
      const ctx = u.ctx;
      ctx.save();
      ctx.beginPath();
      ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
      ctx.clip();
      values.forEach((list, w) => {
        const left = u.valToPos(first[w] - 0.5, "x", true), right = u.valToPos(last[w] + 0.5, "x", true);
        list.forEach((value, row) => {
          const upper = u.valToPos(row - 0.5, "y", true), lower = u.valToPos(row + 0.5, "y", true);
          ctx.fillStyle = heatmap.colour(top > 0 ? value / top : 0);
          ctx.fillRect(Math.floor(left), Math.floor(upper), Math.ceil(right) - Math.floor(left), Math.ceil(lower) - Math.floor(upper));
        });
      });
      ctx.restore();
    };
    const say = (w, row) => "steps " + format.whole(first[w]) + " to " + format.whole(last[w]) + ", " + windows.rowName(row) + ": " +
      format.milliseconds(values[w][row]);
    const worst = (w) => values[w].reduce((best, value, row) => value > values[w][best] ? row : best, 0);
    const chart = charts.add(parent, {
      title: windows.title, caption: windows.caption, broad: true, height: Math.min(420, Math.max(180, 60 + 14 * rows)),
      xLabel: "step", xWrite: format.whole, yLabel: windows.rowLabel, write: format.milliseconds, axisWrite: (v) => Number.isInteger(v) && v >= 0 && v < rows ? windows.rowMark(v) : "",
      data: [middles, values.map((list) => Math.max(...list)), values.map((_, w) => worst(w))],
      series: [{ label: "latest", index: 1, more: { paths: () => null }, points: { show: false } },
        { label: windows.rowLabel, index: 1, write: (row) => row == null ? "–" : windows.rowName(row), more: { paths: () => null }, points: { show: false } }],
      x: { range: (u, low, high) => low == null ? [0, 1] : [Math.max(low, first[0] - 0.5) === low && low > middles[0] ? low : first[0] - 0.5, high >= middles[middles.length - 1] ? last[last.length - 1] + 0.5 : high] },
      yScale: { range: () => [-0.5, rows - 0.5], dir: -1 },
      yAxis: { incrs: [1, 2, 4, 8, 16, 32, 64, 128, 256], space: 16, grid: { show: false } },
      xAxis: { grid: { show: false } },
      hooks: {
        drawClear: [cells],
        setCursor: [(u) => {
          if (u.cursor.idx == null || u.cursor.top < 0) return;
          const row = Math.round(u.posToVal(u.cursor.top, "y"));
          if (row >= 0 && row < rows) chart && (chart.live.textContent = say(u.cursor.idx, row));
        }],
      },
      read: (w) => "the latest in " + say(w, worst(w)),
    });
    const ramp = element("span", { class: "ramp", role: "img", "aria-label": "colour scale" });
    const paint = () => {
      ramp.style.background = "linear-gradient(to right," + [0, 0.1, 0.25, 0.5, 0.75, 1].map((t) => heatmap.colour(t) + " " + 100 * t + "%").join(",") + ")";
    };
    paint();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
    chart.figure.insertBefore(element("p", { class: "soft" }, "0 ", ramp, " " + format.milliseconds(top) + " and more"), chart.live);
    return chart;
  },
};
