"use strict";
/* The controls of the model: forms to settings, and settings to forms and to Python.
 *
 *   controls = Controls(changed); controls.show(settings); controls.functions()
 *
 * changed(settings) is called with what is chosen, with null where the model stays as it is.
 */
const PROTOCOLS = {
  paper: {
    hidden: [50],
    n_epochs: 40,
    evidence_cap: null,
    noise: "constant",
    noise_tail: "gaussian",
  },
  // PBPRegressorCV often selects these for few samples; it calibrates out of fold, too.
  long: {
    hidden: [50],
    n_epochs: 160,
    evidence_cap: null,
    noise: "input",
    noise_tail: "gaussian",
  },
};

const Controls = (changed) => {
  const form = document.querySelector("#controls");
  const SCALES = {
    n_epochs: [1, 2, 5, 10, 20, 40, 80, 160, 320],
    evidence_cap: [1, 2, 5, 10, 20, 40, null],
    width: [2, 5, 10, 20, 50, 100],
  };
  const passes = (value) => (value === null ? "no cap" : value === 1 ? "1 × samples" : `${value} × samples`);
  const inWordsOf = (name, value) => (name === "evidence_cap" ? passes(value) : String(value));

  for (const [name, scale] of Object.entries(SCALES)) form[name].max = scale.length - 1;

  // The nearest place of a value on its scale.
  function place(name, value) {
    const size = (entry) => Math.log(entry ?? 1e9);
    const far = SCALES[name].map((entry) => Math.abs(size(entry) - size(value)));
    return far.indexOf(Math.min(...far));
  }
  const chosen = (name) => SCALES[name][Number(form[name].value)];

  function label() {
    for (const name of Object.keys(SCALES)) {
      const text = inWordsOf(name, chosen(name));
      form.querySelector(`output[for="${name}"]`).value = text;
      form[name].setAttribute("aria-valuetext", text);
    }
  }
  function show(settings) {
    form.n_epochs.value = place("n_epochs", settings.n_epochs);
    form.evidence_cap.value = place("evidence_cap", settings.evidence_cap);
    form.width.value = place("width", settings.hidden[0]);
    form.depth.value = String(settings.hidden.length);
    form.noise.value = settings.noise;
    form.noise_tail.value = settings.noise_tail;
    label();
  }
  const read = () => ({
    hidden: Array(Number(form.depth.value)).fill(chosen("width")),
    n_epochs: chosen("n_epochs"),
    evidence_cap: chosen("evidence_cap"),
    noise: form.noise.value,
    noise_tail: form.noise_tail.value,
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", ({ target }) => {
    label();
    changed(target === form.functions ? null : read()); // functions are drawn, not learned
  });

  return { show, functions: () => form.functions.checked };
};

// The code that makes the same model.
function inPython(points, settings, classes) {
  const list = (values) => `[${values.join(", ")}]`;
  const X = points.map(({ x, y }) => (classes ? `[${x}, ${y}]` : `[${x}]`));
  const y = points.map((point) => (classes ? point.label : point.y));
  const { hidden, n_epochs, evidence_cap, noise, noise_tail, seed } = settings;
  const name = classes ? "PBPClassifier" : "PBPRegressor";
  const given = [
    `(${hidden.join(", ")}${hidden.length === 1 ? "," : ""})`,
    `n_epochs=${n_epochs}`,
    `evidence_cap=${evidence_cap === null ? "None" : evidence_cap}`,
    ...(classes ? [] : [`noise="${noise}"`, `noise_tail="${noise_tail}"`]),
    `random_state=${seed}`,
  ];
  const predict = classes ? "p = model.predict_proba(X)" : "mean, std = model.predict(X, return_std=True)";
  return [
    `from probprop import ${name}`,
    "",
    `X = ${list(X)}`,
    `y = ${list(y)}`,
    `model = ${name}(\n    ${given.join(",\n    ")},\n)`,
    "model.fit(X, y)",
    predict,
  ].join("\n");
}
