"use strict";
// Draws the data that the page contains.
addEventListener("DOMContentLoaded", () => {
  const data = JSON.parse(document.getElementById("data").textContent);
  if (data.kind === "study") {
    study.draw(data);
    return;
  }
  const bar = document.querySelector(".bar");
  if (bar) charts.toolbar(bar);
  if (data.kind === "ablation") {
    ablation.open(data);
    return;
  }
  const places = data.runs.map((_, i) => document.getElementById("run-" + i));
  const together = document.getElementById("comparison");
  const drawRun = (i) => runCharts.draw(places[i], data.runs[i]);
  const open = (i) => !places[i].closest("details") || places[i].closest("details").open;
  const drawAll = () => {
    if (together) comparison.draw(together, data.runs);
    places.forEach((place, i) => open(i) ? drawRun(i) : charts.forget(place));
  };
  places.forEach((place, i) => {
    const details = place.closest("details");
    if (details) details.addEventListener("toggle", () => details.open ? drawRun(i) : charts.forget(place));
  });
  const choice = document.getElementById("axis");
  choice.addEventListener("change", () => {
    runCharts.axisNow = axes[choice.value];
    drawAll();
  });
  runCharts.axisNow = axes[choice.value];
  drawAll();
  document.documentElement.dataset.drawn = String(charts.all.length);
});
