// What is predicted of a class: the probability of each, and the two kinds of doubt.

import { h, percent } from "./drawing.js";

const MOST = 10; // classes that are listed

export class ClassesPanel {
  constructor(target, classes) {
    this.target = target;
    this.classes = classes;
    this.answer = h("p", { class: "wi-answer" });
    this.list = h("ul", { class: "wi-classes" });
    this.doubt = h("div", { class: "wi-split", role: "img" });
    this.node = h("div", { class: "wi-panel" }, this.answer, this.list, this.doubt);
  }

  get brief() {
    return `${this.target}: ${this.name}, ${percent(this.p)}`;
  }

  get words() {
    return `${this.target}: ${this.name} with ${percent(this.p)}`;
  }

  show(predicted) {
    const { proba } = predicted;
    const order = proba.map((_, c) => c).sort((a, b) => proba[b] - proba[a] || a - b);
    const told = proba.length === 2 ? 1 : order[0]; // the positive class of two
    [this.name, this.p] = [this.classes[told], proba[told]];
    const [first, second] =
      proba.length === 2
        ? [percent(this.p), `probability of ${this.name}`]
        : [this.name, `with ${percent(this.p)}`];
    this.answer.replaceChildren(h("strong", {}, first), h("span", { class: "wi-between" }, second));
    // In the order of the classes, so that nothing jumps; of many, the most probable ones.
    const listed = order.slice(0, MOST).sort((a, b) => a - b);
    this.list.replaceChildren(
      ...listed.map((c) =>
        h(
          "li",
          {},
          h("span", { class: "wi-name", title: this.classes[c] }, this.classes[c]),
          h("span", { class: "wi-bar" }, h("i", { style: `width:${100 * proba[c]}%` })),
          h(
            "span",
            { class: "wi-p", "data-name": this.classes[c], "data-value": proba[c] },
            percent(proba[c]),
          ),
        ),
      ),
    );
  }

  // The entropy takes longer: it is shown when there is time.
  showDoubt(predicted) {
    const { entropyModel: model, entropyNoise: noise } = predicted;
    const most = Math.log(this.classes.length);
    const rest = Math.max(0, most - model - noise);
    const part = (name, value) => h("span", { class: name, style: `flex-grow:${value / most}` });
    const words = [
      `epistemic: ${model.toFixed(3)}`,
      `aleatoric: ${noise.toFixed(3)} of at most ${most.toFixed(3)} nats`,
    ];
    this.doubt.setAttribute("aria-label", `Entropy. ${words.join("; ")}`);
    this.doubt.replaceChildren(
      h("div", {}, part("wi-model", model), part("wi-noise", noise), part("wi-rest", rest)),
      h(
        "p",
        { "data-name": "entropy_model", "data-value": model },
        h("i", { class: "wi-model" }),
        ` ${words[0]}`,
      ),
      h(
        "p",
        { "data-name": "entropy_noise", "data-value": noise },
        h("i", { class: "wi-noise" }),
        ` ${words[1]}`,
      ),
    );
  }
}
