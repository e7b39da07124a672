"""The search: early stopping, stacking weights, Ctrl-C, results, and the folds with networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import logsumexp

from interruptions import Steps
from limits import Limits
from probprop import Candidate, PBPClassifierCV, PBPRegressorCV, Trial
from probprop.estimators.cv import policy
from probprop.estimators.cv import search as search_module
from probprop.estimators.cv.calibration import OutOfFold
from probprop.estimators.cv.search import Evaluation, Running, pruned, stacked, stacking_weights
from probprop.inference.posterior import initial_posterior

pytestmark = pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning")

# ---- Early stopping


def evaluation(log_p: Any, n_hidden: int = 4) -> Evaluation:
    """Networks with these log-likelihoods of out-of-fold samples."""
    nothing = np.zeros(len(log_p))
    q = initial_posterior(
        [3, n_hidden, 1],
        noise_shape=6.0,
        noise_rate=6.0,
        prior_shape=6.0,
        prior_rate=6.0,
        random_state=np.random.RandomState(0),
        dtype=np.dtype(np.float64),
    )
    fitted = cast(Any, type("Fitted", (), {"posterior": q}))
    oof = OutOfFold(nothing, nothing, nothing, nothing, 1.0)
    return Evaluation(20, oof, (fitted,), (), np.asarray(log_p), (float(np.mean(log_p)),))


def running(*scores: float, spread: float = 0.0) -> Running:
    """A trial with these scores; its best log-likelihoods differ by `spread` between samples."""
    best = evaluation(max(scores) + spread * np.array([1.0, -1.0, 1.0, -1.0]))
    n_epochs = tuple(20 * 2**i for i in range(len(scores)))
    return Running(Trial(Candidate(), n_epochs, tuple((s,) for s in scores)), (), (), best)


def outcomes(trials: list[Running], n_kept: int = 9) -> list[str]:
    return [trial.trial.outcome for trial in pruned(trials, n_kept)]


@pytest.mark.parametrize(
    ("spread", "scores", "outcome"),
    [
        (0.0, (-1.5, -1.49), "behind the leader"),
        (0.1, (-1.5, -1.49), "behind the leader"),  # 0.49 is above 2 * 0.05
        (0.6, (-1.5, -1.49), ""),  # but not above 2 * 0.3
        (0.0, (-2.3, -1.5), ""),  # it may catch up
    ],
)
def test_trials_behind_the_leader_are_stopped(spread: float, scores: Any, outcome: str) -> None:
    assert outcomes([running(-1.1, -1.0), running(*scores, spread=spread)]) == ["", outcome]


def test_trials_that_no_longer_improve_are_stopped() -> None:
    trials = [running(-1.0, -1.2, -1.1), running(-1.2, -1.0, -1.1)]
    assert outcomes(trials) == ["no longer improved", ""]


def test_the_best_trials_are_kept() -> None:
    trials = [running(-1.2, spread=2.0), running(-1.0), running(-1.1, spread=2.0)]
    assert outcomes(trials, 2) == ["not among the best", "", ""]


# ---- Stacking


@pytest.mark.parametrize("weighted", [False, True])
def test_stacking_weights_maximize_the_log_score(weighted: bool) -> None:
    rng = np.random.RandomState(0)
    log_p, counts = rng.standard_normal((3, 200)), rng.randint(1, 4, 200)
    own = stacking_weights(log_p, counts.astype(float) if weighted else None)
    every = np.repeat(log_p, counts, axis=1) if weighted else log_p

    def loss(z: Any) -> float:
        return -float(logsumexp(every + (z - logsumexp(z))[:, np.newaxis], axis=0).mean())

    z = minimize(loss, np.zeros(3)).x
    assert_allclose(own, np.exp(z - logsumexp(z)), atol=1e-3)
    assert own.sum() == pytest.approx(1.0)


def test_small_weights_and_large_stacks_are_dropped() -> None:
    rng = np.random.RandomState(0)
    log_p = rng.standard_normal((4, 50))
    trials = [Trial(Candidate())] * 4

    def numbers(*evaluations: Evaluation, n_stacked: int = 4) -> list[int]:
        found = stacked(trials, list(enumerate(evaluations)), [], n_stacked)
        assert_allclose(found.weights.sum(), 1.0)
        assert (np.diff(found.weights) <= 0.0).all()
        assert [t.weight > 0.0 for t in found.trials] == [i in found.numbers for i in range(4)]
        return sorted(found.numbers)

    assert numbers(*map(evaluation, log_p[:2])) == [0, 1]
    assert numbers(evaluation(log_p[0]), evaluation(log_p[0] - 9.0)) == [0]
    assert len(numbers(*map(evaluation, log_p))) == 2  # of four of one size
    large = evaluation(log_p[0], n_hidden=40)
    assert len(numbers(large, *map(evaluation, log_p[1:]))) == 4
    assert len(numbers(large, *map(evaluation, log_p[1:]), n_stacked=3)) == 3


X = np.random.RandomState(0).standard_normal((60, 2))
Y = 0.5 * np.abs(X[:, 0]) + X[:, 1] + 0.5 * np.random.RandomState(1).standard_normal(60)
CANDIDATES = [Candidate(None, (4,), noise="constant"), Candidate(4, (4,), 10.0, noise="constant")]


@pytest.fixture(scope="module")
def model() -> PBPRegressorCV:
    fitted = PBPRegressorCV(3, candidates=CANDIDATES, budget="fast", random_state=0).fit(X, Y)
    assert len(fitted.groups_) == 2
    return fitted


def test_predictions_are_the_weighted_mixture_of_the_groups(model: PBPRegressorCV) -> None:
    A = model.bounds_.apply(X)
    assert model.weights_.shape == (6,)
    density, mean = np.zeros(60), np.zeros(60)
    for group, members in model.members_by_group:
        for member in members:
            if group.encoding is None:
                m, s = member.predict(A, return_std=True)
            else:
                from probprop.encoding.piecewise import encode

                m, s = member.predict(encode(A, group.encoding), return_std=True)
            s = s * np.sqrt(model.calibration_.factor)
            density += (
                group.weight / 3 * np.exp(-0.5 * ((Y - m) / s) ** 2) / (s * np.sqrt(2 * np.pi))
            )
            mean += group.weight / 3 * m
    predicted = model.predict_distribution(X)
    assert_allclose(np.exp(predicted.logpdf(Y)), density, rtol=1e-4)
    assert_allclose(model.predict(X), mean, rtol=1e-5, atol=1e-6)
    assert_allclose(predicted.mean, mean, rtol=1e-5, atol=1e-6)


def test_out_of_fold_predictions_are_a_mixture_of_one_network_of_each_group(
    model: PBPRegressorCV,
) -> None:
    own = model.oof_predictive_
    assert own.n_components == 2
    again = model.predict_out_of_fold(X[model.oof_rows_])
    assert_allclose(again.mean, own.mean, rtol=1e-5, atol=1e-6)
    assert_allclose(again.std, own.std, rtol=1e-5)
    # The factor that calibrates these: z has the mean square 1.
    z = (Y[model.oof_rows_] - own.mean) / own.std
    assert np.mean(z**2) == pytest.approx(1.0, abs=0.1)


def test_results_have_the_keys_of_scikit_learn(model: PBPRegressorCV) -> None:
    results = model.cv_results_
    n = len(results["params"])
    assert n == sum(len(trial.n_epochs) for trial in model.trials_)
    splits = [results[f"split{k}_test_score"] for k in range(3)]
    assert_allclose(results["mean_test_score"], np.mean(splits, axis=0))
    assert_allclose(results["std_test_score"], np.std(splits, axis=0))
    assert set(results["n_resources"]) <= {20, 40, 80}
    assert results["param_n_bins"].tolist() == [p["n_bins"] for p in results["params"]]
    best = int(np.argmin(results["rank_test_score"]))
    assert results["mean_test_score"][best] == results["mean_test_score"].max()
    assert results["stacking_weight"].sum() == pytest.approx(1.0)
    assert model.best_params_ == model.groups_[0].candidate.params
    assert model.best_score_ in results["mean_test_score"]


# ---- Ctrl-C, and predictions that are not finite


def interrupted_at(call: int, steps: Steps) -> None:
    """Let the kernel answer one call with what Ctrl-C makes of it."""
    calls = iter(range(1, 1000))

    def pressed(runs: Any, *_: Any) -> Any:
        return (list(runs), KeyboardInterrupt()) if next(calls) == call else None

    steps.before = pressed


def fit_interrupted(n_search_folds: int = 2) -> PBPRegressorCV:
    line = policy.Policy(0, 4, ((4,),), ((4,),), (10.0,), n_search_folds)
    model = PBPRegressorCV(3, candidates=CANDIDATES, budget="fast", random_state=0)
    with pytest.MonkeyPatch.context() as patch:
        Limits(patch).of_policy(regression=(line,))
        try:
            return model.fit(X, Y)
        except KeyboardInterrupt:
            assert not hasattr(model, "estimators_")
            raise


@pytest.mark.parametrize(("call", "n_epochs"), [(3, 20), (6, 40), (10, 80)])
def test_ctrl_c_keeps_the_best_so_far(steps: Steps, call: int, n_epochs: int) -> None:
    """In the second and third rung, and while the third fold is trained."""
    interrupted_at(call, steps)
    with pytest.warns(RuntimeWarning, match="Ctrl-C ended the comparison"):
        model = fit_interrupted()
    assert len(model.estimators_) == 2 * len(model.groups_)
    assert max(trial.n_epochs[-1] for trial in model.trials_) == n_epochs
    assert len(model.oof_rows_) == 40


@pytest.mark.parametrize("call", [1, 2])
def test_ctrl_c_before_the_first_rung(steps: Steps, call: int) -> None:
    interrupted_at(call, steps)
    with pytest.raises(KeyboardInterrupt):
        fit_interrupted()


def test_predictions_that_are_not_finite_stop_a_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = search_module.output_moments

    all_are_broken = False

    def broken(plan: Any, *rest: Any) -> Any:
        mean, variance = moments(plan, *rest)
        return (mean * np.nan if all_are_broken or plan.evidence_cap else mean), variance

    monkeypatch.setattr(search_module, "output_moments", broken)
    model = fit_interrupted()
    assert model.trials_[1].outcome == "predictions were not finite"
    assert [group.candidate for group in model.groups_] == CANDIDATES[:1]
    assert np.isnan(model.cv_results_["mean_test_score"]).sum() == 1
    all_are_broken = True
    with pytest.raises(FloatingPointError, match="No candidate made finite predictions"):
        fit_interrupted()


# ---- Folds


def test_stacked_trials_train_on_all_folds_of_an_int() -> None:
    model = fit_interrupted(n_search_folds=1)
    assert len(model.estimators_) == 3 * len(model.groups_)
    assert model.oof_rows_.tolist() == list(range(60))
    assert len(model.trials_[0].scores[0]) == 1


def test_an_int_is_honored_at_any_size(limits: Limits) -> None:
    limits.large_from(50, held_out=10)
    model = PBPRegressorCV(3, candidates=CANDIDATES[:1], budget="fast", random_state=0).fit(X, Y)
    assert (len(model.estimators_), len(model.oof_rows_)) == (3, 60)
    model.set_params(cv="auto").fit(X, Y)
    assert (len(model.estimators_), len(model.oof_rows_)) == (2, 20)


def test_the_share_that_is_done_grows_to_the_end() -> None:
    for kind, y in ((PBPRegressorCV, np.exp(Y)), (PBPClassifierCV, Y > 0.5)):
        shares: list[float] = []
        estimator = kind(3, budget="fast", random_state=0)
        estimator.fit(X, y, callback=shares.append)
        assert (np.diff(shares) >= 0.0).all()
        assert shares[-1] == 1.0


def test_a_column_that_hardly_varies_in_a_fold_has_the_scale_of_all_rows() -> None:
    """A ramp with one row a hair above its start made predictions of 17,000 standard deviations."""
    rng = np.random.default_rng(0)
    x = np.concatenate([np.linspace(0.0, 1.0, 30), [1.0 + 1e-5, 2.0]])[:, np.newaxis]
    y = x[:, 0] + 0.1 * rng.standard_normal(32)
    every = np.arange(32)
    folds = [(every[:-1], every[-1:]), (every[10:], every[:10])]  # the first lacks the last ramp
    for n_bins in (31, None):
        model = PBPRegressorCV(candidates=[Candidate(n_bins=n_bins)], cv=folds, budget="fast")
        model.set_params(random_state=0).fit(x, y)
        assert model.predict_distribution([[1.9]]).epistemic_std[0] < 3.0
    flags = np.column_stack([x[:, 0], np.where(every == 31, 5_000.0, 0.0)])
    model.fit(flags, y)  # the flag is constant in the first fold
    assert model.estimators_[0].standardizer_.x_scale[1] == pytest.approx(flags[:, 1].std())
    assert model.predict_distribution(flags[-1:]).epistemic_std[0] < 10.0


def test_the_guide_shows_the_policy() -> None:
    guide = Path(__file__).parents[3] / "docs" / "guide" / "best.md"
    _, table = guide.read_text().split("<!-- policy -->\n")
    _, _, *lines = table.split("\n\n")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells == [
        [
            f"{line.n_samples:,}",
            f"{line.n_bins}",
            ", ".join(f"{cap:g}" for cap in line.evidence_caps),
            *(
                ", ".join({(48,): "one layer", (48, 48): "two layers"}[h] for h in layers) or "none"
                for layers in (line.by_column, line.finer)
            ),
            f"{line.n_folds}",
            f"{line.n_search_folds}",
        ]
        for line in policy.REGRESSION
    ]
