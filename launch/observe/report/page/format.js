"use strict";
// Formats numbers and creates elements. Text from data is inserted as text, never as HTML.
const format = {
  number(value) {
    if (value == null || !isFinite(value)) return "–";
    const size = Math.abs(value);
    for (const [unit, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
      if (size >= unit) return +(value / (letter === "k" ? 1e3 : unit)).toPrecision(3) + letter;
    }
    if (size !== 0 && size < 1e-3) return value.toExponential(2).replace(/\.?0+e/, "e");
    return String(+value.toPrecision(4));
  },
  // Ticks of an axis in one notation: 0, 5k, 10k; 0, 2e-4, 4e-4.
  axis(values) {
    const known = values.filter((v) => v != null), most = Math.max(0, ...known.map(Math.abs));
    const small = most > 0 && most < 1e-2 ? Math.floor(Math.log10(most) + 1e-9) : 0;
    const [unit, letter] = small ? [10 ** small, "e" + small] : [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]].find(([size]) => most >= size) || [1, ""];
    return values.map((v) => v == null ? "" : v === 0 ? "0" : +(v / (letter === "k" ? 1e3 : unit)).toPrecision(4) + letter);
  },
  whole(value) {
    return value == null ? "–" : Math.round(value).toLocaleString("en-US").replace(/,/g, "\u202f");
  },
  duration(seconds) {
    if (seconds == null || !isFinite(seconds)) return "–";
    return seconds < 10 ? +seconds.toPrecision(3) + " s" : format.clock(seconds);
  },
  // 1:05, 2:00:00.
  clock(seconds) {
    const total = Math.round(seconds), two = (n) => String(n).padStart(2, "0");
    const hours = Math.floor(total / 3600), minutes = Math.floor(total / 60) % 60;
    return hours > 0 ? hours + ":" + two(minutes) + ":" + two(total % 60) : minutes + ":" + two(total % 60);
  },
  bytes(value) {
    if (value == null) return "–";
    let unit = 0;
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    for (; Math.abs(value) >= 1024 && unit < units.length - 1; ++unit) value /= 1024;
    return +value.toPrecision(4) + " " + units[unit];
  },
  percent(value) {
    return value == null ? "–" : +(100 * value).toPrecision(4) + " %";
  },
  milliseconds(value) {
    return value == null ? "–" : format.number(value) + " ms";
  },
};

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// The page's colours, for canvases; they change with the reader's scheme.
const theme = {
  get(name) {
    return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  },
  // By a curve's number, or by the name of a part of the time.
  colour(which) {
    return theme.get(typeof which === "number" ? "c" + (which % 9) : which.replaceAll(" ", "-"));
  },
  series(which) {
    return () => theme.colour(which);
  },
  faded(which, share) {
    return () => theme.colour(which) + Math.round(255 * share).toString(16).padStart(2, "0");
  },
};
