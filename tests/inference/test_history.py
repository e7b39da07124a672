"""The one warning about what training left out: seldom enough to be read."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from probprop.inference.posterior import Epoch, initial_posterior
from probprop.inference.training import UpdateWarning, warn_of_counts

POSTERIOR = initial_posterior(  # of 10 * 5 + 1 * 11 = 61 weights
    [4, 10, 1],
    noise_shape=6.0,
    noise_rate=6.0,
    prior_shape=6.0,
    prior_rate=6.0,
    random_state=np.random.RandomState(0),
    dtype=np.dtype("float64"),
)
PLAIN = Epoch(1, 10_000, -1.0, 1.0, 1.0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({"n_undone": 62}, "62 weight updates undone"),
        ({"n_guarded": 2}, "2 noise updates made by quadrature"),
        ({"n_guarded": 2, "n_undone": 1}, "1 weight updates undone"),
        ({"n_held": 62}, "62 precisions held up between rounds .* leave n_shards at None"),
    ],
)
def test_more_than_one_in_ten_thousand_is_a_warning(counts: dict[str, int], words: str) -> None:
    with pytest.warns(UpdateWarning, match=f"In 10000 updates: .*{words}"):
        warn_of_counts([PLAIN._replace(**counts)], POSTERIOR)


def test_a_few_are_not() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_counts([PLAIN._replace(n_undone=61, n_guarded=1, n_held=61)], POSTERIOR)
        warn_of_counts([], POSTERIOR)


def test_a_row_that_is_lost_always_is() -> None:
    with pytest.warns(RuntimeWarning, match="1 points skipped") as caught:
        warn_of_counts([PLAIN._replace(n_skipped_points=1)], POSTERIOR)
    assert caught[0].category is RuntimeWarning  # the command shows it without -v
