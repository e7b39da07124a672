"""The WebAssembly kernel gives the numbers of the native one: in node, and in a browser's page."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wasm_cases
from browser import NEEDS_CHROMIUM, Browser
from probprop.web import content_security_policy, packed_kernel, text_of

HERE = Path(__file__).parent
LEARNING = ("kernel.js", "learning.js")
NODE = shutil.which("node")
# Relative to the largest entry of an array: means and prior factors cross zero.
RTOL = 1e-10

Pair = tuple[wasm_cases.Case, wasm_cases.Answer]


def assert_answers(pairs: Sequence[Pair], answers: list[dict[str, Any]]) -> None:
    for (case, expected), answer in zip(pairs, answers, strict=True):
        for name, value in expected.items():
            wanted, got = (np.asarray(a, float).ravel() for a in (value, answer[name]))
            scale = np.abs(wanted).max(initial=1e-3)
            what = f"{name} of {case['kind']}, {case.get('likelihood', case.get('settings'))}"
            np.testing.assert_allclose(got, wanted, rtol=0, atol=RTOL * scale, err_msg=what)


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    made = [*wasm_cases.of_oracles(), *wasm_cases.at_random(range(8))]
    made += [*wasm_cases.of_distributions(range(12)), *wasm_cases.of_estimators()]
    made += wasm_cases.of_listed_rows(range(6))
    named = {case.get("likelihood", case["kind"]) for case, _ in made}
    assert named >= {"gaussian", "heavy", "probit", "multinomial", "forward", "gradient", "scale"}
    assert named >= {"normal", "mixture", "power"}
    return made


def in_node(cases: list[wasm_cases.Case]) -> list[dict[str, Any]]:
    assert NODE is not None
    web = files("probprop.web")
    own = [web / name for name in ("kernel.wasm", *LEARNING)]
    scripts = [*own, HERE / "run_cases.js"]
    done = subprocess.run(
        [NODE, HERE / "run_in_node.js", *map(str, scripts)],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_in_node(pairs: list[Pair]) -> None:
    assert_answers(pairs, in_node([case for case, _ in pairs]))


@pytest.mark.skipif(NODE is None, reason="node is not installed")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"likelihood": "cauchy"}, "the likelihood must be one of gaussian, probit, "),
        ({"y": [1.0]}, "y must have "),
        ({"X": [1.0]}, "X must have 6 entries in each row"),
        ({"X": {"indptr": [0, 1], "indices": [6], "values": [1.0]}}, "of no input"),
        ({"X_var": [1.0]}, "X and X_var must have the same shape"),
        ({"posterior": {"m_w": [1.0]}}, "these sizes need "),
        ({"posterior": {"v_hat_nat": [1.0]}}, "the prior factors do not fit sizes"),
        ({"posterior": {"alpha_noise": []}}, "there must be "),
        (
            {"likelihood": "probit", "posterior": {"alpha_noise": [2.0]}},
            "of a probit are 1 or -1",
        ),
    ],
)
def test_what_the_wrapper_refuses(change: dict[str, Any], message: str) -> None:
    task, seed = wasm_cases.made_task("gaussian", 0)
    case, _ = wasm_cases.training(task, seed)
    posterior = case["posterior"] | change.get("posterior", {})
    refused = case | change | {"kind": "refusal", "posterior": posterior}
    (answer,) = in_node([refused])
    assert message in answer["message"]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page that holds the kernel under the policy of all pages of this package."""
    scripts = [*map(text_of, LEARNING), (HERE / "run_cases.js").read_text()]
    tags = "".join(f"<script>{script}</script>" for script in scripts)
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(
        f"""<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Kernel</title>
        <meta http-equiv="Content-Security-Policy" content="{content_security_policy(scripts, [])}">
        <link rel="icon" href="data:,"></head>
        <body><template id="kernel">{packed_kernel()}</template>{tags}</body></html>""",
        "utf-8",
    )
    return path


class TestInTheBrowser:
    pytestmark = NEEDS_CHROMIUM

    def test_the_same_numbers(self, browser: Browser, page: Path, pairs: list[Pair]) -> None:
        browser.open(page)
        cases = json.dumps([case for case, _ in pairs])
        answers = browser.evaluate(
            f"""ProbpropKernel.loadPacked(document.querySelector("#kernel").innerHTML)
                .then((kernel) => runCases(kernel, {cases}))"""
        )
        assert_answers(pairs, answers)
        assert browser.said() == []
        assert browser.requests() == [page.as_uri()]

    def test_memory_is_given_back(self, browser: Browser, page: Path, pairs: list[Pair]) -> None:
        browser.open(page)
        cases = json.dumps([case for case, _ in pairs[:40]])
        grown = browser.evaluate(
            f"""ProbpropKernel.loadPacked(document.querySelector("#kernel").innerHTML)
                .then((kernel) => {{
                    const cases = {cases};
                    runCases(kernel, cases);
                    const before = kernel.wasm.memory.buffer.byteLength;
                    for (let i = 0; i < 50; ++i) runCases(kernel, cases);
                    return kernel.wasm.memory.buffer.byteLength - before;
                }})"""
        )
        assert grown == 0
