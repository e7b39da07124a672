"""Interrupted comparisons resume from their checkpoint, to the same bits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import KFold

from cv_models import ENCODED, LABELS, PRICES, X, Y, small, small_classifier
from interruptions import Steps, Stop
from limits import Limits
from probprop import Candidate
from probprop.inference import checkpoint as module
from probprop.inference.checkpoint import CheckpointError
from probprop.inference.posterior import flat

# Networks of a few units on a few samples undo updates now and then.
pytestmark = pytest.mark.filterwarnings("ignore:In .* updates")


@pytest.fixture(autouse=True)
def _always_written(limits: Limits) -> None:
    limits.seconds_between_checkpoints(0.0)


def bits(model: Any) -> list[object]:
    found: list[object] = [
        repr([vars(trial) for trial in getattr(model, "trials_", [])]),
        repr(vars(model).get("calibration_")),
    ]
    for member in model.estimators_:
        q = member.posterior_
        found += [flat(q.m_w).tobytes(), flat(q.v_w).tobytes(), member.history_]
        found += [member.log_evidence_, member.n_samples_seen_]
    return found


CASES = {
    "values": (small, Y),
    "one evidence cap, two partitions": (lambda: small(cv=3, candidates=[ENCODED]), Y),
    "a power": (lambda: small(candidates="auto"), PRICES),
    "labels": (small_classifier, LABELS),
    "a splitter": (lambda: small(cv=KFold(3)), Y),
    "a large table": (small, Y),
    "a large table, a power": (lambda: small(candidates="auto"), PRICES),
}


@pytest.mark.parametrize("case", CASES)
def test_a_comparison_resumes_to_the_same_bits(
    case: str, tmp_path: Path, limits: Limits, steps: Steps
) -> None:
    if "large" in case:
        limits.large_from(len(X))
    new, y = CASES[case]
    never_stopped = bits(new().fit(X, y))
    steps.n = 0
    path = tmp_path / "run.ckpt"
    model = new().fit(X, y, checkpoint=path)
    assert bits(model) == never_stopped
    whole, steps.n = steps.n, 0
    assert bits(new().fit(X, y, checkpoint=path)) == never_stopped  # nothing is left to do
    assert steps.n == 0
    path.unlink()

    # Broken off after every third step, wherever that is.
    def stop(*_: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Stop

    steps.before = stop
    resumed = None
    while resumed is None:
        left = 3
        try:
            resumed = new().fit(X, y, checkpoint=path)
        except Stop:
            assert path.exists()
    assert bits(resumed) == never_stopped
    assert steps.n == whole  # no step was made twice
    assert [p.name for p in tmp_path.iterdir()] == ["run.ckpt"]


def test_ctrl_c_keeps_the_best_so_far_and_the_file_resumes(tmp_path: Path, steps: Steps) -> None:
    never_stopped = bits(small().fit(X, Y))
    steps.n = 0

    def press(*_: Any) -> None:
        if steps.n == 3:  # before the fourth
            steps.n = 0
            raise KeyboardInterrupt

    steps.before = press
    with pytest.warns(RuntimeWarning, match="Ctrl-C ended the comparison"):
        assert small().fit(X, Y, checkpoint=tmp_path / "c").n_iter_ == 20
    steps.before = lambda *_: None
    assert bits(small().fit(X, Y, checkpoint=tmp_path / "c")) == never_stopped


def test_what_would_not_be_the_same_search_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c"
    small(cv=KFold(3)).fit(X, Y, checkpoint=path)

    def refused(match: str, model: Any, *data: Any) -> None:
        with pytest.raises(CheckpointError, match=match):
            model.fit(*(data or (X, Y)), checkpoint=path)
        assert not hasattr(model, "estimators_")

    refused("random_state was 0 and is 1", small(cv=KFold(3), random_state=1))
    refused("budget was 'fast' and is 'good'", small(cv=KFold(3), budget="good"))
    refused("candidates was .* and is", small(cv=KFold(3), candidates=[ENCODED]))
    refused("is of other data", small(cv=KFold(3)), X, -Y)
    refused("is of other data", small(cv=KFold(3)), X, Y, 1.0 + np.arange(150))
    refused("is of other data", small(cv=KFold(5)))  # other folds
    with pytest.raises(ValueError, match="random_state must be an int"):
        small(random_state=None).fit(X, Y, checkpoint=tmp_path / "other")


SCRIPT = """
import sys
sys.path.insert(0, sys.argv[2])
from cv_models import X, Y, small
from probprop.estimators.cv import search
from probprop.inference import checkpoint, posterior
checkpoint._SECONDS_BETWEEN = 0.0
advance = search.advance
def said(*arguments):
    print("step", flush=True)
    return advance(*arguments)
search.advance = said
model = small(budget="good").fit(X, Y, checkpoint=sys.argv[1] or None)
print("".join(posterior.flat(m.posterior_.m_w).tobytes().hex() for m in model.estimators_))
"""


def test_a_stage_with_more_epochs_than_its_rung_is_refused(tmp_path: Path, limits: Limits) -> None:
    path = tmp_path / "c"
    small().fit(X, Y, checkpoint=path)
    limits.epochs_of_fast(4, 8)
    with pytest.raises(CheckpointError, match="does not have the epochs that it made"):
        small().fit(X, Y, checkpoint=path)


@pytest.mark.process
def test_a_killed_comparison_resumes(tmp_path: Path) -> None:
    def command(path: str) -> list[str]:
        return [sys.executable, "-c", SCRIPT, path, str(Path(__file__).parents[2])]

    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    path = str(tmp_path / "c")
    for _ in range(2):
        with subprocess.Popen(
            command(path), stdout=subprocess.PIPE, env=environment, text=True
        ) as process:
            assert process.stdout is not None
            for _ in range(5):
                assert process.stdout.readline() == "step\n"
            process.send_signal(signal.SIGKILL)
            process.communicate()
        assert os.path.exists(path)
    resumed, whole = (
        subprocess.run(command(p), check=True, capture_output=True, env=environment, text=True)
        for p in (path, "")
    )
    *steps, networks = resumed.stdout.splitlines()
    *all_steps, expected = whole.stdout.splitlines()
    assert networks == expected
    assert len(steps) <= len(all_steps) - 8


def test_steps_between_two_comparisons_are_dropped(tmp_path: Path) -> None:
    small().fit(X, Y, checkpoint=tmp_path / "c")
    file = module.CheckpointFile(tmp_path / "c", "", {})
    file._check = lambda about: None  # type: ignore[method-assign]
    found = {int(part.label): part.state.n_iter for part in file.read()}
    # 20, 40 and 80 epochs of the search, of two steps and four, then the second partition's.
    assert [*found.values()][:3] == [20, 40, 80]


# What the file was written with, then the same, then another: as Python and NumPy have them.
AS_NUMPY = {
    "candidates": (
        [
            {
                "n_bins": np.int64(4),
                "hidden_layer_sizes": np.array([4]),
                "evidence_cap": np.float64(3.0),
            }
        ],
        [{"n_bins": 4, "hidden_layer_sizes": [4], "evidence_cap": 3}],
        [
            {
                "n_bins": np.int64(4),
                "hidden_layer_sizes": np.array([4]),
                "evidence_cap": np.float64(4.0),
            }
        ],
    ),
    "hidden_layer_sizes": (
        np.array([Candidate(4, np.array([4]))], object),
        [Candidate(np.int64(4), 4)],
        [Candidate(4, np.array([5]))],
    ),
    "random_state": (np.int64(0), 0, np.int64(1)),
    "cv": (np.int64(2), 2, np.int64(3)),
    "budget": (np.str_("fast"), "fast", np.str_("good")),
}


@pytest.mark.parametrize("case", AS_NUMPY)
def test_parameters_of_numpy_types_are_compared_by_value(case: str, tmp_path: Path) -> None:
    name, path = "candidates" if case == "hidden_layer_sizes" else case, tmp_path / "c"
    usual: dict[str, Any] = {"candidates": [ENCODED]}
    first, same, other = ({**usual, name: value} for value in AS_NUMPY[case])
    expected = small(**first).fit(X, Y, checkpoint=path).predict(X)
    np.testing.assert_array_equal(small(**same).fit(X, Y, checkpoint=path).predict(X), expected)
    with pytest.raises(CheckpointError, match=rf"other parameters .*{name} was .* and is .*remove"):
        small(**other).fit(X, Y, checkpoint=path)
