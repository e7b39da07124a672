"use strict";
/* Points that are placed, moved and erased in a plot: by mouse, finger or keyboard.
 *
 *   points = Points(plot, {changed, hovered, say, label})
 *   points.all                       // [{x, y, label}], read and set with points.set(list)
 *   points.mode = "place" or "erase"; points.dragging
 *
 * changed() is called after every change, hovered(place or null) as the pointer or the keyboard's
 * cursor moves, say(text) for screen readers; label() is the class of new points, null where there is one
 * kind only.
 */
const Points = (plot, { changed, hovered, say, label }) => {
  const REACH = { mouse: 11, pen: 14, touch: 24 }; // pixels
  const CIRCLE = "M-5,0a5,5,0,1,0,10,0a5,5,0,1,0,-10,0";
  const SQUARE = "M-4.5,-4.5h9v9h-9z";
  const STEPS = 60; // of the keyboard's cursor, over an axis
  const { svg } = plot;
  const layer = svg.querySelector(".points");
  const cross = svg.querySelector(".cross");
  const state = { all: [], mode: "place", picked: null, cursor: null };
  let held = null; // the index of the point that is dragged, or "eraser"

  const distance = (point, place) =>
    Math.hypot(plot.px(point.x) - plot.px(place.x), plot.py(point.y) - plot.py(place.y));
  function nearest(place, reach) {
    let [best, found] = [reach, null];
    state.all.forEach((point, i) => {
      if (distance(point, place) <= best) [best, found] = [distance(point, place), i];
    });
    return found;
  }

  // ---- Changes

  function add(place) {
    state.all.push({ ...plot.clamp(place), label: label() });
    changed();
    return state.all.length - 1;
  }
  function move(i, place) {
    state.all[i] = { ...state.all[i], ...plot.clamp(place) };
    changed();
  }
  function erase(i) {
    state.all.splice(i, 1);
    state.picked = null;
    changed();
  }
  function set(list) {
    state.all = list.map((point) => ({ label: null, ...point }));
    state.picked = null;
    state.cursor = null;
    changed();
  }

  // ---- Mouse and finger

  svg.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !event.isPrimary) return;
    event.preventDefault();
    svg.focus({ preventScroll: true });
    svg.classList.add("by-pointer");
    state.cursor = state.picked = null;
    const place = plot.at(event);
    const found = nearest(place, REACH[event.pointerType] ?? REACH.mouse);
    if (state.mode === "erase") {
      held = "eraser";
      if (found !== null) erase(found);
    } else {
      held = found ?? add(place);
    }
    svg.setPointerCapture(event.pointerId);
    draw();
  });
  svg.addEventListener("pointermove", (event) => {
    const place = plot.at(event);
    const found = nearest(place, REACH[event.pointerType] ?? REACH.mouse);
    svg.classList.toggle("over-point", found !== null);
    if (held === "eraser" && found !== null) erase(found);
    else if (typeof held === "number") move(held, place);
    hovered(plot.clamp(place));
  });
  for (const end of ["pointerup", "pointercancel"])
    svg.addEventListener(end, () => {
      if (held === null) return;
      held = null;
      draw();
      hovered(null);
    });
  svg.addEventListener("pointerleave", () => hovered(null));
  svg.addEventListener("contextmenu", (event) => {
    const found = nearest(plot.at(event), REACH.mouse);
    if (found === null) return;
    event.preventDefault();
    erase(found);
  });

  // ---- Keyboard: a cursor, or the point that is picked, is moved by the arrows.

  const span = (axis) => plot.axes()[axis][1] - plot.axes()[axis][0];
  const inPlot = ({ x, y }) => `x ${inWords(x, span("x"))}, y ${inWords(y, span("y"))}`;
  const ofPoint = (i) => `Point ${i + 1} of ${state.all.length}, ${inPlot(state.all[i])}.`;

  function place() {
    if (state.picked !== null) return state.all[state.picked];
    const middle = (axis) => (plot.axes()[axis][0] + plot.axes()[axis][1]) / 2;
    return state.cursor ?? { x: middle("x"), y: middle("y") };
  }
  function step(right, up, far) {
    const from = place();
    const by = far ? 5 / STEPS : 1 / STEPS;
    const to = plot.clamp({ x: from.x + right * by * span("x"), y: from.y + up * by * span("y") });
    if (state.picked !== null) move(state.picked, to);
    else state.cursor = to;
    say(state.picked !== null ? ofPoint(state.picked) : `Cursor at ${inPlot(to)}.`);
    hovered(to);
  }
  function pick(by) {
    const n = state.all.length;
    if (n === 0) return say("There are no points.");
    const last = by > 0 ? -1 : 0;
    state.picked = ((state.picked ?? last) + by + n) % n;
    hovered(state.all[state.picked]);
    say(ofPoint(state.picked));
  }
  const KEYS = {
    ArrowLeft: (far) => step(-1, 0, far),
    ArrowRight: (far) => step(1, 0, far),
    ArrowUp: (far) => step(0, 1, far),
    ArrowDown: (far) => step(0, -1, far),
    PageUp: () => pick(-1),
    PageDown: () => pick(1),
    Enter: () => {
      if (state.picked !== null) return;
      state.cursor = place();
      add(state.cursor);
      say(`Placed at ${inPlot(state.cursor)}; ${state.all.length} points.`);
    },
    Delete: () => {
      if (state.picked === null) return;
      erase(state.picked);
      say(`Erased; ${state.all.length} points are left.`);
    },
    Escape: () => {
      state.picked = state.cursor = null;
      hovered(null);
    },
  };
  KEYS[" "] = KEYS.Enter;
  KEYS.Backspace = KEYS.Delete;
  svg.addEventListener("keydown", (event) => {
    if (!(event.key in KEYS) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    svg.classList.remove("by-pointer");
    KEYS[event.key](event.shiftKey);
    draw();
  });
  svg.addEventListener("blur", () => {
    state.picked = state.cursor = null;
    draw();
  });

  // ---- What is seen

  function draw() {
    while (layer.children.length > state.all.length) layer.lastChild.remove();
    while (layer.children.length < state.all.length) layer.append(svgElement("path"));
    state.all.forEach((point, i) => {
      const mark = layer.children[i];
      const kind = point.label === null ? "" : point.label > 0 ? "plus" : "minus";
      const chosen = i === state.picked || i === held;
      const [x, y] = [plot.px(point.x).toFixed(1), plot.py(point.y).toFixed(1)];
      mark.setAttribute("d", kind === "minus" ? SQUARE : CIRCLE); // not by color alone
      mark.setAttribute("transform", `translate(${x},${y})${chosen ? " scale(1.4)" : ""}`);
      mark.setAttribute("class", `${kind} ${chosen ? "picked" : ""}`.trim());
    });
    const at = state.cursor;
    cross.setAttribute("visibility", at && state.picked === null ? "visible" : "hidden");
    if (at) {
      const [x, y] = [plot.px(at.x), plot.py(at.y)];
      cross.setAttribute("d", `M${x - 9},${y}h18M${x},${y - 9}v18`);
    }
  }

  return {
    set,
    draw,
    get all() {
      return state.all;
    },
    get dragging() {
      return held !== null;
    },
    set mode(mode) {
      state.mode = mode;
      svg.classList.toggle("erasing", mode === "erase");
    },
  };
};
