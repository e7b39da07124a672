// What moves the prediction here: each column between two values that are common in the table, with
// all other cells as they are.

import { h, linear, short } from "./drawing.js";

const FIRST = 10; // columns that are shown at once
const COMMON = 0.05; // share of the rows of a common category
const MOST = 8; // categories that are tried, the commonest

// The categories of 5 % of the rows or more, at least two, the commonest first.
function common(column) {
  const counts = column.counts ?? column.categories.map(() => 0);
  const total = counts.reduce((sum, n) => sum + n, 0);
  const order = column.categories.map((_, k) => k).sort((a, b) => counts[b] - counts[a] || a - b);
  const many = order.filter((k, place) => place < 2 || counts[k] >= COMMON * total);
  return many.slice(0, MOST).map((k) => column.categories[k]);
}

// The cells that are tried of a column, the first of them where the change begins.
function trial(column) {
  if (column.kind === "boolean") return [false, true];
  const cells = column.kind === "text" ? common(column) : (column.tails ?? []);
  return cells.length > 1 && cells[0] !== cells[1] ? cells : [];
}

function inWords(cell, column) {
  if (column.kind === "number") return column.whole ? String(cell) : short(cell);
  return column.kind === "date" ? cell.slice(0, 10) : String(cell);
}

// How two predictions differ, and how far the networks disagree about that.
function difference(a, b, of) {
  const change = of.value(b) - of.value(a);
  const [u, v] = [a.byNetwork(of.c), b.byNetwork(of.c)];
  if (u.length === 1) return { change, std: Math.hypot(a.doubt(of.c), b.doubt(of.c)) };
  const each = Array.from(u, (x, s) => v[s] - x);
  const mean = each.reduce((sum, x, s) => sum + a.weights[s] * x, 0);
  const variance = each.reduce((sum, x, s) => sum + a.weights[s] * (x - mean) ** 2, 0);
  return { change, std: Math.sqrt(variance) };
}

// For each column {change, std, from, to}, or null where nothing can be compared. `predict` predicts
// rows of cells; `outputs` are {value, c, k}: the number that is looked at, of which target or class.
export async function influences(columns, cells, predict, outputs) {
  const trials = columns.map(trial);
  const predicted = await predict(
    trials.flatMap((own, i) => own.map((cell) => cells.with(i, cell))),
  );
  return outputs.map((of) => {
    let start = 0;
    return columns.map((column, i) => {
      const found = predicted.slice(start, (start += trials[i].length)).map((p) => p[of.k]);
      if (!found.length) return null;
      const each = found.slice(1).map((p) => difference(found[0], p, of));
      const sizes = each.map(({ change }) => Math.abs(change));
      const most = sizes.indexOf(Math.max(...sizes));
      if (most < 0) return null;
      const [from, to] = [trials[i][0], trials[i][most + 1]].map((cell) => inWords(cell, column));
      return { ...each[most], from, to };
    });
  });
}

export class Influence {
  constructor(columns, chosen) {
    this.rows = columns.map((column, i) => {
      const [bar, doubt] = [h("i", {}), h("b", {})];
      const [change, unit] = [h("span", { class: "wi-change" }), h("small", {})];
      const name = h(
        "button",
        { type: "button", class: "wi-name", onclick: () => chosen(i) },
        column.name,
      );
      const bars = h("span", { class: "wi-two-sided" }, bar, doubt);
      return { node: h("li", {}, name, bars, change, unit), bar, doubt, change, unit };
    });
    this.list = h("ul", { class: "wi-influence" });
    this.all = false;
    this.more = h("button", {
      type: "button",
      onclick: () => {
        this.all = !this.all;
        this.show(...this.last);
      },
    });
    this.caption = h("p", { class: "wi-legend" });
    this.node = h("div", {}, this.list, this.more, this.caption);
  }

  show(found, words, format = short) {
    this.last = [found, words, format];
    const size = (i) =>
      found[i] && !Number.isNaN(found[i].change) ? Math.abs(found[i].change) : -1;
    const ranked = found
      .map((_, i) => i)
      .filter((i) => found[i])
      .sort((a, b) => size(b) - size(a));
    const shown = this.all ? ranked : ranked.slice(0, FIRST);
    const width = (i) => size(i) + (found[i].std || 0);
    const scale = linear(
      [0, Math.max(...shown.map(width).filter(Number.isFinite), 0) || 1],
      [0, 50],
    );
    for (const i of shown) {
      const [row, { change, std, from, to }] = [this.rows[i], found[i]];
      const sign = change < 0 ? -1 : 1;
      row.bar.className = change < 0 ? "wi-less" : "wi-more";
      row.bar.style.width = `${Math.min(50, scale(size(i)))}%`;
      row.doubt.hidden = !(std > 0);
      row.doubt.style.left = `${50 + sign * scale(size(i)) - scale(std)}%`;
      row.doubt.style.width = `${2 * scale(std)}%`;
      row.change.textContent = `${change > 0 ? "+" : ""}${format(change)}`;
      row.change.dataset.value = change;
      row.change.dataset.std = std;
      row.unit.textContent = `${from} → ${to}${std > 0 ? `, ±\u00a0${format(std)}` : ""}`;
    }
    const order = String(shown);
    if (order !== this.order) this.list.replaceChildren(...shown.map((i) => this.rows[i].node));
    this.order = order;
    this.more.hidden = ranked.length <= FIRST;
    this.more.textContent = this.all ? `Show the first ${FIRST}` : `Show all ${ranked.length}`;
    this.caption.textContent = words;
  }
}
