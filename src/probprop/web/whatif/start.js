// Unpack the model, load the kernel and show the page; or say why there is none.

import { h } from "./drawing.js";
import { Model } from "./model.js";
import { Page } from "./page.js";
import { unpacked } from "./unpacking.js";

const text = (id) => document.getElementById(id).textContent;

// Numbers of one row, as `probprop predict` names them: for a console, and for tests.
function answer(model, given) {
  const cells = model.columns.map((column) =>
    Object.hasOwn(given, column.name) ? given[column.name] : null,
  );
  const [predicted] = model.predict([cells]);
  return predicted.map((p) => {
    if (model.classes) {
      return {
        proba: p.proba,
        entropy: p.entropy,
        entropy_model: p.entropyModel,
        entropy_noise: p.entropyNoise,
      };
    }
    const [lower, upper] = p.interval(0.95);
    const { mean, std, epistemicStd: epistemic_std, aleatoricStd: aleatoric_std } = p;
    return { mean, std, epistemic_std, aleatoric_std, lower, upper };
  });
}

async function start() {
  const section = document.getElementById("what-if");
  try {
    const kernel = await ProbpropKernel.loadPacked(text("what-if-kernel"));
    const model = new Model(await unpacked(text("what-if-model"), text("what-if-arrays")), kernel);
    const page = new Page(section, model);
    globalThis.whatIf = { page, predict: (given) => answer(model, given) };
  } catch (error) {
    const words =
      "This browser cannot run the model in the page; the report below does not need it.";
    section.replaceChildren(
      section.firstElementChild,
      h("p", {}, words, " ", h("small", {}, String(error))),
    );
    section.hidden = false;
  }
}

globalThis.whatIfReady = start();
