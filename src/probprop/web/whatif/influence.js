// How much each column moves the prediction here: the gradient, or what a step changes.

import { h, linear, short } from "./drawing.js";
import { moment } from "./table.js";

const STEP = 0.02; // standard deviations of a column, on either side: the derivative
const WIDE_STEP = 0.25; // the same where ramps have kinks, between which the derivative says little
const MOST = 40; // categories that are tried
const DAY = 86_400_000;

// The other cells of a column that are looked at, and what their predictions say of it. A
// probability is bounded, so a step says more of it than the derivative.
function trials(column, cell, { bounded, kinks }) {
  if (column.kind === "number") {
    if (cell === null) return null;
    if (bounded) {
      const unit = `if ${short(column.scale)} more`;
      return { cells: [cell + column.scale], unit, of: ([more], here) => more - here };
    }
    const share = kinks ? WIDE_STEP : STEP;
    const step = share * column.scale;
    const unit = `per standard deviation (${short(column.scale)})`;
    return { cells: [cell - step, cell + step], unit, of: ([a, b]) => (b - a) / (2 * share) };
  }
  if (column.kind === "boolean") {
    if (cell === null) return null;
    return {
      cells: [!cell],
      unit: cell ? "if false" : "if true",
      of: ([other], here) => other - here,
    };
  }
  if (column.kind === "date") {
    const date = moment(cell);
    if (!date) return null;
    const [step, unit] =
      column.timed && !column.parts.includes("weekday")
        ? [DAY / 24, "an hour later"]
        : [DAY, "a day later"];
    const iso = new Date(+date + step).toISOString().slice(0, column.timed ? 19 : 10);
    return { cells: [iso], unit, of: ([later], here) => later - here };
  }
  const others = column.categories.filter((name) => name !== cell).slice(0, MOST);
  if (!others.length) return null;
  const farthest = (values, here) =>
    values.reduce(
      (most, value, i) => (Math.abs(value - here) > Math.abs(values[most] - here) ? i : most),
      0,
    );
  return {
    cells: others,
    unit: (values, here) => `if ${others[farthest(values, here)]}`,
    of: (values, here) => values[farthest(values, here)] - here,
  };
}

// For each column {change, unit}, or null where it has no gradient: `value` makes a number of a
// prediction, and `predict` predictions of rows. `kind` is {bounded, kinks}: whether it is a
// probability, and whether columns are encoded as ramps.
export function influences(columns, cells, predict, here, values, kind) {
  const each = columns.map((column, i) => trials(column, cells[i], kind));
  const rows = each.flatMap((trial, i) =>
    trial ? trial.cells.map((cell) => cells.with(i, cell)) : [],
  );
  const predicted = rows.length ? predict(rows) : [];
  return values.map((value, k) => {
    let start = 0;
    return each.map((trial) => {
      if (!trial) return null;
      const found = predicted.slice(start, (start += trial.cells.length)).map((p) => value(p, k));
      const now = value(here, k);
      const unit = typeof trial.unit === "string" ? trial.unit : trial.unit(found, now);
      return { change: trial.of(found, now), unit };
    });
  });
}

export class Influence {
  constructor(target, columns, chosen) {
    this.caption = h("p", { class: "wi-legend" });
    this.target = target;
    this.rows = columns.map((column, i) => {
      const bar = h("i", {});
      const change = h("span", { class: "wi-change" });
      const unit = h("small", {});
      const name = h(
        "button",
        { type: "button", class: "wi-name", onclick: () => chosen(i), title: column.name },
        column.name,
      );
      const node = h("li", {}, name, h("span", { class: "wi-two-sided" }, bar), change, unit);
      return { node, bar, change, unit };
    });
    this.list = h("ul", { class: "wi-influence" }, ...this.rows.map((row) => row.node));
    this.node = h("div", {}, this.list, this.caption);
  }

  show(found, words, format = short) {
    const most = Math.max(
      ...found.map((one) => (one && Number.isFinite(one.change) ? Math.abs(one.change) : 0)),
    );
    const scale = linear([0, most || 1], [0, 50]);
    this.rows.forEach((row, i) => {
      const one = found[i];
      const size = one && Number.isFinite(one.change) ? scale(Math.abs(one.change)) : 0;
      row.bar.className = one?.change < 0 ? "wi-less" : "wi-more";
      row.bar.style.width = `${size}%`;
      row.change.textContent = one ? `${one.change > 0 ? "+" : ""}${format(one.change)}` : "–";
      row.change.dataset.value = one ? one.change : "";
      row.unit.textContent = one ? one.unit : "unknown";
    });
    this.caption.textContent = words;
  }
}
