// The what-if page: what is on it, and what happens when a cell changes.

import { ClassesPanel } from "./classes_panel.js";
import { Controls } from "./controls.js";
import { h, points } from "./drawing.js";
import { Influence, influences } from "./influence.js";
import { Observed } from "./observed.js";
import { path, Profile } from "./profile.js";
import { csv, fromHash, toHash } from "./sharing.js";
import { ValuesPanel } from "./values_panel.js";

const FRAME = 12; // milliseconds that pictures may take before anything else has its turn
const PIECE = 8; // rows that are predicted at a time
const CHANGE =
  "from the 10 % to the 90 % quantile of a column (further out where these are equal), or from its " +
  "commonest category to another common one; all other cells stay as they are. ± is the standard deviation";
const QUIET = 400; // milliseconds without a change, before it is said aloud and kept in the link

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Where a page may not write to the clipboard, a selection may be copied.
    const area = h("textarea", {});
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

export class Page {
  constructor(section, model) {
    this.section = section;
    this.model = model;
    this.columns = model.columns;
    const { rows } = model;
    // A row of the table, if the page has any; the middle of each column otherwise.
    this.typicalRow = rows ? rows.typical : null;
    this.typical = this.columns.map(({ typical }, i) =>
      rows ? rows.cells[i][rows.typical] : typical,
    );
    this.cells = this.typical;
    this.along = model.order[0];
    this.row = this.typicalRow; // the row of the report, if it is unchanged
    this.more = null; // the promise of pictures that are being drawn
    this.#build();
    this.restore(location.hash);
    addEventListener("hashchange", () => this.restore(location.hash));
  }

  // ---- What is on the page

  #build() {
    const { model, columns } = this;
    this.controls = new Controls(columns, model.order, model.takes_gaps, (i, cell) =>
      this.change(i, cell),
    );
    this.said = h("p", { class: "wi-said", role: "status" });
    this.now = h("p", { class: "wi-stays", "aria-hidden": "true" });
    this.far = h(
      "p",
      { class: "wi-far", hidden: true },
      "A value is too far from the training samples for a prediction: `probprop predict` rejects this row.",
    );
    this.menu = h(
      "select",
      { id: "wi-along", onchange: () => this.goAlong(Number(this.menu.value)) },
      ...model.order.map((i) => h("option", { value: i }, columns[i].name)),
    );
    this.targets = model.targets.map((target, k) => this.#target(target, k));
    this.answers = h(
      "div",
      { class: "wi-answers" },
      this.now,
      this.far,
      ...this.targets.map((t) => t.node),
    );
    this.left = h(
      "div",
      { class: "wi-left" },
      this.#rowButtons(),
      this.controls.node,
      this.#sharing(),
    );
    this.section.append(
      h("p", {}, this.#introduction()),
      h("div", { class: "wi-sides" }, this.left, this.answers),
      this.said,
    );
    this.section.hidden = false;
  }

  #introduction() {
    const whose = {
      training:
        "Bars and lines show the training samples; outside their range the model is less certain.",
      rows: "Bars and lines show the samples of this report.",
      model: "Lines show the range of most training samples; outside it the model is less certain.",
    };
    return `This page runs the model: change a value to see the prediction. ${whose[this.model.range_of]}`;
  }

  #target(target, k) {
    const { model, columns } = this;
    const range = model.ranges[k];
    const classes = model.classes;
    const answer = classes ? new ClassesPanel(target, classes) : new ValuesPanel(target, range);
    const profile = new Profile(target, range, classes, (cell) =>
      this.change(this.along, cell, true),
    );
    profile.id = k;
    const influence = new Influence(columns, (i) => this.goAlong(i));
    const rows = model.rows;
    const observed = rows
      ? new Observed(target, k, model.targets.length, rows, range, classes, (i) => this.load(i))
      : null;
    const box = (title, ...nodes) => h("div", { class: "wi-box" }, h("h3", {}, ...title), ...nodes);
    const first = box([target], answer.node);
    first.classList.add("wi-first");
    const menu =
      k === 0 ? [h("label", { for: "wi-along" }, "Along "), this.menu] : ["Along the same column"];
    const node = h(
      "div",
      { class: "wi-target" },
      first,
      observed ? box(["Predicted against observed: click a row"], observed.node) : null,
      box(menu, profile.node),
      box(["Local feature effects"], influence.node),
    );
    return { node, answer, profile, influence, observed };
  }

  #rowButtons() {
    const rows = this.model.rows;
    const button = (text, label, onclick) =>
      h("button", { type: "button", "aria-label": label, onclick }, text);
    this.rowName = h("output", {}, "typical row");
    const step = (by) => {
      const n = rows.numbers.length;
      this.load(this.row === null ? (by > 0 ? 0 : n - 1) : (this.row + by + n) % n);
    };
    return h(
      "div",
      { class: "wi-buttons" },
      button("Typical row", "Load a typical row", () => this.set(this.typical, this.typicalRow)),
      rows ? button("‹", "Load the row before", () => step(-1)) : null,
      this.rowName,
      rows ? button("›", "Load the next row", () => step(1)) : null,
    );
  }

  #sharing() {
    this.line = h("textarea", {
      readonly: true,
      rows: 3,
      spellcheck: "false",
      "aria-label": "The row as CSV, for probprop predict",
    });
    const copy = (text, what) => async () => {
      await copied(text());
      this.said.textContent = `Copied ${what}.`;
    };
    const button = (text, onclick) => h("button", { type: "button", onclick }, text);
    return h(
      "div",
      { class: "wi-sharing" },
      h("h3", {}, "This row for `probprop predict`"),
      this.line,
      button(
        "Copy row",
        copy(() => this.line.value, "the row"),
      ),
      button(
        "Copy link",
        copy(() => location.href.split("#")[0] + this.hash(), "the link"),
      ),
    );
  }

  // ---- What happens

  // `again`: by pointing at a picture, so the control has to follow.
  change(i, cell, again = false) {
    const column = this.columns[i];
    const value =
      again && column.kind === "number" && cell !== null ? this.controls.each[i].snap(cell) : cell;
    this.set(this.cells.with(i, value), null);
  }

  load(row) {
    this.set(
      this.model.rows.cells.map((column) => column[row]),
      row,
    );
  }

  set(cells, row) {
    this.cells = cells;
    this.row = row;
    this.update();
  }

  goAlong(i) {
    this.along = i;
    this.update();
  }

  hash() {
    return toHash(this.cells, this.columns, this.along, this.model.takes_gaps);
  }

  restore(hash) {
    const found = hash === this.kept ? null : fromHash(hash, this.columns, this.model.takes_gaps);
    if (found) {
      const given = (cell, i) => (found.cells[i] === undefined ? cell : found.cells[i]);
      const says = found.cells.some((cell) => cell !== undefined);
      this.cells = says ? this.typical.map(given) : this.typical;
      this.along = found.along < 0 ? this.model.order[0] : found.along;
      this.row = says ? null : this.typicalRow;
    }
    this.update();
  }

  update() {
    this.controls.show(this.cells);
    this.menu.value = String(this.along);
    this.rowName.textContent = this.#rowWords();
    this.line.value = csv(this.cells, this.columns, this.model.takes_gaps);
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      this.draw();
    });
    clearTimeout(this.quiet);
    this.quiet = setTimeout(() => this.#settle(), QUIET);
  }

  #rowWords() {
    const typical = this.cells === this.typical;
    if (this.row === null) return typical ? "the middle of each column" : "your row";
    return `${typical ? "typical: " : ""}row ${this.model.rows.numbers[this.row]}`;
  }

  draw() {
    const tooFar = this.model.tooFar(this.cells);
    this.far.hidden = !tooFar;
    this.section.classList.toggle("wi-stopped", tooFar);
    if (tooFar) return;
    [this.here] = this.model.predict([this.cells]);
    this.targets.forEach(({ answer, observed }, k) => {
      answer.show(this.here[k]);
      observed?.show(this.row);
    });
    this.now.textContent = this.targets.map(({ answer }) => answer.brief).join(" · ");
    this.stale = true;
    this.more ??= this.drawMore().finally(() => (this.more = null));
  }

  get words() {
    return this.targets.map(({ answer }) => answer.words).join(". ");
  }

  // The pictures that need many predictions, a few at a time, so that a slider never waits for them.
  async drawMore() {
    while (this.stale) {
      this.stale = false;
      await this.#drawAlong();
      if (!this.stale) await this.#drawInfluence();
    }
  }

  async #predict(rows) {
    const found = [];
    let start = performance.now();
    for (let i = 0; i < rows.length; i += PIECE) {
      if (performance.now() - start > FRAME) {
        await new Promise((done) => setTimeout(done));
        start = performance.now();
      }
      found.push(...this.model.predict(rows.slice(i, i + PIECE)));
    }
    return found;
  }

  async #drawAlong() {
    const { columns, cells, along } = this;
    const way = path(columns[along], cells[along]);
    const predicted = await this.#predict(
      way ? way.cells.map((cell) => cells.with(along, cell)) : [],
    );
    this.targets.forEach(({ profile }, k) => {
      profile.show(
        columns[along],
        cells[along],
        way,
        predicted.map((p) => p[k]),
      );
    });
  }

  async #drawInfluence() {
    const { columns, cells, here, model } = this;
    const { classes } = model;
    const proba = here[0].proba;
    // The positive class of two, or the most probable one.
    const c = !classes ? null : classes.length === 2 ? 1 : proba.indexOf(Math.max(...proba));
    const value = classes ? (p) => p.proba[c] : (p) => p.mean;
    const outputs = model.targets.map((_, k) => ({ value, c, k }));
    const found = await influences(columns, cells, (rows) => this.#predict(rows), outputs);
    this.targets.forEach(({ answer, influence }, k) => {
      const [of, format] = classes
        ? [`the probability of ${classes[c]}`, points]
        : [`the mean of ${model.targets[k]}`, undefined];
      const whose =
        model.members.length > 1 ? "over the networks" : "of a difference of two predictions";
      influence.show(found[k], `Change of ${of} ${CHANGE} ${whose}.`, format);
      answer.showDoubt?.(here[k]);
    });
  }

  #settle() {
    this.said.textContent = this.words;
    this.kept = this.hash();
    try {
      history.replaceState(null, "", this.kept);
    } catch {
      // A page inside another one may have no history; the link can still be copied.
    }
  }
}
