"""The training of a network: one loop, for `fit`, `partial_fit`, choices and ensembles alike.

An epoch is an ADF pass over the likelihood ([PBP15] section 3.3), then a refinement of the prior
factors (section 3.4). A `Plan` and data make a `Run`; steps of one epoch or more take it further.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.random import RandomState

from probprop._types import Array, FloatArray
from probprop.inference.engine import ENGINES
from probprop.inference.history import summarize
from probprop.inference.inputs import Inputs
from probprop.inference.noise import start_noise_network, watch, with_first_tails
from probprop.inference.plan import Plan
from probprop.inference.posterior import Epoch, Posterior, Records, initial_posterior, near_a_draw
from probprop.inference.prediction import features
from probprop.inference.standardize import (
    Standardizer,
    check_magnitude,
    check_target_scale,
    fit_standardizer,
    identity_standardizer,
)
from probprop.inference.task import (
    INFORMATIVE_RATIO,
    ONCE_INFORMATIVE_RATIO,
    Task,
    Trained,
)

_MOST_EPOCHS = 1000  # of a step without callbacks


@dataclass(frozen=True, eq=False)
class Fitted:
    """What training has reached: all that predictions, and further passes, need.

    Parameters
    ----------
    posterior : Posterior
    standardizer : Standardizer
    epoch : Epoch
        The record of the last pass; before the first its `n_iter` is 0.
    log_evidence : float
        Sum of log Z over the passes in which rows were new, in target units.
    n_samples_seen : int
        Rows given, each counted once.
    """

    posterior: Posterior
    standardizer: Standardizer
    epoch: Epoch
    log_evidence: float = 0.0
    n_samples_seen: int = 0


class Run(NamedTuple):
    """The training on one set of rows, as far as it has come.

    Parameters
    ----------
    plan : Plan
    fitted : Fitted
        Where it is.
    X : ndarray of shape (n, n_features)
    X_var : ndarray of shape (n, n_features), or None
        As `prediction.features` gives them.
    y : ndarray of shape (n,) or (n, K)
        As the likelihood encodes them.
    random_state : RandomState or None
        Shuffles the rows before every epoch; None: they come in the order given.
    n_epochs : int or None
        All epochs there will be; None: a stream has no end.
    made : list of Epoch
        The epochs that the last step made.
    new : bool
        Whether the rows are new to the posterior: no pass over them is made yet.
    weights : ndarray of shape (n,), or None
    y_var : ndarray of shape (n, K), or None
    power : float
        How the rows count, as in a `Task`.
    velocity : tuple of ndarray
        Of the means of the weights, where rounds train them; see `probprop.inference.rounds`.
    """

    plan: Plan
    fitted: Fitted
    X: Array
    X_var: Array | None
    y: Array
    random_state: RandomState | None
    n_epochs: int | None = None
    made: Sequence[Epoch] = ()
    new: bool = True
    weights: FloatArray | None = None
    y_var: FloatArray | None = None
    power: float = 1.0
    velocity: tuple[FloatArray, ...] = ()

    @property
    def once(self) -> bool:
        """Whether every row is absorbed once: in a stream, and in the only epoch of a training."""
        return self.random_state is None or self.n_epochs == 1


def start(
    plan: Plan,
    X: Inputs,
    y: Array,
    random_state: RandomState,
    standardizer: Standardizer | None = None,
    *,
    once: bool = False,
) -> Fitted:
    """Return the state before any point: the prior absorbed, the data measured.

    Parameters
    ----------
    plan : Plan
    X : Inputs of shape (n, n_features)
    y : ndarray of shape (n,) or (n, K)
        As the likelihood encodes them.
    random_state : RandomState
        Draws the initial means of the weights.
    standardizer : Standardizer, default=None
        That of the same rows, if it was measured before.
    once : bool, default=False
        Whether every row will be absorbed once: in a stream, or in a single epoch.
    """
    likelihood = plan.likelihood
    n_noise = likelihood.n_outputs if likelihood.learns_noise else 1
    noise_shape, noise_rate = (np.full(n_noise, a) for a in likelihood.noise_prior)
    network = None
    if plan.noise_hidden is not None:
        network = start_noise_network(
            X.shape[1], plan.noise_hidden, n_noise, random_state, plan.dtype
        )
    posterior = initial_posterior(
        [X.shape[1], *plan.hidden, likelihood.n_outputs],
        noise_shape=noise_shape,
        noise_rate=noise_rate,
        prior_shape=plan.prior_shape,
        prior_rate=plan.prior_rate,
        random_state=random_state,
        dtype=plan.dtype,
    )
    if once and plan.hidden:
        posterior = near_a_draw(posterior)
    if standardizer is not None:
        pass
    elif plan.standardize:
        standardizer = fit_standardizer(X.X, y if likelihood.standardises_target else None)
    else:
        standardizer = identity_standardizer(X.shape[1], n_noise)
    check_target_scale(standardizer.y_scale)
    records = Records.of_epoch(posterior, [], [])
    (nothing,) = summarize(0, 0, records, standardizer)
    return Fitted(replace(posterior, noise_network=network), standardizer, nothing)


def begin(
    plan: Plan,
    fitted: Fitted,
    X: Inputs,
    y: Array,
    random_state: RandomState | None = None,
    *,
    n_epochs: int | None = None,
    weights: FloatArray | None = None,
    y_std: FloatArray | None = None,
    power: float = 1.0,
) -> Run:
    """Return a training that goes on from a state with rows that are new to its posterior.

    Parameters
    ----------
    plan : Plan
    fitted : Fitted
        Where to go on from; `start` gives the first.
    X : Inputs of shape (n, n_features)
    y : ndarray of shape (n,) or (n, K)
        As the likelihood encodes them.
    random_state : RandomState, default=None
        Shuffles the rows before every epoch. None is a stream: they come in the order given, an
        epoch is not cut, and the prior factors are refined after it.
    n_epochs : int, default=None
        All epochs there will be, where rows are shuffled.
    weights : ndarray of shape (n,), default=None
        Above 0. They divide the noise variance of their rows, or are the powers of their
        likelihoods, as the likelihood says.
    y_std : ndarray of shape (n,) or (n, K), default=None
        Known errors of the targets, in their units.
    power : float, default=1.0
        Multiplies the weights that are powers.
    """
    entries, X_var = features(plan, fitted.standardizer, X)
    if plan.likelihood.standardises_target:
        fitted.standardizer.check_y(y, plan.dtype)
    y_var = None if y_std is None else target_variance(plan, fitted.standardizer, y_std)
    return Run(
        plan,
        fitted,
        entries,
        X_var,
        y,
        random_state,
        n_epochs,
        weights=weights,
        y_var=y_var,
        power=power,
    )


def target_variance(plan: Plan, standardizer: Standardizer, y_std: FloatArray) -> FloatArray:
    """Return the variances of standardised targets, (n, K)."""
    with np.errstate(over="ignore"):  # what is too large is refused
        std: FloatArray = y_std.reshape(len(y_std), -1) / standardizer.y_scale
    check_magnitude("y_std", float(std.max()), plan.dtype)
    return std**2


def steps_of(n_epochs: int) -> list[int]:
    """Cut epochs into steps whose records stay small.

    Examples
    --------
    >>> steps_of(2300)
    [1000, 1000, 300]
    """
    return [min(_MOST_EPOCHS, n_epochs - made) for made in range(0, n_epochs, _MOST_EPOCHS)]


def train(run: Run, steps: Iterable[int]) -> Iterator[Run]:
    """Make that many epochs in each step, and yield where the training is after it.

    Ctrl-C in the middle of a step yields the whole epochs it had made before it is raised.
    """
    for n_epochs in steps:
        (run,), interrupt = advance([run], n_epochs)
        if run.made:
            yield run
        if interrupt is not None:
            raise interrupt


def advance(
    runs: Sequence[Run], n_epochs: int, n_threads: int = 1
) -> tuple[list[Run], BaseException | None]:
    """Make more epochs of every training, side by side in threads.

    The threads do not change the results.

    Returns
    -------
    runs : list of Run
        Where they are now.
    interrupt : BaseException or None
        What ended them early. Then each has the whole epochs it had made.
    """
    quiet = _quiet_epochs(runs[0])  # those that run side by side have as many
    made = runs[0].fitted.epoch.n_iter
    if quiet is None or not made <= quiet < made + n_epochs:
        return _advance(runs, n_epochs, n_threads)
    first, interrupt = _advance(runs, quiet - made, n_threads) if quiet > made else (runs, None)
    if interrupt is not None:
        return list(first), interrupt
    begun = [_with_first_tails(run) for run in first]
    moved, interrupt = _advance(begun, made + n_epochs - quiet, n_threads)
    return [_joined(*pair, quiet - made) for pair in zip(first, moved, strict=True)], interrupt


def _joined(first: Run, then: Run, n_first: int) -> Run:
    """Return where a training is after two steps, of which the first made `n_first` epochs."""
    if not then.made:  # broken off before a whole epoch: the tails have not begun either
        return first
    return then._replace(made=[*(first.made if n_first else ()), *then.made])


def _advance(
    runs: Sequence[Run], n_epochs: int, n_threads: int
) -> tuple[list[Run], BaseException | None]:
    engine = ENGINES[runs[0].plan.engine]
    tasks = [_task(run, n_epochs) for run in runs]
    trained, interrupt = engine.train(tasks, n_threads)
    return [_after(run, done) for run, done in zip(runs, trained, strict=True)], interrupt


def _quiet_epochs(run: Run) -> int | None:
    """Return after how many epochs the tails of the noise begin; None: never, or from the start."""
    return None if run.random_state is None else run.plan.quiet(run.n_epochs)


def _with_first_tails(run: Run) -> Run:
    posterior = with_first_tails(run.fitted.posterior, run.plan.likelihood.noise_prior)
    return run._replace(fitted=replace(run.fitted, posterior=posterior))


def _task(run: Run, n_epochs: int) -> Task:
    plan, fitted, stream = run.plan, run.fitted, run.random_state is None
    first = fitted.epoch.n_iter + 1
    n_iters = range(first, first + n_epochs)
    watching = None
    if fitted.posterior.noise_network is not None:
        watching = watch(n_iters, run.n_epochs, plan.memory, _n_seen(run), run.X.shape[1])
    return Task(
        posterior=fitted.posterior,
        X=run.X,
        X_var=run.X_var,
        y=run.y,
        standardizer=fitted.standardizer,
        likelihood=plan.likelihood,
        memory=plan.bound(_n_seen(run)),
        refine=np.full(n_epochs, stream or plan.refine),
        random_state=run.random_state,
        watch=watching,
        weights=run.weights,
        y_var=run.y_var,
        power=run.power,
        tail_rate=_tail_rate(run, first, n_epochs),
        informative_ratio=ONCE_INFORMATIVE_RATIO if run.once else INFORMATIVE_RATIO,
    )


def _tail_rate(run: Run, first: int, n_epochs: int) -> FloatArray | None:
    """Return how far each epoch moves the tails of the noise.

    Whole steps after the quiet epochs; in a stream the share that the rows have in all rows, but
    none with the first ones.
    """
    if not run.plan.likelihood.learns_tail:
        return None
    if run.random_state is None:
        known = run.fitted.n_samples_seen > 0
        return np.full(n_epochs, len(run.y) / _n_seen(run) if known else 0.0)
    quiet = _quiet_epochs(run)
    assert quiet is not None
    return np.where(np.arange(first, first + n_epochs) > quiet, 1.0, 0.0)


def _n_seen(run: Run) -> int:
    return run.fitted.n_samples_seen + (len(run.y) if run.new else 0)


def _after(run: Run, trained: Trained) -> Run:
    before = run.fitted
    first = before.epoch.n_iter + 1
    made = summarize(first, len(run.y), trained.records, before.standardizer)
    if not made:
        return run._replace(made=made)
    # The rows are new in the first pass only.
    gained = made[0].sum_log_Z if run.new else 0.0
    fitted = Fitted(
        posterior=trained.posterior,
        standardizer=before.standardizer,
        epoch=made[-1],
        log_evidence=before.log_evidence + gained,
        n_samples_seen=_n_seen(run),
    )
    return run._replace(fitted=fitted, made=made, new=False)
