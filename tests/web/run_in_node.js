"use strict";
// node run_in_node.js kernel.js kernel.wasm run_cases.js: cases on stdin, answers on stdout.
const fs = require("fs");
const vm = require("vm");

const [script, module_, runner] = process.argv.slice(2);
const read = (path) => fs.readFileSync(path, "utf8");
vm.runInThisContext(`${read(script)}\n${read(runner)}
  globalThis.load = ProbpropKernel.load; globalThis.runCases = runCases;`);
globalThis
  .load(fs.readFileSync(module_))
  .then((kernel) => {
    const cases = JSON.parse(fs.readFileSync(0, "utf8"));
    process.stdout.write(JSON.stringify(globalThis.runCases(kernel, cases)));
  });
