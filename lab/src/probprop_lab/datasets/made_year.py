"""Synthetic songs in the form of Year Prediction MSD: for time and memory if its file is missing.

The real set has, for each of 515,345 songs, the mean of twelve numbers that describe the timbre of
a moment, their 78 variances and covariances over the song, and the year. Here a song has a
tendency of its own and a covariance of its own, so that the features depend on each other, have
scales from tens to thousands and long tails. The year is skewed as the real one is, from 1922 to
2011 with most songs in the last decade, and the features explain about a third of
its variance. Nothing in it is real: errors and log-likelihoods on these rows say nothing about PBP
on the real set.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from probprop._types import FloatArray
from probprop_lab.datasets.registry import find_source

N_ROWS, _N_COLUMNS = find_source("year_prediction_msd").shape
N_TIMBRE = 12
FIRST, LAST = 1922, 2011

_SHARE = 0.36  # of the variance of the logarithm of the age that the features explain
_MEDIAN_AGE, _SPREAD = 9.0, 0.7  # in years before 2011, and of the logarithm
_BLOCK = 20_000  # songs generated at a time: 15 MB
_UPPER = np.triu_indices(N_TIMBRE)


def songs(
    n: int = N_ROWS, seed: int = 0, block_size: int = _BLOCK
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Generate songs in blocks.

    Parameters
    ----------
    n : int, default=515345
    seed : int, default=0
        The first songs do not depend on n.
    block_size : int, default=20000

    Yields
    ------
    X : ndarray of shape (at most block_size, 90)
        12 means of the timbre and its 78 variances and covariances, of the tens and the hundreds.
    y : ndarray of shape (at most block_size,)
        Years, whole numbers.

    Examples
    --------
    >>> X, y = next(songs(3))
    >>> X.shape, bool(y.min() >= 1922)
    ((3, 90), True)
    """
    world = np.random.default_rng(seed)  # what all songs have in common
    mixing = world.standard_normal((N_TIMBRE, N_TIMBRE)) / np.sqrt(N_TIMBRE)
    scales = np.geomspace(40.0, 8.0, N_TIMBRE)
    slopes = world.standard_normal((3, 2 * N_TIMBRE)) / np.sqrt(2 * N_TIMBRE)
    for block, start in enumerate(range(0, n, block_size)):
        rng = np.random.default_rng([seed, block])
        size = block_size  # all of a block is drawn, so that its songs do not depend on n
        tendency = rng.standard_normal((size, N_TIMBRE)) @ mixing
        loudness = np.exp(0.4 * rng.standard_normal((size, N_TIMBRE)))  # of each number, in a song
        factors = mixing + 0.3 * rng.standard_normal((size, N_TIMBRE, N_TIMBRE))
        factors *= (loudness * scales)[:, :, np.newaxis]
        covariances = factors @ factors.transpose(0, 2, 1)
        X = np.column_stack([scales * tendency, covariances[:, *_UPPER]])
        a, b, c = slopes @ np.column_stack([tendency, np.log(loudness) / 0.4]).T
        told = (a + np.maximum(b, 0.0) + b * c) / 1.6  # about unit variance
        noise = rng.standard_normal(size)
        log_age = np.sqrt(_SHARE) * (told - 0.25) + np.sqrt(1.0 - _SHARE) * noise
        y = np.rint(LAST - _MEDIAN_AGE * np.exp(_SPREAD * log_age))
        end = min(size, n - start)
        yield np.round(X[:end], 5), np.clip(y[:end], FIRST, LAST)


def write_text(path: Path, n: int = N_ROWS, seed: int = 0) -> None:
    """Write synthetic songs as the publisher's text: a line each, the year first, 5 decimals.

    Parameters
    ----------
    path : Path
    n : int, default=515345
    seed : int, default=0
    """
    line = ",".join(["%d", *["%.5f"] * (_N_COLUMNS - 1)]) + "\n"
    with path.open("w", encoding="ascii") as file:
        for X, y in songs(n, seed):
            rows = np.column_stack([y, X]).tolist()
            file.write("".join([line % tuple(row) for row in rows]))
