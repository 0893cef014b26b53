// Draws the plots of the report from the numbers in #samerun-data. Loads nothing; the page is whole without it.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("samerun-data").textContent);
  const charts = new Map();

  // Colours come from the style sheet, which knows of dark, light and print.
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

  function faded(name, share) {
    const hex = color(name).slice(1);
    const full = hex.length === 3 ? [...hex].map((c) => c + c).join("") : hex;
    return "#" + full + Math.round(255 * share).toString(16).padStart(2, "0");
  }

  function axis(title, extra) {
    return {
      grid: { color: color("grid"), drawBorder: false },
      ticks: { color: color("soft"), maxRotation: 0, autoSkipPadding: 14, font: { size: 11 } },
      title: { display: Boolean(title), text: title, color: color("soft"), font: { size: 11 } },
      ...extra,
    };
  }

  function chart(type, datasets, options, labels) {
    return {
      type,
      data: { labels, datasets },
      options: { animation: false, responsive: true, maintainAspectRatio: false, interaction: { mode: "nearest", axis: "x", intersect: false }, ...options },
    };
  }

  const powerOfTen = (value) => {
    const power = Math.log10(value);
    return Math.abs(power - Math.round(power)) < 1e-9 ? "1e" + Math.round(power) : "";
  };

  // Curves of one group share their range, so that plots side by side can be compared.
  function rangeOf(group) {
    let least = Infinity, most = 0;
    for (const curve of data.curves) {
      if (curve.group !== group) continue;
      for (const value of [...curve.value, ...curve.limit]) {
        if (value > 0) least = Math.min(least, value), most = Math.max(most, value);
      }
    }
    if (most === 0) return { min: 1e-18, max: 1 };
    return { min: 10 ** (Math.floor(Math.log10(least)) - 1), max: 10 ** Math.ceil(Math.log10(most) + 0.3) };
  }

  function curvePlot(curve) {
    const range = rangeOf(curve.group);
    const point = (i, value) => ({ x: curve.steps[i], y: value });
    const few = curve.steps.length <= 60;
    const limit = curve.limit.map((value, i) => point(i, value > 0 ? value : null));
    // No logarithm shows a zero: bit for bit stands on the floor, hollow.
    const distance = curve.value.map((value, i) => point(i, value > 0 ? value : null));
    const equal = curve.value.map((value, i) => (value === 0 ? point(i, range.min) : null)).filter(Boolean);
    const beyond = curve.value.map((value, i) => (value > curve.limit[i] ? point(i, value) : null)).filter(Boolean);
    const datasets = [
      { label: "above the limit", data: beyond, showLine: false, pointStyle: "rectRot", pointRadius: 5, borderColor: color("different"), backgroundColor: color("different") },
      { label: "bit for bit", data: equal, showLine: false, pointRadius: few ? 3 : 2, borderColor: color("line"), backgroundColor: "transparent", clip: false },
      { label: "distance / norm", data: distance, borderColor: color("line"), backgroundColor: color("line"), borderWidth: 1.6, pointRadius: few ? 2 : 0, spanGaps: false },
      { label: "limit / norm", data: limit, borderColor: color("band"), backgroundColor: faded("band", 0.14), borderWidth: 1.4, borderDash: [5, 3], pointRadius: 0, fill: "start", spanGaps: true },
    ];
    const scales = {
      x: axis("step", { type: "linear", max: curve.steps[curve.steps.length - 1], ticks: { ...axis("").ticks, precision: 0 } }),
      y: axis("", { type: "logarithmic", ...range, ticks: { ...axis("").ticks, callback: powerOfTen, autoSkip: true, maxTicksLimit: 7 } }),
    };
    const label = (item) => item.dataset.label + ": " + (item.dataset.label === "bit for bit" ? "0" : item.parsed.y.toExponential(2));
    return chart("line", datasets, {
      scales,
      plugins: { legend: { display: false }, tooltip: { callbacks: { title: (items) => (items.length ? "step " + items[0].parsed.x : ""), label } } },
    });
  }

  function lossPlot() {
    // They lie on one another where all is well: the reference is the broad line below.
    const points = (curve) => curve.steps.map((step, i) => ({ x: step, y: curve.loss[i] }));
    const styles = {
      candidate: { borderColor: color("line"), backgroundColor: color("line"), borderWidth: 2 },
      reference: { borderColor: faded("second", 0.45), backgroundColor: faded("second", 0.45), borderWidth: 7 },
    };
    const datasets = data.losses.map((curve) => ({ label: curve.run, data: points(curve), pointRadius: 0, ...styles[curve.run] }));
    return chart("line", datasets, {
      scales: { x: axis("optimizer step", { type: "linear", ticks: { ...axis("").ticks, precision: 0 } }), y: axis("loss", {}) },
      plugins: { legend: { labels: { color: color("ink"), boxWidth: 18, boxHeight: 2 } } },
    });
  }

  function phasesPlot() {
    const names = [];
    for (const run of data.phases) for (const part of run.parts) if (!names.includes(part.name)) names.push(part.name);
    const datasets = names.map((name, i) => ({
      label: name,
      data: data.phases.map((run) => (run.parts.find((part) => part.name === name) || { ms: 0 }).ms),
      backgroundColor: color("part-" + (i % 8)),
      borderColor: color("card"),
      borderWidth: 1,
      maxBarThickness: 34,
    }));
    return chart("bar", datasets, {
      indexAxis: "y",
      interaction: { mode: "nearest", intersect: true },
      scales: { x: axis("milliseconds a step", { stacked: true }), y: axis("", { stacked: true, grid: { display: false } }) },
      plugins: {
        legend: { position: "top", align: "start", labels: { color: color("ink"), boxWidth: 11, boxHeight: 11, padding: 9, font: { size: 11 } } },
        tooltip: { callbacks: { label: (item) => item.dataset.label + ": " + item.parsed.x.toPrecision(3) + " ms" } },
      },
    }, data.phases.map((run) => run.run));
  }

  function make(name) {
    if (name === "loss") return lossPlot();
    if (name === "phases") return phasesPlot();
    return curvePlot(data.curves[Number(name.slice("curve-".length))]);
  }

  const folded = (canvas) => canvas.closest("details:not([open])") !== null;

  // What is folded away has no size yet; it is drawn when it is opened.
  function draw() {
    for (const canvas of document.querySelectorAll("canvas[data-plot]")) {
      if (charts.has(canvas) || folded(canvas)) continue;
      charts.set(canvas, new Chart(canvas, make(canvas.dataset.plot)));
    }
    document.documentElement.dataset.charts = String(charts.size);
  }

  function drawAgain() {
    for (const plotted of charts.values()) plotted.destroy();
    charts.clear();
    draw();
  }

  let opened = [];
  document.addEventListener("toggle", draw, true);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAgain);
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const part of opened) part.open = true;
    drawAgain();
  });
  addEventListener("afterprint", () => {
    for (const part of opened) part.open = false;
    drawAgain();
  });
  draw();
})();
