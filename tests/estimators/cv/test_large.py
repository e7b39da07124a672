"""Large tables: validation sets, numbers of updates, and calibration."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import KFold

from cv_models import LABELS, PRICES, RAW, X, Y, small, small_classifier
from limits import Limits
from probprop import Candidate, PBPRegressorCV
from probprop.estimators.cv import policy
from probprop.estimators.cv.calibration import RegressionScorer
from probprop.estimators.cv.folds import Encodings, two_holdout_folds
from probprop.estimators.cv.policy import BUDGETS
from probprop.estimators.cv.search import Problem, begin_trials
from probprop.inference.likelihoods import Gaussian
from probprop.inference.posterior import flat

pytestmark = pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning")
N = len(Y)
N_HELD = 30


@pytest.fixture
def _small_is_large(limits: Limits) -> None:
    limits.large_from(N, held_out=N_HELD)
    values, labels = policy.REGRESSION, policy.CLASSIFICATION
    limits.of_policy(
        regression=(values[0], replace(values[-1], n_samples=N)),
        classification=(labels[0], replace(labels[-1], n_samples=N, n_folds=2)),
        min_rows_for_power=N_HELD,
    )


is_large = pytest.mark.usefixtures("_small_is_large")


def large(**parameters: Any) -> PBPRegressorCV:
    return small(**{"cv": "auto", **parameters})


def weights(model: Any) -> list[bytes]:
    return [flat(member.posterior_.m_w).tobytes() for member in model.estimators_]


# ---- The rules


@given(st.sampled_from([*BUDGETS]), st.integers(100_000, 50_000_000))
def test_epochs_of_any_table_have_the_same_number_of_updates(name: str, n_rows: int) -> None:
    rungs = policy.rungs_of(name, n_rows, n_rows)
    assert list(rungs) == sorted({*rungs})
    assert min(rungs) >= 1
    shown, wanted = rungs[-1] * n_rows, BUDGETS[name][-1] * policy.AS_IF
    assert wanted <= shown < wanted + n_rows


@given(st.integers(5, 120_000), st.integers(0, 99))
def test_both_ends_are_the_validation_set_and_the_rest_is_trained_on(
    n_rows: int, seed: int
) -> None:
    rng = np.random.RandomState(seed)
    (first, last), again = two_holdout_folds(n_rows, rng), two_holdout_folds(n_rows, rng)
    assert len(first.test) == len(last.test) == min(policy.HELD_OUT, n_rows // 5)
    assert first.test[-1] < last.test[0]
    for fold, other in zip((first, last), again, strict=True):
        assert_array_equal(np.sort(np.concatenate([fold.train, fold.test])), np.arange(n_rows))
        assert_array_equal(fold.test, other.test)
    assert len({fold.seed for fold in (first, last, *again)}) == 4


def test_no_network_has_a_copy_of_its_rows() -> None:
    folds = two_holdout_folds(N, np.random.RandomState(0))
    encodings = Encodings(X, np.dtype(np.float32))
    problem = Problem(encodings, Y, folds, RegressionScorer(Gaussian()))
    for trial in begin_trials([Candidate(4, (3,)), Candidate(4, (3, 2)), RAW], problem, folds):
        encoded = trial.trial.candidate.n_bins is not None
        for run in trial.runs:
            assert np.shares_memory(run.rows.X.X if encoded else run.rows.X, X)
            assert np.shares_memory(run.rows.y, Y)


# ---- What a fit makes of them


@is_large
def test_out_of_fold_predictions_are_made_by_networks_that_have_not_seen_the_rows() -> None:
    model = large(candidates=[RAW], budget="fast").fit(X, Y)
    assert len(model.estimators_) == 2
    assert len(model.oof_rows_) == len({*model.oof_rows_.tolist()}) == 2 * N_HELD
    assert [member.n_samples_seen_ for member in model.estimators_] == [N - N_HELD] * 2
    assert model.n_samples_seen_ == N
    assert model.calibration_.n_rows == 2 * N_HELD
    for half, fold in ((slice(N_HELD), 0), (slice(N_HELD, None), 1)):
        rows = model.oof_rows_[half]
        of_fold = model.estimators_[fold].predict(X[rows])
        assert_allclose(model.oof_predictive_.mean[half], of_fold, rtol=1e-6)
        y = Y.copy()
        y[rows[3]] += 1e-4  # one network is not trained on it, and no number of epochs changes
        changed = weights(large(candidates=[RAW], budget="fast").fit(X, y))
        same = [a == b for a, b in zip(weights(model), changed, strict=True)]
        assert same == [fold == 0, fold == 1]


@is_large
def test_it_does_not_depend_on_threads() -> None:
    one, two = (large(n_jobs=n).fit(X, Y) for n in (1, 2))
    assert weights(one) == weights(two)
    assert repr(one.calibration_) == repr(two.calibration_)


@is_large
def test_one_row_less_is_not_large() -> None:
    model = large(candidates=[RAW]).fit(X[:-1], Y[:-1])
    assert_array_equal(model.oof_rows_, np.arange(N - 1))


@is_large
def test_a_power_is_decided_by_one_network(limits: Limits) -> None:
    limits.of_policy(as_if=N)
    model = large(candidates="auto").fit(X, PRICES)
    assert model.calibration_.transformation is not None
    assert {group.candidate.power for group in model.groups_} == {
        model.calibration_.transformation.power
    }
    assert len(model.estimators_) == 2 * len(model.groups_)


@is_large
@pytest.mark.parametrize(
    ("cv", "groups", "n_folds"), [(KFold(3), None, 3), (4, np.arange(N) // 10, 4)]
)
def test_folds_and_groups_that_are_given_are_kept(cv: Any, groups: Any, n_folds: int) -> None:
    model = large(cv=cv, candidates=[RAW]).fit(X, Y, groups=groups)
    assert len(model.estimators_) == n_folds
    assert_array_equal(model.oof_rows_, np.arange(N))


@is_large
def test_rows_of_weight_0_are_left_out_and_not_counted() -> None:
    some = np.tile([1.0, 1.0, 0.0], 150)
    rows, y = np.tile(X, (3, 1)), np.tile(Y, 3)
    model = large(candidates=[RAW]).fit(rows, y, some)
    assert model.n_samples_seen_ == 300
    assert len(model.estimators_) == 2
    assert (some[model.oof_rows_] > 0.0).all()
    of_fold = model.estimators_[0].predict(rows[model.oof_rows_[:N_HELD]])
    assert_allclose(model.oof_predictive_.mean[:N_HELD], of_fold, rtol=1e-6)


@is_large
def test_labels() -> None:
    model = small_classifier(cv="auto", candidates=[RAW]).fit(X, LABELS)
    assert len(model.estimators_) == 2
    assert model.oof_predictive_.proba.shape == (2 * N_HELD, 3)
    assert model.partial_fit(X[:4], LABELS[:4]).n_samples_seen_ == N + 4


@is_large
@pytest.mark.parametrize("stage", ["comparing candidates", "training the best"])
def test_ctrl_c_keeps_the_best_so_far(stage: str) -> None:
    told: list[str] = []

    def press(share: Any) -> None:
        told.append(share.stage)
        # Some epochs after the first rung, or in the middle of the last training.
        if share.stage == stage and told.count(stage) == (6 if "comparing" in stage else 2):
            raise KeyboardInterrupt

    whole = large(candidates=[RAW]).fit(X, Y)
    with pytest.warns(RuntimeWarning, match="Ctrl-C ended the comparison"):
        model: PBPRegressorCV = large(candidates=[RAW]).fit(X, Y, callback=press)
    assert len(model.estimators_) == 1
    assert len(model.oof_rows_) == N_HELD
    if stage == "training the best":  # the comparison was over
        assert weights(model) == weights(whole)[:1]
    assert model.predict(X).shape == (N,)


@is_large
def test_the_share_never_goes_back() -> None:
    for y, candidates in ((Y, [RAW]), (PRICES, "auto")):
        shares: list[Any] = []
        large(candidates=candidates).fit(X, y, callback=shares.append)
        assert shares == sorted(shares)
        assert shares[-1] == 1.0
        assert shares[-1].stage == "calibrating"
