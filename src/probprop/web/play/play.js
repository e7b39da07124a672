"use strict";
/* The page: two tabs, each with its points, its settings and its picture; learns at every change.
 * `window.play` says what is shown, for tests.
 */
(async () => {
  const element = (id) => document.getElementById(id);
  const presets = JSON.parse(element("presets").textContent);
  const tools = element("tools");
  const readout = element("readout");
  const USUAL = {
    curve: { ...PROTOCOLS.paper, seed: 0 },
    plane: { ...PROTOCOLS.paper, evidence_cap: 10, seed: 0 }, // as PBPClassifier
  };

  let kernel;
  try {
    kernel = await ProbpropKernel.loadPacked(element("kernel").textContent);
  } catch (error) {
    readout.textContent = `The kernel cannot run in this browser: ${error.message}`;
    return;
  }
  const learning = ProbpropLearning(kernel);

  let active = null;
  let waiting = false;
  let hover = null;
  let resting = 0; // what waits until a point that is dragged rests
  const [SLOW, REST] = [80, 120]; // milliseconds
  const say = (text) => (element("live").textContent = text);

  function schedule() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      update(active);
    });
  }

  // ---- A tab

  function makeTab(name) {
    const panel = element(`panel-${name}`);
    const plot = Plot(panel.querySelector(".plot"));
    const tab = { name, panel, plot, settings: { ...USUAL[name] }, stale: true, shown: null };
    tab.points = Points(plot, {
      say,
      label: () => (name === "plane" ? Number(tools.label.value) : null),
      changed: () => {
        tab.stale = true;
        own(tab);
        schedule();
      },
      hovered: (place) => {
        hover = place;
        schedule();
      },
    });
    tab.view = name === "curve" ? Curve(plot, learning) : Plane(plot, panel.querySelector("canvas"), learning);
    return tab;
  }

  // Points that were changed no longer belong to a preset.
  function own(tab) {
    tools[`preset-${tab.name}`].value = "own";
  }
  function load(tab, key) {
    const preset = presets[tab.name][key];
    tab.settings = { ...USUAL[tab.name], ...preset.settings };
    tab.plot.setAxes(preset.axes);
    tab.points.set(preset.points);
    tools[`preset-${tab.name}`].value = key;
    controls.show(tab.settings);
  }

  function update(tab) {
    if (!tab.plot.resize()) return;
    const points = tab.points.all;
    clearTimeout(resting);
    if (tab.stale && tab.points.dragging && play.milliseconds > SLOW) {
      tab.points.draw(); // the point follows at once, the model when it rests
      resting = setTimeout(() => learn(tab), REST);
      return;
    }
    learn(tab);
  }
  function learn(tab) {
    const points = tab.points.all;
    if (tab.stale) {
      const start = performance.now();
      tab.view.learn(points, tab.settings);
      play.milliseconds = performance.now() - start;
      play.n_fits += 1;
      tab.stale = false;
      element("python").textContent = inPython(points, tab.settings, tab.name === "plane");
    }
    tab.shown = tab.view.draw({ functions: controls.functions() });
    tab.points.draw();
    tab.panel.querySelector(".hint").hidden = points.length > 0;
    readout.textContent = hover ? tab.view.wordsAt(hover) : WELCOME[tab.name];
    const n = points.length;
    const { n_epochs } = tab.settings;
    const updates = (n * n_epochs).toLocaleString("en");
    element("status").textContent =
      n === 0
        ? "Before the first point: the prior."
        : `${n} ${n === 1 ? "point" : "points"}, ${n_epochs} ${n_epochs === 1 ? "epoch" : "epochs"}: ` +
          `${updates} updates in ${play.milliseconds.toFixed(play.milliseconds < 10 ? 1 : 0)} ms.`;
  }
  const WELCOME = {
    curve: "Click to place points, drag to move them. Point at the curve to read it.",
    plane: "Click to place points of either class, drag to move them.",
  };

  // ---- Controls

  const controls = Controls((settings) => {
    if (settings) change(settings);
    schedule();
  });
  function change(settings) {
    active.settings = { ...active.settings, ...settings };
    active.stale = true;
    schedule();
  }
  function set(settings) {
    change(settings);
    controls.show(active.settings);
  }
  for (const button of document.querySelectorAll("[data-protocol]"))
    button.addEventListener("click", () => set(PROTOCOLS[button.dataset.protocol]));
  element("reseed").addEventListener("click", () => set({ seed: active.settings.seed + 1 }));
  element("clear").addEventListener("click", () => {
    load(active, "blank");
    say("All points are erased.");
  });
  tools.addEventListener("submit", (event) => event.preventDefault());
  tools.addEventListener("change", (event) => {
    const { name, value } = event.target;
    if (name.startsWith("preset-")) load(active, value);
    if (name === "mode") for (const tab of Object.values(play.tabs)) tab.points.mode = value;
  });

  function choose(name) {
    active = play.tabs[name];
    hover = null;
    for (const other of Object.keys(play.tabs)) {
      const chosen = other === name;
      const button = element(`tab-${other}`);
      button.setAttribute("aria-selected", chosen);
      button.tabIndex = chosen ? 0 : -1;
      element(`panel-${other}`).hidden = !chosen;
      for (const part of document.querySelectorAll(`.of-${other}`)) part.hidden = !chosen;
    }
    controls.show(active.settings);
    active.stale = true;
    schedule();
  }
  const order = ["curve", "plane"];
  for (const name of order) {
    const button = element(`tab-${name}`);
    button.addEventListener("click", () => choose(name));
    button.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      const next = order[1 - order.indexOf(name)];
      choose(next);
      element(`tab-${next}`).focus();
    });
  }

  // ---- The page around it may say which colors it has, and wants to know how high this one is.

  if (window.parent !== window)
    new ResizeObserver(([{ target }]) => {
      window.parent.postMessage({ height: target.getBoundingClientRect().height }, "*");
    }).observe(document.body);

  window.addEventListener("message", ({ data }) => {
    if (data?.theme !== "light" && data?.theme !== "dark") return;
    document.documentElement.dataset.theme = data.theme;
    schedule();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", schedule);

  // ---- Begin

  const play = { tabs: {}, n_fits: 0, milliseconds: 0, kernel, learning, active: () => active };
  for (const name of order) play.tabs[name] = makeTab(name);
  for (const [name, tab] of Object.entries(play.tabs)) {
    active = tab;
    load(tab, Object.keys(presets[name])[0]);
  }
  choose("curve");
  new ResizeObserver(schedule).observe(document.querySelector(".board"));
  window.play = play;
})();
