"""What `PBPRegressorCV` and `PBPClassifierCV` share: the search, and updates with new samples."""

from __future__ import annotations

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.random import RandomState
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from probprop._types import Array, FloatArray
from probprop.encoding.bounds import InputBounds, fit_bounds
from probprop.encoding.missing import Completed, Joint, complete, learn_joint
from probprop.encoding.piecewise import PiecewiseLinear, encoded
from probprop.estimators.base import SavedMixin, go_on_with_network, plan_of, publish, state_of
from probprop.estimators.classifier import PBPClassifier
from probprop.estimators.cv import folds as cv_folds
from probprop.estimators.cv import policy, search
from probprop.estimators.cv.calibration import (
    Calibrated,
    FoldOutputs,
    RegressionScorer,
    by_target,
    factor_of,
    support_of,
)
from probprop.estimators.cv.folds import Encodings, Fold, HeldOut
from probprop.estimators.cv.policy import Candidate, Policy
from probprop.estimators.cv.search import Problem, Search, Stack, Trial, in_a_file, outputs_of
from probprop.estimators.progress import Share, progress
from probprop.estimators.regressor import PBPRegressor
from probprop.estimators.shapley import BACKGROUND, evenly
from probprop.estimators.validation import (
    Given,
    TrainingData,
    check_inputs,
    check_option,
    check_parameters,
)
from probprop.inference.inputs import Coded, Inputs, Samples, stored
from probprop.inference.likelihoods import Likelihood
from probprop.inference.noise import LogScale
from probprop.inference.posterior import Epoch
from probprop.inference.prediction import member_moments
from probprop.inference.training import map_in_threads, warn_of_counts

Member = PBPRegressor | PBPClassifier

_BLOCK = 1 << 14  # rows at a time, if values are missing


@dataclass(frozen=True, eq=False)
class Group:
    """A stacked trial: its networks, one per fold, share an encoding.

    Parameters
    ----------
    candidate : Candidate
    encoding : PiecewiseLinear or None
        Encoder of the features, or None if the networks use them as they are. Without ramps it is
        for one-hot columns of many levels.
    n_epochs : int
        Epochs of each network.
    weight : float
        Stacking weight; the weights of all groups sum to 1.
    """

    candidate: Candidate
    encoding: PiecewiseLinear | None
    n_epochs: int
    weight: float


class Outputs(NamedTuple):
    """Outputs of the S members of a model for samples."""

    mean: FloatArray  # (S, n) or (S, n, K), standardized
    variance: FloatArray  # of the same, not calibrated
    rows: Any  # the samples, (n, n_features), checked and bounded: an array or `Coded`
    log_scales: Sequence[LogScale | None]  # by target: the noise network's, if values are missing


class PBPEstimatorCV(SavedMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Networks that are selected, calibrated and averaged by cross-validation."""

    _member: ClassVar[type[Member]]
    _scorer: ClassVar[Any]  # RegressionScorer or ClassificationScorer

    estimators_: list[Any]
    groups_: list[Group]
    trials_: list[Trial]
    encoder_: Any = None  # TableEncoder; None if X was an array of numbers
    bounds_: InputBounds
    calibration_: Any
    joint_: Joint | None
    oof_predictive_: Any
    oof_rows_: Array
    oof_members_: Array
    background_: Array
    likelihood_: Likelihood
    n_samples_seen_: int
    further_calibrations_: tuple[Any, ...] = ()  # of targets after the first
    support: Any  # of a regressor

    def __init__(
        self,
        cv: Any = "auto",
        *,
        candidates: Literal["auto"] | Sequence[Candidate | Mapping[str, Any]] = "auto",
        budget: Literal["fast", "good", "best"] = "good",
        categorical_features: Literal["from_dtype"] | ArrayLike = "from_dtype",
        missing: Literal["auto", "error", "marginalize"] = "auto",
        dtype: Literal["float64", "float32"] = "float32",
        n_jobs: int | None = None,
        random_state: int | RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.cv = cv
        self.candidates = candidates
        self.budget = budget
        self.categorical_features = categorical_features
        self.missing = missing
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @abstractmethod
    def _read(
        self, given: Given, *, stream: bool, classes: ArrayLike | None = None
    ) -> TrainingData:
        """Check rows and targets: in a `stream` like those before them, if there were any."""

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        callback: Callable[[Share], object] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        y_std: ArrayLike | None = None,
    ) -> Self:
        """Compare the candidates, stack the networks of the best ones, and calibrate the mixture.

        Ctrl-C ends the search. The best networks so far are calibrated and kept, with a warning;
        before the first rung, and during calibration, the estimator is left as it was.

        Parameters
        ----------
        X : table or array-like of shape (n_samples, n_features)
            At least 2 samples. A table of pandas, polars, pyarrow or another library that narwhals
            reads may have text, categories, dates and missing values: see `TableEncoder`.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Values: networks and their selection are shared by several targets, and each has its own
            calibration. Or labels; a matrix of 0 and 1 has a column per label.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of 0 or more, divided by their mean, `mean_sample_weight_`, in training,
            comparison and calibration. Samples of weight 0 are left out before anything else.
        groups : array-like of shape (n_samples,), default=None
            Samples of one group are always in the same fold, if `cv` is an int or a splitter that
            supports groups.
        callback : callable, default=None
            Called repeatedly with the share of the work that is done, 0 to 1: a float whose
            attribute `stage` says what is being done.
        checkpoint : str or path-like, default=None
            A file for the state of all networks, up to tens of MB. The same call continues from it,
            to the same bits as without the break; other data, other parameters or another version
            of probprop are refused. `random_state` has to be an int.
        y_std : array-like of shape (n_samples,), default=None
            Regression only: known standard deviations of the errors of the targets, as in
            `PBPRegressor`. Noise and calibration are learned without them, and predictions do not
            include them. No transformation of the targets, exact output layer, recalibration or
            support is used then.

        Returns
        -------
        self
        """
        given = Given(X, y, sample_weight, y_std=y_std)
        epochs = self._start_afresh(given, groups=groups, callback=callback, checkpoint=checkpoint)
        warn_of_counts(epochs, self.estimators_[0].posterior_)
        return self

    def _start_afresh(self, given: Given, **options: Any) -> list[Epoch]:
        """Do what `fit` does; return the passes of all members."""
        check_parameters(self)
        with _as_it_was_on_failure(self):
            found = self._searched(given, **options)
        if found.interrupted:
            kept = f"The best so far is kept: {self.groups_[0].candidate.in_words}."
            text = f"Ctrl-C ended the comparison of the candidates. {kept}"
            warnings.warn(text, RuntimeWarning, stacklevel=3)
        return [epoch for member in self.estimators_ for epoch in member.history_]

    def _searched(
        self,
        given: Given,
        groups: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        callback: Callable[[Share], object] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Stack:
        """Select, train and calibrate the members."""
        policy.read_budget(self.budget)
        if auto := isinstance(self.cv, str):
            check_option("cv", self.cv, ["auto"])
        data = self._read(given, stream=False, classes=classes)
        rng, n = check_random_state(self.random_state), len(data.y)
        X, y, counts, weights = data.X.X, data.y, None, given.sample_weight
        if weights is not None and not np.asarray(weights).all():
            # Rows of weight 0 are dropped, but `cv` and `groups` refer to all rows.
            rows: Any = given.X
            X = rows.toarray() if issparse(rows) else np.asarray(rows)
            y, counts = np.asarray(given.y), np.flatnonzero(weights)
        given_rows: Array | Coded = data.X.X
        apart = groups is not None or not isinstance(self.cv, int | str)
        if apart and isinstance(given_rows, Coded):  # means are over random other samples
            given_rows = given_rows.without_means()
        line, bounds, order = policy_of(self, n), fit_bounds(given_rows), None
        data = replace(data, X=Inputs(bounds.apply(given_rows)))
        if auto and n >= policy.LARGE and groups is None:
            order = rng.permutation(n)
            data, folds = data[order], cv_folds.two_holdout_folds(n, rng)
        else:
            # Combinations of several labels may be many.
            stratified = is_classifier(self) and data.y.ndim == 1
            cv = policy.N_FOLDS if auto else self.cv
            folds = cv_folds.make_folds(cv, X, y, groups, rng, stratified=stratified, counts=counts)
            folds = folds[: line.n_folds] if auto else folds
        n_train, n_classes = len(folds[0].train), data.likelihood.n_classes
        rungs = policy.rungs_of(self.budget, n, n_train, n_classes)
        problem = problem_of(self, data.likelihood, data.X.X, data.y, data.weights, folds)
        problem = replace(problem, n_search=line.n_search_folds, y_std=data.y_std)
        with (
            in_a_file(problem, checkpoint, self) as problem,
            progress(self.verbose, callback) as report,
        ):
            positive = data.y.ndim == 1 and bool((data.y > 0.0).all())
            seed = rng.randint(2**31 - 1)
            search, candidates = search_of(self, problem, rungs, seed, report, positive)
            found = search.run(candidates)
            calibrated = search.calibrated(found)
        publish_stack(self, found, calibrated, problem, data.mean_weight)
        self.bounds_, self.n_samples_seen_ = bounds, n
        self.background_ = np.asarray(given_rows[evenly(n, BACKGROUND)])
        rows = HeldOut(found.folds).rows
        rows = rows if order is None else order[rows]
        self.oof_rows_ = rows if counts is None else counts[rows]
        return found

    # A new sample is assigned to one fold, in turn. The network of that fold predicts it and is
    # never trained on it, so that the calibration uses out-of-fold predictions only.

    def _go_on(self, given: Given, classes: ArrayLike | None = None) -> list[Epoch]:
        """Do what `partial_fit` does; return the passes that were made."""
        if not self.__sklearn_is_fitted__():
            return self._start_afresh(given, classes=classes)
        check_parameters(self)
        with _as_it_was_on_failure(self):
            data = self._read(given, stream=True, classes=classes)
            n, n_folds = len(data.y), self._n_folds
            folds = cv_folds.folds_in_turn(n, n_folds, self.n_samples_seen_)
            self.bounds_ = self.bounds_.grown(data.X.X)
            rows = complete(self.bounds_.apply(data.X.X), self.joint_)
            calibrations = self._calibrations_after(data, rows, folds)
            n_threads, updated = min(effective_n_jobs(self.n_jobs), n_folds), list[Member]()
            for group, members in self.members_by_group:
                seen = replace(data, X=rows.inputs(group.encoding))
                updated += update_members(members, seen, folds, n_threads)
            self.estimators_ = updated
            self.calibration_, *further = calibrations
            self.further_calibrations_ = tuple(further)
            self.n_samples_seen_ += n
        learned = enumerate(self.estimators_)
        return [member.history_[-1] for i, member in learned if len(folds[i % n_folds].train)]

    @property
    def calibrations_(self) -> tuple[Any, ...]:
        """The calibration of each target: `calibration_` alone, unless there are several."""
        return (self.calibration_, *self.further_calibrations_)

    def _calibrations_after(
        self, data: TrainingData, rows: Completed, folds: Sequence[Fold]
    ) -> list[Any]:
        """Return the calibrations after new samples, predicted before the members are updated."""
        held_out = HeldOut([fold for fold in folds if len(fold.test)])
        scorer, a2 = self._scorer(data.likelihood), factor_of(self.calibrations_)
        parts = list[Any]()
        for group, members in self.members_by_group:
            outputs = []
            for member, fold in zip(members, folds, strict=True):
                if len(fold.test):
                    fitted = state_of(member)
                    of = outputs_of(plan_of(member, data.likelihood), fitted)
                    own = rows[fold.test].moments(group.encoding, of, a2)
                    outputs.append(FoldOutputs(fitted, *own))
            given = (data.y, data.weights, held_out, data.y_std)
            parts.append(scorer.out_of_fold(outputs, *given))
        pairs = zip(self.calibrations_, by_target(parts), strict=True)
        return [known.after(own, self._group_weights, rows) for known, own in pairs]

    def _outputs(self, X: ArrayLike) -> Outputs:
        """Return the outputs of every member for samples, not calibrated."""
        check_is_fitted(self)
        rows = self.bounds_.apply(check_inputs(self, X))
        n_threads = 1 if self.n_jobs is None else effective_n_jobs(self.n_jobs)
        groups = [
            (group, [(member.posterior_, member.standardizer_) for member in members])
            for group, members in self.members_by_group
        ]
        if self.joint_ is None or not np.isnan(stored(rows)).any():
            each = [
                member_moments(networks, encoded(rows, group.encoding), n_threads)
                for group, networks in groups
            ]
            mean, variance = map(np.concatenate, zip(*each, strict=True))
            return Outputs(mean, variance, rows, [None] * len(self.calibrations_))
        a2, blocks, h = factor_of(self.calibrations_), list[Any](), list[list[Any]]()
        for start in range(0, len(rows), _BLOCK):
            completed = complete(rows[start : start + _BLOCK], self.joint_)
            parts = []
            for group, networks in groups:

                def of(A: Samples, networks: Any = networks) -> tuple[FloatArray, FloatArray]:
                    mean, variance = member_moments(networks, A, n_threads)
                    return np.moveaxis(mean, 0, 1), np.moveaxis(variance, 0, 1)

                parts.append(completed.moments(group.encoding, of, a2))
            blocks.append([np.concatenate(part, axis=1) for part in zip(*parts, strict=True)])
            h.append([own.log_scale(completed) for own in self.calibrations_])
        mean, variance = (np.moveaxis(np.concatenate([b[i] for b in blocks]), 1, 0) for i in (0, 1))

        def joined(parts: Sequence[Any]) -> LogScale | None:
            names = () if parts[0] is None else ("mean", "variance")
            whole = [np.concatenate([getattr(part, k) for part in parts]) for k in names]
            return LogScale(*whole) if whole else None

        return Outputs(mean, variance, rows, list(map(joined, zip(*h, strict=True))))

    @property
    def _n_folds(self) -> int:
        """Number of networks of each group."""
        return len(self.estimators_) // len(self.groups_)

    @property
    def members_by_group(self) -> list[tuple[Group, list[Any]]]:
        """The stacked trials, with the networks of each."""
        n = self._n_folds
        return [(group, self.estimators_[n * i :][:n]) for i, group in enumerate(self.groups_)]

    @property
    def _group_weights(self) -> FloatArray:
        return np.array([group.weight for group in self.groups_])

    @property
    def weights_(self) -> FloatArray:
        """Weights of `estimators_` in the mixture, which sum to 1."""
        return np.repeat(self._group_weights / self._n_folds, self._n_folds)

    @property
    def best_params_(self) -> dict[str, Any]:
        """Hyperparameters of the candidate with the largest stacking weight."""
        return self.groups_[0].candidate.params

    @property
    def best_score_(self) -> float:
        """Best mean out-of-fold score of that candidate in the search, as in `cv_results_`."""
        return max(self.trials_, key=lambda trial: trial.weight).best[1]

    @property
    def cv_results_(self) -> dict[str, Any]:
        """Results of the search, one entry for each candidate and rung."""
        rows = [
            (i, trial, n, scores)
            for trial in self.trials_
            for i, (n, scores) in enumerate(zip(trial.n_epochs, trial.scores, strict=True))
        ]
        rows += [(0, trial, 0, (np.nan,)) for trial in self.trials_ if not trial.n_epochs]
        splits = np.full((len(rows), max(len(row[3]) for row in rows)), np.nan)
        for own, row in zip(splits, rows, strict=True):
            own[: len(row[3])] = row[3]
        mean = splits.mean(axis=1)
        params = [trial.candidate.params for _, trial, _, _ in rows]
        results: dict[str, Any] = {
            "iter": np.array([i for i, _, _, _ in rows]),
            "n_resources": np.array([n for _, _, n, _ in rows]),
            "params": params,
            **{f"param_{k}": np.array([p[k] for p in params], object) for k in params[0]},
            **{f"split{k}_test_score": scores for k, scores in enumerate(splits.T)},
            "mean_test_score": mean,
            "std_test_score": splits.std(axis=1),
            "rank_test_score": rankdata(-np.nan_to_num(mean, nan=-np.inf), "min").astype(np.int32),
            "stacking_weight": np.array(
                [trial.weight if n == trial.best[0] else 0.0 for _, trial, n, _ in rows]
            ),
        }
        return results

    @abstractmethod
    def predict_out_of_fold(self, X: ArrayLike, at: Array | slice = slice(None)) -> Any:
        """Predict the samples ``oof_rows_[at]``, or changed ones, without the networks that
        learned them.

        Each row of X is predicted by the networks that were not trained on that sample, calibrated
        like `oof_predictive_`, so that the features of training samples can be changed and the loss
        measured, as permutation importance does. Internal: a model from a file has no such samples.
        """

    def _oof_outputs(self, X: ArrayLike, at: Array | slice) -> tuple[Outputs, Array]:
        """Return the out-of-fold outputs of each sample, (k, n), and which networks these are."""
        outputs, own = self._outputs(X), self.oof_members_[:, at]
        place = own if outputs.mean.ndim == 2 else own[:, :, np.newaxis]
        mean, variance = (np.take_along_axis(each, place, axis=0) for each in outputs[:2])
        return outputs._replace(mean=mean, variance=variance), own

    @property
    def columns_(self) -> Any:
        """Kind, encoding, and numbers of levels and missing values of each column of a table."""
        check_is_fitted(self)
        if self.encoder_ is None:
            raise AttributeError("columns_ is for models that were fitted to a table, not an array")
        return self.encoder_.columns_

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Show the parameters, and the columns of a table below them."""
        shown: str = super().__repr__(N_CHAR_MAX)
        columns = "" if self.encoder_ is None else self.columns_.to_string(index=False)
        return f"{shown}\n{columns}" if columns else shown

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """Show the estimator in notebooks, and the columns of its table below it."""
        shown: dict[str, str] = super()._repr_mimebundle_(**options)
        if self.encoder_ is not None and "text/html" in shown:
            shown["text/html"] += self.columns_.to_html(index=False)
        return shown

    def on_inputs(self) -> Self:
        """Return a copy that takes arrays of the inputs that `encoder_` makes of a table."""
        model = copy(self)
        model.encoder_, model.n_features_in_ = None, len(self.bounds_.low)
        model.__dict__.pop("feature_names_in_", None)
        return model

    @property
    def n_iter_(self) -> int:
        """Passes that a member made, at most: epochs of `fit` plus calls of `partial_fit`."""
        return max(len(member.history_) for member in self.estimators_)

    @property
    def mean_sample_weight_(self) -> float:
        """Mean of the sample weights in `fit`, by which all weights are divided."""
        return float(self.estimators_[0].mean_sample_weight_)

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether there are members: checks of data that failed leave other attributes."""
        return hasattr(self, "estimators_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = self._member is PBPRegressor
        return tags


@contextmanager
def _as_it_was_on_failure(model: Any) -> Iterator[None]:
    """On an error, and on Ctrl-C, put the attributes of the model back."""
    before = vars(model).copy()
    try:
        yield
    except BaseException:
        model.__dict__ = before
        raise


def update_members(
    members: Sequence[Member], data: TrainingData, folds: Sequence[Fold], n_threads: int
) -> list[Member]:
    """Return the members after one pass over the encoded rows that are not of their fold."""

    def learn(pair: tuple[Member, Fold]) -> Member:
        member, fold = pair
        if not len(fold.train):
            return member
        following = copy(member)
        following.history_ = [*member.history_]  # the others are replaced, not changed
        go_on_with_network(following, data[fold.train])
        return following

    pairs = [(member, folds[i % len(folds)]) for i, member in enumerate(members)]
    return map_in_threads(learn, pairs, n_threads)


def policy_of(model: PBPEstimatorCV, n_samples: int) -> Policy:
    """Return the line of the policy for a model and that many samples."""
    return policy.policy_of(n_samples, classification=is_classifier(model))


def _has_gaps(model: PBPEstimatorCV, X: Array | Coded) -> bool:
    """Whether to learn a calibrated joint distribution, which takes time."""
    gaps = model.missing == "auto" and bool(np.isnan(stored(X)).any())
    return model.missing == "marginalize" or gaps


def problem_of(
    model: PBPEstimatorCV,
    likelihood: Any,
    X: Array | Coded,
    y: Array,
    weights: FloatArray | None,
    folds: Sequence[Fold],
) -> Problem:
    """Return what the trials of a model share; the samples X are bounded."""
    joint = None if model.missing == "error" else learn_joint(X, ramps=_has_gaps(model, X))
    encodings, scorer = Encodings(X, np.dtype(model.dtype), joint), model._scorer(likelihood)
    if isinstance(scorer, RegressionScorer):
        inferred = model.support is None or isinstance(model.support, str)
        supports = [support_of(model.support, own) for own in y.reshape(len(y), -1).T]
        scorer = replace(scorer, supports=supports, support_is_given=not inferred)
    return Problem(encodings, y, folds, scorer, weights, marginalize=joint is not None)


def search_of(
    model: PBPEstimatorCV,
    problem: Problem,
    rungs: Sequence[int],
    seed: int,
    report: Callable[[Share], object],
    positive: bool,
) -> tuple[Search, list[Candidate]]:
    """Return the search of a model, and its candidates; `positive` says if all targets are > 0."""
    line, encodings = policy_of(model, len(problem.y)), problem.encodings
    n_classes = problem.scorer.likelihood.n_classes
    options = (line, encodings.bins_that_fit, n_classes)
    candidates = policy.read_candidates(model.candidates, model.budget, *options)
    if isinstance(model.candidates, str) and model.budget != "fast":
        candidates += [c for c in policy.with_codes(candidates) if encodings.fits(c.bins)]
    exact = isinstance(model.candidates, str) and not is_classifier(model)
    if problem.y_std is not None or (problem.y.ndim > 1 and not is_classifier(model)):
        exact, plain = False, {"power": None, "output_layer": "mean_field"}
        for name, usual in plain.items():
            if any(getattr(candidate, name) != usual for candidate in candidates):
                raise ValueError(
                    f"{name} of a candidate is not available for known errors of the targets, "
                    "y_std, and for several targets. Leave one of the two out."
                )
    n_threads = effective_n_jobs(model.n_jobs)
    search = Search(
        problem, rungs, line.n_stacked, seed, exact, exact and positive, n_threads, report
    )
    return search, candidates


def publish_stack(
    model: PBPEstimatorCV,
    found: Stack,
    calibrated: Calibrated,
    problem: Problem,
    mean_weight: float,
) -> None:
    """Give a model the networks of the stacked trials, their encodings and their calibration."""
    likelihood, members, groups = problem.scorer.likelihood, list[Member](), list[Group]()
    pairs = zip(found.candidates, found.evaluations, found.weights.tolist(), strict=True)
    for candidate, each, weight in pairs:
        encoding = problem.encodings.of(candidate.bins)
        groups.append(Group(candidate, encoding, each.n_epochs, weight))
        for fold, fitted, history in zip(found.folds, each.fitted, each.history, strict=True):
            member = model._member(
                candidate.layers,
                n_epochs=each.n_epochs,
                evidence_cap=candidate.evidence_cap,
                missing="error" if model.missing == "error" else "marginalize",
                dtype=model.dtype,
                random_state=fold.seed,
            )
            if not is_classifier(model):
                member.set_params(prior=candidate.prior, output_layer=candidate.output_layer)
            member.n_features_in_ = len(fitted.standardizer.x_mean)
            member.likelihood_ = likelihood
            publish(member, fitted, history, mean_weight)
            members.append(member)
    model.estimators_, model.groups_, model.trials_ = members, groups, list(found.trials)
    model.calibration_, model.oof_predictive_, model.further_calibrations_ = calibrated
    first = len(found.folds) * np.arange(len(groups))  # member of each group
    model.oof_members_ = first[:, np.newaxis] + HeldOut(found.folds).fold
    model.joint_ = problem.encodings.joint
    if _has_gaps(model, problem.encodings.X):
        model.joint_ = search.calibrate_joint(found, problem, model.calibrations_)
    model.likelihood_ = likelihood
