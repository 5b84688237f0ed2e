"use strict";
// A scaling study (scaling.json): throughput, efficiency and losses, by ranks.
const study = {
  losses: [["exposed_comm", "exposed communication"], ["bubble", "pipeline bubble"], ["data_wait", "data wait"], ["straggler", "waits for slow ranks"],
    ["cpu_contention", "CPU contention"], ["compute_slowdown", "slower compute", "compute"]],

  // Common options of curves.
  family(point) {
    const split = [["tensor", point.tensor], ["pipeline", point.pipeline]].filter(([, size]) => size > 1).map(([name, size]) => name + " " + size);
    return split.join(", ") || "data parallel";
  },

  mark(point) {
    return point.ranks + (point.tensor > 1 ? " t" + point.tensor : "") + (point.pipeline > 1 ? " p" + point.pipeline : "");
  },

  // A line from the minimum to the maximum run of each point, on the curves' canvas.
  whiskers(curves, ranks) {
    return (u) => {
      u.ctx.save();
      u.ctx.lineWidth = 1.5 * devicePixelRatio;
      curves.forEach((curve, s) => {
        if (!u.series[s + 1].show) return;
        u.ctx.strokeStyle = theme.colour(s);
        for (const [x, , low, high] of curve.points) {
          if (!(high > low)) continue;
          charts.whisker(u, u.valToPos(ranks.indexOf(x), "x", true), low, high, 4 * devicePixelRatio);
        }
      });
      u.ctx.restore();
    };
  },

  // Curves by family over equidistant ranks; `of` returns median, minimum and maximum.
  curves(parent, points, of, ideal, options) {
    const ranks = [...new Set(points.map((point) => point.ranks))].sort((a, b) => a - b), curves = [];
    for (const point of points) {
      let curve = curves.find((one) => one.name === study.family(point));
      if (!curve) curves.push(curve = { name: study.family(point), points: [] });
      curve.points.push([point.ranks, ...of(point)]);
    }
    const columns = curves.map((curve) => ranks.map((count) => {
      const found = curve.points.find(([x]) => x === count);
      return found ? found[1] : null;
    }));
    const series = curves.map((curve, index) => ({ label: curve.name, index, width: 2, points: { show: true, size: 8 } }));
    series.push({ label: "ideal", stroke: () => theme.get("soft"), dash: [6, 4], points: { show: false } });
    charts.add(parent, Object.assign({ xLabel: "ranks", xWrite: (i) => ranks[i] === undefined ? "" : String(ranks[i]), xAxis: { incrs: [1, 2, 4, 8, 16, 32] },
      x: { range: (u, low, high) => [low - 0.2, high + 0.2] }, data: [ranks.map((_, i) => i), ...columns, ranks.map(ideal)], series,
      yScale: { range: (u, low, high) => charts.range(low, Math.max(high, ...points.map((point) => of(point)[2])), true) },
      hooks: { draw: [study.whiskers(curves, ranks)] } }, options));
  },

  // Bars stacked from zero upwards, and gains from zero downwards.
  bars(parent, points) {
    const share = (point, key) => point.loss_seconds[key] / point.step_seconds;
    const original = study.losses.map(([key]) => points.map((point) => share(point, key)));
    const up = points.map(() => 0), down = points.map(() => 0), columns = [], from = [];
    for (const values of original) {
      from.push(values.map((value, i) => value > 0 ? up[i] : down[i]));
      columns.push(values.map((value, i) => value > 0 ? up[i] += value : down[i] += value));
    }
    const draw = (u) => {
      u.ctx.save();
      columns.forEach((values, s) => {
        if (!u.series[s + 1].show) return;
        u.ctx.fillStyle = theme.colour(study.losses[s][2] || study.losses[s][1]);
        values.forEach((value, i) => {
          const left = u.valToPos(i - 0.3, "x", true), right = u.valToPos(i + 0.3, "x", true);
          const a = u.valToPos(from[s][i], "y", true), b = u.valToPos(value, "y", true);
          u.ctx.fillRect(left, Math.min(a, b), right - left, Math.abs(a - b));
        });
      });
      u.ctx.restore();
    };
    const top = Math.max(0.01, ...up), bottom = Math.min(0, ...down);
    charts.add(parent, { title: "Lost efficiency by cause", xLabel: "ranks; t: tensor, p: pipeline", yLabel: "of the step", broad: true,
      caption: "What the efficiency lacks to 100 %, by cause; the parts add up to it. Below zero: faster than at the first point.",
      xWrite: (i) => points[i] === undefined ? "" : study.mark(points[i]), write: format.percent, original, hooks: { draw: [draw] },
      xAxis: { incrs: [1, 2, 4, 8, 16, 32] }, x: { range: (u, low, high) => [Math.round(low) - 0.6, Math.round(high) + 0.6] },
      yScale: { range: () => [bottom * 1.08, top * 1.08] }, data: [points.map((_, i) => i), ...columns],
      series: study.losses.map(([, label, part]) => ({ label, index: part || label, more: { paths: () => null, fill: theme.series(part || label) }, points: { show: false } })) });
  },

  draw(data) {
    for (const mode of ["weak", "strong", "fixed-loss"]) {
      const points = data.study.points.filter((point) => point.mode === mode && point.efficiency), place = document.getElementById("study-" + mode);
      if (!place || points.length === 0) continue;
      const grid = element("div", { class: "charts" }), items = data.study.items, rate = (point) => point[items + "_per_second"] / point.samples_per_second.median;
      place.append(grid);
      const base = points[0], first = rate(base) * base.samples_per_second.median, spread = (value, times) => [value.median, value.least, value.most].map((v) => v * times);
      study.curves(grid, points, (point) => spread(point.samples_per_second, rate(point)), (count) => first * count / base.ranks,
        { title: "Throughput by ranks", yLabel: items + " per second", write: format.number, zero: true,
          caption: "Median of the runs; whiskers reach from the slowest run to the fastest." });
      study.curves(grid, points, (point) => spread(point.efficiency, 1), () => 1,
        { title: "Efficiency by ranks", write: format.percent, zero: true, caption: "Throughput per rank against the first point's." });
      study.bars(grid, points);
    }
    document.documentElement.dataset.drawn = String(charts.all.length);
  },
};
