"""What `PBPRegressorCV` and `PBPClassifierCV` share: the search, and updates with new samples."""

from __future__ import annotations

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.random import RandomState
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from probprop._types import Array, FloatArray
from probprop.encoding.bounds import InputBounds, fit_bounds
from probprop.encoding.piecewise import PiecewiseLinear
from probprop.estimators.base import SavedMixin, go_on_with_network, plan_of, publish, state_of
from probprop.estimators.cost import cost_in_words
from probprop.estimators.cv import policy
from probprop.estimators.cv.calibration import FoldOutputs
from probprop.estimators.cv.folds import (
    Encodings,
    Fold,
    HeldOut,
    dealt_in_turn,
    encoded,
    make_folds,
    two_ends,
)
from probprop.estimators.cv.missing import Completed, Joint, complete, learn_joint
from probprop.estimators.cv.policy import Budget, Candidate
from probprop.estimators.cv.search import (
    Attempt,
    Contest,
    CVChoice,
    Race,
    Search,
    calibrated_joint,
    in_a_file,
    is_elsewhere,
    outputs_of,
)
from probprop.estimators.data import Given, TrainingData
from probprop.estimators.ensemble import Member, as_it_was_on_failure, branch
from probprop.estimators.progress import Share, progress, say
from probprop.estimators.validation import check_inputs, check_parameters
from probprop.inference.history import warn_of_counts
from probprop.inference.inputs import Inputs
from probprop.inference.likelihoods import Likelihood
from probprop.inference.noise import LogScale
from probprop.inference.posterior import Epoch
from probprop.inference.prediction import member_moments
from probprop.inference.shards import map_in_threads

_BLOCK = 1 << 14  # rows at a time, if values are missing


class Outputs(NamedTuple):
    """Outputs of the S members of a model for samples."""

    mean: FloatArray  # (S, n) or (S, n, K), standardized
    variance: FloatArray  # of the same, not calibrated
    rows: Array  # the samples, (n, n_features), checked and bounded
    log_scale: LogScale | None  # of the noise network, if there is one and values are missing


class PBPEstimatorCV(SavedMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Networks that are chosen, calibrated and averaged by cross-validation."""

    _member: ClassVar[type[Member]]
    _judge: ClassVar[Any]  # ValuesJudge or LabelsJudge

    estimators_: list[Any]
    bounds_: InputBounds
    encoding_: PiecewiseLinear | None
    choice_: CVChoice
    calibration_: Any
    joint_: Joint | None
    oof_predictive_: Any
    oof_rows_: Array
    oof_members_: Array
    likelihood_: Likelihood
    n_partitions_: int
    n_samples_seen_: int

    def __init__(
        self,
        cv: Any = 5,
        *,
        candidates: Literal["auto"] | Sequence[Candidate | Mapping[str, Any]] = "auto",
        budget: Literal["fast", "good", "best"] | float = "good",
        missing: Literal["error", "marginalize"] = "error",
        dtype: Literal["float64", "float32"] = "float32",
        n_jobs: int | None = None,
        random_state: int | RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.cv = cv
        self.candidates = candidates
        self.budget = budget
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
        """Compare the candidates, and keep the networks of the best one, calibrated.

        Ctrl-C ends the comparison. The best so far is calibrated and kept, with a warning; before
        the first comparison, and during calibration, the estimator is left as it was.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            At least 2 samples.
        y : array-like of shape (n_samples,)
            Values, or labels; for a classifier a matrix of 0 and 1 has a column per label.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of 0 or more, divided by their mean, `mean_sample_weight_`, in training,
            comparison and calibration. Samples of weight 0 are left out before anything else.
        groups : array-like of shape (n_samples,), default=None
            Samples of one group are always in the same fold, if `cv` is an int or a splitter that
            knows groups.
        callback : callable, default=None
            Called now and then with the share of the work that is done, 0 to 1: a float whose
            attribute `stage` says what is being done.
        checkpoint : str or path-like, default=None
            A file for the state of all networks, up to tens of MB. The same call continues from it,
            to the same bits as without the break; other data, other parameters or another version
            of probprop are refused. `random_state` has to be an int and `budget` a name.
        y_std : None
            Known errors of the targets are not supported: any other value raises an error.

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
        with as_it_was_on_failure(self):
            found = self._searched(given, **options)
        if found.interrupted:
            kept = f"The best so far is kept: {found.choice.in_words}."
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
    ) -> Race:
        """Choose, train and calibrate the members."""
        budget = policy.read_budget(self.budget)
        if budget.seconds is not None and is_elsewhere():
            raise ValueError(
                f"budget={self.budget!r} is seconds of this process, but joblib's backend trains "
                'elsewhere. Give "fast", "good" or "best", or leave the parallel_config.'
            )
        data = self._read(given, stream=False, classes=classes)
        usual, rng = self._judge(data.likelihood).usual, check_random_state(self.random_state)
        n, n_classes = len(data.y), data.likelihood.n_classes
        X, y, counts, weights = data.X.X, data.y, None, given.sample_weight
        if weights is not None and not np.asarray(weights).all():
            # Rows of weight 0 are left out, but `cv` and `groups` are about all rows.
            X, y, counts = np.asarray(given.X), np.asarray(given.y), np.flatnonzero(weights)
        # Combinations of several labels may be many.
        stratified = usual.stratified and data.y.ndim == 1
        partition: Callable[[], list[Fold]] = partial(
            make_folds, self.cv, X, y, groups, rng, stratified=stratified, counts=counts
        )
        many = isinstance(self.cv, int | np.integer)  # whether there are several partitions
        bounds = fit_bounds(data.X.X)
        data = replace(data, X=Inputs(bounds.apply(data.X.X)))
        large, order = policy.is_large(n), None
        if large and many and groups is None:
            order = rng.permutation(n)
            data, partition = data[order], partial(two_ends, n, rng)
        folds, n_first = partition(), 1 if large else policy.n_first_folds(n, usual)
        again = partition() if order is not None or (many and n_first is None) else []
        if large:
            budget = policy.shown_as_often(budget, len(folds[0].train))
        budget = policy.for_many_classes(budget, n_classes)
        contest = contest_of(self, data.likelihood, data.X.X, data.y, data.weights, folds)
        contest = replace(contest, n_first=n_first, again=again, alone=large)
        positive, another = bool((data.y > 0.0).all()), partition if many else None
        if self.verbose:
            say(cost_in_words(self, n, data.X.X.shape[1], n_classes, len(folds)))
        with (
            in_a_file(contest, checkpoint, self, budget) as contest,
            progress(self.verbose, callback) as report,
        ):
            search, candidates = search_of(
                self, contest, budget, rng.randint(2**31 - 1), report, positive, another
            )
            best = search.best_of(candidates)
        publish_race(self, best, contest, data.mean_weight)
        self.bounds_, self.n_samples_seen_ = bounds, n
        rows = HeldOut(best.race.partitions[0]).rows
        rows = rows if order is None else order[rows]
        self.oof_rows_ = rows if counts is None else counts[rows]
        return best.race

    # A new sample belongs to one fold, in turn. The network of that fold predicts it and never
    # learns it, so that the calibration goes on with out-of-fold predictions.

    def _go_on(self, given: Given, classes: ArrayLike | None = None) -> list[Epoch]:
        """Do what `partial_fit` does; return the passes that were made."""
        if not self.__sklearn_is_fitted__():
            return self._start_afresh(given, classes=classes)
        check_parameters(self)
        with as_it_was_on_failure(self):
            data = self._read(given, stream=True, classes=classes)
            members, n = self.estimators_, len(data.y)
            n_folds = len(members) // self.n_partitions_
            folds = dealt_in_turn(n, n_folds, self.n_samples_seen_)
            self.bounds_ = self.bounds_.grown(data.X.X)
            X, encode = self.bounds_.apply(data.X.X), self._encode
            rows = complete(X, self.joint_)
            seen = replace(data, X=rows.inputs(encode(X), encode))
            oof = self._predicted_before(seen, rows, folds)
            n_threads = min(effective_n_jobs(self.n_jobs), len(members))
            self.estimators_ = absorbed(members, seen, folds, n_threads)
            self.calibration_ = self.calibration_.after(oof, rows)
            self.n_samples_seen_ += n
        learned = enumerate(self.estimators_)
        return [member.history_[-1] for i, member in learned if len(folds[i % n_folds].train)]

    def _predicted_before(self, data: TrainingData, rows: Completed, folds: Sequence[Fold]) -> Any:
        """Return out-of-fold predictions of new rows, encoded in `data`, pooled over partitions."""
        held_out, members = HeldOut([fold for fold in folds if len(fold.test)]), self.estimators_
        judge, a2 = self._judge(data.likelihood), float(self.calibration_.factor)
        parts = list[Any]()
        for start in range(0, len(members), len(folds)):
            outputs = []
            for member, fold in zip(members[start : start + len(folds)], folds, strict=True):
                if len(fold.test):
                    fitted = state_of(member)
                    of = outputs_of(plan_of(member, data.likelihood), fitted)
                    own = rows[fold.test].moments(data.X.X[fold.test], self._encode, of, a2)
                    outputs.append(FoldOutputs(fitted, *own))
            parts.append(judge.out_of_fold(outputs, data.y, data.weights, held_out))
        first, *others = parts
        return first.pooled(others)

    def _outputs(self, X: ArrayLike) -> Outputs:
        """Return what every member says about samples, not calibrated."""
        check_is_fitted(self)
        rows = self.bounds_.apply(check_inputs(self, X))
        if self.joint_ is None or not np.isnan(rows).any():
            return Outputs(*self._members_of(self._encode(rows)), rows, None)
        a2, blocks, h = float(self.calibration_.factor), list[Any](), list[LogScale]()

        def of(A: Array) -> tuple[FloatArray, FloatArray]:
            mean, variance = self._members_of(A)
            return np.moveaxis(mean, 0, 1), np.moveaxis(variance, 0, 1)

        for start in range(0, len(rows), _BLOCK):
            completed = complete(rows[start : start + _BLOCK], self.joint_)
            blocks.append(completed.moments(self._encode(completed.X), self._encode, of, a2))
            if (noise := self.calibration_.log_scale(completed)) is not None:
                h.append(noise)
        mean, variance = (np.moveaxis(np.concatenate([b[i] for b in blocks]), 1, 0) for i in (0, 1))
        joined = (np.concatenate([getattr(each, k) for each in h]) for k in ("mean", "variance"))
        return Outputs(mean, variance, rows, LogScale(*joined) if h else None)

    @abstractmethod
    def predict_out_of_fold(self, X: ArrayLike, at: Array | slice = slice(None)) -> Any:
        """Predict the samples ``oof_rows_[at]``, or changed ones, without the networks that
        learned them.

        Each row of X is predicted by the networks that held out that sample, calibrated like
        `oof_predictive_`, so that the features of training samples can be changed and the loss
        measured, as permutation importance does. Internal: a model from a file has no such samples.
        """

    def _oof_outputs(self, X: ArrayLike, at: Array | slice) -> tuple[Outputs, Array]:
        """Return what the networks that held out each sample say, (k, n), and which these are."""
        outputs, own = self._outputs(X), self.oof_members_[:, at]
        place = own if outputs.mean.ndim == 2 else own[:, :, np.newaxis]
        mean, variance = (np.take_along_axis(each, place, axis=0) for each in outputs[:2])
        return outputs._replace(mean=mean, variance=variance), own

    def _members_of(self, A: Array) -> tuple[FloatArray, FloatArray]:
        """Return the moments of the members' outputs for encoded samples, (S, n) or (S, n, K)."""
        networks = [(member.posterior_, member.standardizer_) for member in self.estimators_]
        n_threads = 1 if self.n_jobs is None else effective_n_jobs(self.n_jobs)
        return member_moments(networks, A, n_threads)

    def _encode(self, X: Array) -> Array:
        """Return rows as the members take them."""
        return encoded(X, self.encoding_, np.dtype(self.estimators_[0].dtype))

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
        tags.input_tags.allow_nan = self.missing == "marginalize"
        return tags


def absorbed(
    members: Sequence[Member], data: TrainingData, folds: Sequence[Fold], n_threads: int
) -> list[Member]:
    """Return the members after one pass over the encoded rows that are not of their fold."""

    def learn(pair: tuple[Member, Fold]) -> Member:
        member, fold = pair
        if not len(fold.train):
            return member
        following = branch(member)
        go_on_with_network(following, data[fold.train])
        return following

    pairs = [(member, folds[i % len(folds)]) for i, member in enumerate(members)]
    return map_in_threads(learn, pairs, n_threads)


def contest_of(
    model: PBPEstimatorCV,
    likelihood: Any,
    X: Array,
    y: Array,
    weights: FloatArray | None,
    folds: Sequence[Fold],
) -> Contest:
    """Return what the candidates of a model are given; the samples X are bounded."""
    joint = learn_joint(X) if model.missing == "marginalize" else None
    encodings, judge = Encodings(X, np.dtype(model.dtype), joint), model._judge(likelihood)
    return Contest(encodings, y, folds, judge, weights, marginalize=joint is not None)


def search_of(
    model: PBPEstimatorCV,
    contest: Contest,
    budget: Budget,
    seed: int,
    report: Callable[[Share], object],
    positive: bool,
    another: Callable[[], Sequence[Fold]] | None = None,
) -> tuple[Search, list[Candidate]]:
    """Return the search of a model, and its candidates; `positive` says if all targets are > 0."""
    judge, bins, n = contest.judge, contest.encodings.bins_that_fit, len(contest.y)
    one_evidence_cap = contest.alone or judge.likelihood.n_classes > policy.MANY_CLASSES
    candidates = policy.read_candidates(
        model.candidates, model.budget, n, judge.usual, bins, one_evidence_cap=one_evidence_cap
    )
    powers = isinstance(model.candidates, str) and judge.usual.powers and positive
    n_threads = effective_n_jobs(model.n_jobs)
    search = Search(contest, budget, seed, powers, another, n_threads, report=report)
    return search, candidates


def publish_race(
    model: PBPEstimatorCV, best: Attempt, contest: Contest, mean_weight: float
) -> None:
    """Give a model the networks of the best candidate, their encoding and their calibration."""
    found, likelihood = best.race, contest.judge.likelihood
    candidate, members = found.choice.candidate, list[Member]()
    for check, folds in zip(found.checks, found.partitions, strict=True):
        for fold, fitted, history in zip(folds, check.fitted, check.history, strict=True):
            member = model._member(
                candidate.layers,
                n_epochs=check.n_epochs,
                evidence_cap=candidate.evidence_cap,
                missing=model.missing,
                dtype=model.dtype,
                random_state=fold.seed,
            )
            member.n_features_in_ = len(fitted.standardizer.x_mean)
            member.likelihood_ = likelihood
            publish(member, fitted, history, mean_weight)
            members.append(member)
    n_bins = candidate.n_bins
    model.encoding_ = None if n_bins is None else contest.encodings.state(n_bins)
    model.estimators_, model.n_partitions_ = members, len(found.partitions)
    model.choice_ = found.choice
    model.calibration_, model.oof_predictive_ = best.calibrated
    starts = np.cumsum([0, *map(len, found.partitions)])
    pairs = zip(starts, found.partitions, strict=False)
    model.oof_members_ = np.stack([start + HeldOut(folds).fold for start, folds in pairs])
    model.joint_ = calibrated_joint(found, contest, model.calibration_)
    model.likelihood_ = likelihood
