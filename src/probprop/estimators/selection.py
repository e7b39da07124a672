"""Choose among models by their evidence: what each said of rows it had not seen.

The evidence of a model is the probability it gives to the data, and by the chain rule
log p(y) = sum_k log p(y_k | y_1, ..., y_{k-1}): the rows are predicted one after another, each
from those before it. Nothing is held out, and a model that learns too slowly or fits too closely
pays for it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any, Literal

import numpy as np
from joblib import effective_n_jobs
from numpy.random import RandomState
from numpy.typing import ArrayLike
from sklearn.base import clone, is_classifier
from sklearn.utils import check_random_state, check_X_y

from probprop._types import Array, FloatArray
from probprop.estimators.regressor import PBPRegressor
from probprop.estimators.validation import check_int, check_option
from probprop.inference.shards import map_in_threads

Params = Mapping[str, Any]

_N_DOUBLINGS = 3  # an eighth of the rows is given, then 1/8, 1/4 and 1/2 of them are predicted
_MIN_ROWS = 2**_N_DOUBLINGS


@dataclass(frozen=True, eq=False)
class EvidenceSelection:
    """What `select` found.

    Parameters
    ----------
    candidates : tuple of dict
        The parameters that were compared, in the order given.
    log_evidence : ndarray of shape (n_candidates, n_orderings)
        In target units. The orderings are the same for every candidate.
    n_scored : int
        Rows over which a log evidence sums the log density.
    best_estimator : estimator
        Fitted on all rows with `best_params`.
    """

    candidates: tuple[dict[str, Any], ...]
    log_evidence: FloatArray
    n_scored: int
    best_estimator: Any

    @property
    def mean(self) -> FloatArray:
        """Log evidence averaged over the orderings, shape (n_candidates,)."""
        mean: FloatArray = self.log_evidence.mean(axis=1)
        return mean

    @property
    def best_index(self) -> int:
        """The candidate with the highest mean; the first of equal ones."""
        return int(np.argmax(self.mean))

    @property
    def best_params(self) -> dict[str, Any]:
        """The parameters of that candidate."""
        return self.candidates[self.best_index]

    @property
    def behind(self) -> FloatArray:
        """How far each candidate is behind the best one, in nats, shape (n_candidates,)."""
        behind: FloatArray = self.mean[self.best_index] - self.mean
        return behind

    @property
    def behind_se(self) -> FloatArray:
        """Standard error of `behind`, from the differences in each ordering; NaN with one."""
        differences = self.log_evidence[self.best_index] - self.log_evidence
        n = differences.shape[1]
        if n == 1:
            return np.full(len(differences), np.nan)
        se: FloatArray = differences.std(axis=1, ddof=1) / np.sqrt(n)
        return se

    def __repr__(self) -> str:
        rows = [
            (_text(params), f"{mean:.1f}", f"{mean / self.n_scored:.3f}", _gap(gap, se))
            for params, mean, gap, se in zip(
                self.candidates, self.mean, self.behind, self.behind_se, strict=True
            )
        ]
        rows[self.best_index] = (*rows[self.best_index][:3], "best")
        table = [("candidate", "log evidence", "per row", "behind the best"), *rows]
        widths = [max(len(line[i]) for line in table) for i in range(4)]
        return "\n".join(
            "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])])
            for line in table
        )


def select(
    estimator: Any,
    candidates: Sequence[Params],
    X: ArrayLike,
    y: ArrayLike,
    *,
    evidence: Literal["blocks", "first_pass"] = "blocks",
    n_orderings: int = 3,
    n_jobs: int | None = None,
) -> EvidenceSelection:
    """Compare candidates by their log evidence and fit the best on all rows.

    Parameters
    ----------
    estimator : estimator
        A `PBPRegressor`, a `PBPEnsemble`, or another regressor with `predict_distribution` and
        a `random_state`. Clones of it are fitted; it stays as it is.
    candidates : sequence of dict
        Parameters to set on it, such as ``[{"hidden_layer_sizes": (50,)},
        {"hidden_layer_sizes": (50, 50)}]``; ``{}`` is the estimator as it is.
    X : array-like of shape (n_samples, n_features)
        At least 8 rows.
    y : array-like of shape (n_samples,)
    evidence : {"blocks", "first_pass"}, default="blocks"
        ``"blocks"``: an eighth of the rows is given to fit on, the next eighth predicted; then
        the first quarter is given and the second predicted, then the two halves. That costs
        less than one fit on all rows for each ordering.
        ``"first_pass"``: `log_evidence_`, every row predicted just before it is absorbed for
        the first time. That costs one epoch for each ordering. One pass is too short for
        larger networks to learn much, so that it prefers small ones.
    n_orderings : int, default=3
        Random orders of the rows, and initial weights, to average over. They are drawn from the
        estimator's `random_state` and are the same for every candidate.
    n_jobs : int, default=None
        Fits at a time, in threads; None is 1 outside of a ``joblib.parallel_config``, -1 is as
        many as there are cores. The result is the same.

    Returns
    -------
    EvidenceSelection

    Notes
    -----
    Log evidences can be compared if they are of the same rows in the same orderings, as
    here; those of two calls with different data cannot. A lead of less than two or three
    `behind_se` may be due to the orderings alone. Ctrl-C stops within half a second; fits that
    have begun in other threads come to their end in the background and are forgotten.

    Examples
    --------
    >>> import numpy as np
    >>> from probprop import PBPRegressor, select
    >>> X = np.linspace(-3.0, 3.0, 120)[:, None]
    >>> y = np.abs(X[:, 0])
    >>> candidates = [{"hidden_layer_sizes": ()}, {"hidden_layer_sizes": (20,)}]
    >>> found = select(PBPRegressor(random_state=0), candidates, X, y)
    >>> found.best_params
    {'hidden_layer_sizes': (20,)}
    >>> found.best_estimator.n_iter_
    40
    """
    models = _check(estimator, candidates, evidence)
    check_int("n_orderings", n_orderings, 1)
    rows, targets = check_X_y(
        X,
        y,
        dtype=[np.float64, np.float32],
        y_numeric=True,
        ensure_min_samples=_MIN_ROWS,
        estimator="select",
    )
    seeds = orderings(estimator.random_state, n_orderings)
    measure = EVIDENCES[evidence]
    with warnings.catch_warnings():  # of fits that are thrown away; the last one warns for itself
        warnings.simplefilter("ignore", RuntimeWarning)
        pairs = list(product(models, seeds))
        scores = map_in_threads(
            lambda pair: measure(pair[0], rows, targets, pair[1]),
            pairs,
            min(effective_n_jobs(n_jobs), len(pairs)),
        )
    log_evidence = np.array(scores).reshape(len(models), n_orderings)
    best = models[int(np.argmax(log_evidence.mean(axis=1)))]
    return EvidenceSelection(
        candidates=tuple(dict(params) for params in candidates),
        log_evidence=log_evidence,
        n_scored=len(targets) - (len(targets) // _MIN_ROWS if evidence == "blocks" else 0),
        best_estimator=best.fit(X, y),
    )


# ---- Log evidence in one ordering


def orderings(random_state: int | RandomState | None, n: int) -> list[int]:
    """Draw the seeds of n orderings, as `select` does.

    Examples
    --------
    >>> orderings(0, 3) == orderings(0, 5)[:3]
    True
    """
    seeds = check_random_state(random_state).randint(2**31 - 1, size=n)
    return [int(seed) for seed in seeds]


def evidence_of_blocks(model: Any, X: Array, y: Array, seed: int) -> float:
    """Return log p(the rows after the first eighth | the first eighth), in target units.

    Each block is as long as all before it, and is predicted from a fit on those:
    log p(y_2 | y_1) + log p(y_3 | y_1, y_2) + log p(y_4 | y_1, y_2, y_3).

    Parameters
    ----------
    model : estimator
        A clone of it is fitted.
    X : ndarray of shape (n, n_features)
    y : ndarray of shape (n,)
    seed : int
        Seed of the order of the rows, and of the fits.
    """
    model = clone(model).set_params(random_state=seed)
    order = RandomState(seed).permutation(len(y))
    ends = [len(y) // 2**k for k in range(_N_DOUBLINGS, -1, -1)]  # n/8, n/4, n/2, n
    total = 0.0
    for start, end in pairwise(ends):
        known, new = order[:start], order[start:end]
        model.fit(X[known], y[known])
        total += float(model.predict_distribution(X[new]).logpdf(y[new]).sum())
    return total


def evidence_of_first_pass(model: PBPRegressor, X: Array, y: Array, seed: int) -> float:
    """Return `log_evidence_` of a fit, which only its first epoch adds to: no other is made.

    Nothing is given back during it, whatever the `memory` of the model.

    Parameters
    ----------
    model : PBPRegressor
        A clone of it is fitted.
    X : ndarray of shape (n, n_features)
    y : ndarray of shape (n,)
    seed : int
        Seed of the initial weights and the order of the rows.
    """
    fitted: PBPRegressor = clone(model).set_params(random_state=seed, memory=None)
    return fitted.fit(X, y, callback=lambda _: True).log_evidence_  # stops after the first epoch


EVIDENCES: dict[str, Callable[[Any, Array, Array, int], float]] = {
    "blocks": evidence_of_blocks,
    "first_pass": evidence_of_first_pass,
}
"""The kinds of evidence by name."""


# ---- Validation and text


def _check(estimator: Any, candidates: Sequence[Params], evidence: str) -> list[Any]:
    """Return one clone of the estimator per candidate, with its parameters."""
    check_option("evidence", evidence, list(EVIDENCES))
    name = type(estimator).__name__
    has_both = hasattr(estimator, "predict_distribution") and hasattr(estimator, "random_state")
    if not has_both or is_classifier(estimator):
        raise TypeError(
            "estimator must be a PBPRegressor, or another regressor with "
            f"'predict_distribution' and 'random_state'. Got {name} instead."
        )
    if evidence == "first_pass" and not isinstance(estimator, PBPRegressor):
        raise TypeError(f"evidence='first_pass' needs a PBPRegressor. Got {name} instead.")
    if isinstance(candidates, str | Mapping) or not np.iterable(candidates):
        raise TypeError(
            f"candidates must be a sequence of dicts of parameters. Got {candidates!r} instead."
        )
    if not len(candidates):
        raise ValueError("candidates must have at least one dict of parameters. Got none.")
    set_here = {"random_state"}
    if evidence == "first_pass":
        set_here |= {"n_epochs", "memory"}
    models = []
    for params in candidates:
        if not isinstance(params, Mapping):
            raise TypeError(f"each of candidates must be a dict of parameters. Got {params!r}.")
        for key in sorted(set_here & set(params)):
            raise ValueError(
                f"{key} cannot be compared by evidence={evidence!r}, which sets it itself: leave "
                f"it out of the candidates. Got {params!r}."
            )
        models.append(clone(estimator).set_params(**params))
    return models


def _text(params: Params) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in params.items()) or "as it is"


def _gap(gap: float, se: float) -> str:
    return f"{gap:.1f}" if np.isnan(se) else f"{gap:.1f} ± {se:.1f}"
