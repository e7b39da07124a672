"use strict";
// node run_in_node.js kernel.wasm SCRIPT...: the cases on stdin, the answers on stdout.
const fs = require("fs");
const vm = require("vm");

const [module_, ...scripts] = process.argv.slice(2);
const texts = scripts.map((path) => fs.readFileSync(path, "utf8"));
vm.runInThisContext(`${texts.join("\n")}
  globalThis.load = ProbpropKernel.load; globalThis.runCases = runCases;`);
globalThis
  .load(fs.readFileSync(module_))
  .then((kernel) => {
    const cases = JSON.parse(fs.readFileSync(0, "utf8"));
    process.stdout.write(JSON.stringify(globalThis.runCases(kernel, cases)));
  });
