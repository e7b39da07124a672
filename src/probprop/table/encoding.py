"""`TableEncoder`: the encoding of tables as numbers, from whole tables or pieces of them."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from pandas.api import types
from scipy.stats import rankdata
from sklearn import get_config
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from probprop._types import Array, FloatArray
from probprop.encoding.piecewise import FEW_LEVELS
from probprop.inference.inputs import MEAN, Coded
from probprop.table.cells import PARTS, Order, Part, is_text, order_of, values_of, why_text
from probprop.table.columns import (
    Kind,
    booleans,
    check_no_missing,
    dates,
    kind_of,
    numbers,
    texts,
    written,
    written_numbers,
)
from probprop.table.names import (
    COLUMN_FACTS,
    MISSING,
    OTHER,
    TableError,
    as_frame,
    check_present,
    column_facts,
    listed,
    notes_on,
    select,
)

MOST_LEVELS = 3_000  # of a column; further ones, the rarer, are pooled
_MEANS_FROM = 1_000  # distinct texts above which mean targets of categories are an input
_MEANS_FOLDS, _MEANS_OUTPUTS = 5, 10
_ALL_RARE = "distinct values are all rare"
_LEAST_SHARE, _LEAST = 50, 5  # rows a level needs: one in 50 up to five
_IDENTIFIER = 100  # more distinct texts than this, in more than half the rows
_FEW = 20  # with fewer distinct values, a column is never an identifier or free text
_MOST_COUNTED = 10_000  # distinct texts of a piece that are counted
_OFTEN = 0.05  # share of missing values from which an input says that a number is missing
_WORDS = 5  # words per cell from which text is free text
_NAMES_ROWS = re.compile(
    r"(?i:(.*[\W_])?(id|pid|uuid|row[\W_]?names?|index|order|serial|case|unnamed: \d+))"
    r"|.*[a-z]I[dD]"
)
_LEAK, _LEAK_ROWS = 1e-3, 50  # unexplained share of the variance; fewest rows


class UnknownCategoryWarning(UserWarning):
    """Samples have categories that the model was not fitted on."""


class TableNote(UserWarning):
    """A decision about a column of a table that a user should know about."""


# ---- One column


@dataclass(frozen=True)
class ColumnEncoder:
    """How one column of a table becomes inputs of a network."""

    name: str
    kind: Kind
    levels: tuple[str, ...] = ()  # of text, each with an input; perhaps `OTHER` and `MISSING`
    parts: tuple[Part, ...] = ()  # of dates; each but the year is a sine and a cosine
    order: Order = "day"  # of dates such as 3/14/2024
    n_missing: int = 0
    dropped: str = ""  # why the column is not used; empty if it is
    leak: bool = False  # whether it predicts the target almost perfectly on its own
    note: str = ""  # why values that look like numbers are text
    ranks: tuple[str, ...] = ()  # all values of an ordered category; their rank is the last input
    gaps: bool = False  # whether the second input of a number says that it is missing
    known: tuple[str, ...] = ()  # categories whose mean target is an input; perhaps `MISSING`
    means: tuple[tuple[float, ...], ...] = ()  # of each output: of `known`, then of all samples

    @property
    def names(self) -> list[str]:
        """The inputs: ``column``, ``column=level``, ``column.rank``, ``column.season_sin``."""
        if self.dropped:
            return []
        if self.kind == "text":
            rank = [f"{self.name}.rank"] if self.ranks else []
            means = [f"{self.name}.mean{i or ''}" for i in range(len(self.means))]
            return [*(f"{self.name}={level}" for level in self.levels), *rank, *means]
        if self.kind == "date":
            cycles = [f"{part}_{wave}" for part in self.parts[1:] for wave in ("sin", "cos")]
            return [f"{self.name}.{part}" for part in ("year", *cycles)]
        return [self.name, *([f"{self.name}={MISSING}"] if self.gaps else [])]

    def dates(self, cells: pd.Series) -> pd.DatetimeIndex:
        """Return cells of a date, none of them missing, as moments, (n,)."""
        return dates(self.name, cells, self.order)

    def encode(self, column: pd.Series, outputs: FloatArray | None = None) -> FloatArray:
        """Return the inputs, (n, len(names)), NaN where a value is missing and has no level.

        With the outputs of the samples, (n, K), mean targets are out of fold.
        """
        X = np.full((len(column), len(self.names)), np.nan)
        there = column.notna().to_numpy()
        cells = column[there]
        match self.kind:
            case "number":
                X[there, 0] = numbers(self.name, cells)
                X[:, 1:] = ~there[:, np.newaxis]
            case "boolean":
                X[there, 0] = booleans(self.name, cells)
            case "date":
                found = values_of(self.dates(cells))
                angles = [2.0 * np.pi * found[part] for part in self.parts[1:]]
                waves = [wave(angle) for angle in angles for wave in (np.sin, np.cos)]
                X[there] = np.column_stack([found["year"], *waves])
            case "text":
                place, n = self.level_of(column), len(self.levels)
                known = np.flatnonzero(place >= 0)
                X[known, :n] = 0.0
                X[known, place[known]] = 1.0
                X[:, n:] = self.after_levels(column, outputs)
        return X

    def after_levels(self, column: pd.Series, outputs: FloatArray | None = None) -> FloatArray:
        """Return the other inputs of text: the rank, NaN where missing, and the mean targets."""
        ranks = np.full((len(column), min(1, len(self.ranks))), np.nan)
        if self.ranks:
            there = column.notna().to_numpy()
            place = pd.Index(np.array(self.ranks, object)).get_indexer(texts(column[there]))
            ranks[there, 0] = np.where(place < 0, np.nan, place)
        if not self.means:
            return ranks
        known = pd.Index(np.array(self.known, object)).get_indexer(or_missing(column))
        if outputs is None:
            return np.column_stack([ranks, np.transpose(self.means)[known]])
        return np.column_stack([ranks, _means_out_of_fold(known, outputs, len(self.known))])

    def level_of(self, column: pd.Series) -> Array:
        """Return the place of each value among the levels, (n,); -1 if it has none."""
        levels = pd.Index(np.array(self.levels, object))
        place: Array = levels.get_indexer(or_missing(column))
        place[(place < 0) & column.notna().to_numpy()] = levels.get_indexer([OTHER])[0]
        return place


def or_missing(column: pd.Series) -> Array:
    """Return the texts of a column, (n,), with `MISSING` where there is none."""
    there, found = column.notna().to_numpy(), np.full(len(column), MISSING, object)
    found[there] = texts(column[there])
    return found


def _means(place: Array, outputs: FloatArray, n: int) -> FloatArray:
    """Return the mean outputs of n categories, then of all samples, (n + 1, K).

    `place` is the category of each sample, -1 for none. Means are shrunk toward the mean of all
    samples by the ratio of the variances within and between categories.
    """
    mean, variance = outputs.mean(axis=0), outputs.var(axis=0)
    inside = np.flatnonzero(place >= 0)
    of, Y = place[inside], outputs[inside]
    count = np.bincount(of, minlength=n)[:, np.newaxis]
    sums = np.stack([np.bincount(of, y, n) for y in Y.T], axis=1)
    residuals = Y - (sums / np.maximum(count, 1))[of]
    within = (residuals**2).sum(axis=0) / max(1, len(Y) - np.count_nonzero(count))
    ratio = within / np.maximum(variance - within, 1e-6 * variance + np.finfo(float).tiny)
    means = (sums + ratio * mean) / np.maximum(count + ratio, np.finfo(float).tiny)
    return np.vstack([means, mean])


def _means_out_of_fold(place: Array, outputs: FloatArray, n: int) -> FloatArray:
    """Return the mean outputs of each sample's category, (n_samples, K), over other samples."""
    fold = np.random.RandomState(0).permutation(len(place)) % _MEANS_FOLDS
    found = np.empty(outputs.shape)
    for k in range(_MEANS_FOLDS):
        own = fold == k
        found[own] = _means(place[~own], outputs[~own], n)[place[own]]
    return found


def _outputs_of(y: ArrayLike | None) -> FloatArray | None:
    """Return what categories have means of, (n, K): the target, or an indicator of each class."""
    target = np.asarray(y)
    if target.ndim != 1:
        return None
    if target.dtype.kind in "biuf":
        return target.astype(np.float64)[:, np.newaxis]
    codes, classes = pd.factorize(target, sort=True)
    first = 1 if len(classes) == 2 else 0
    outputs = (codes[:, np.newaxis] == np.arange(first, len(classes))).astype(np.float64)
    return outputs if outputs.shape[1] <= _MEANS_OUTPUTS else None


class Look(NamedTuple):
    """What was found in the cells of one column, of a whole table or of one piece."""

    kind: Kind | None  # None: no cell has a value
    n: int  # cells with a value
    n_missing: int
    counts: Counter[str]  # of the different texts, or of the most frequent ones
    n_different: int = 0  # texts
    ranges: Mapping[Part, tuple[float, float]] = {}  # of dates
    order: Order = "day"
    counts_rows: bool = False  # whole numbers, all different, under the name of an identifier
    note: str = ""  # why numbers are text
    ranks: tuple[str, ...] = ()  # values of an ordered category


def look_at(name: str, column: pd.Series, *, categorical: bool = False) -> Look:
    """Look at a column, or at a piece of it."""
    cells = column.dropna()
    kind = _kind_of(name, cells, categorical) if len(cells) else None
    found = Look(kind, len(cells), len(column) - len(cells), Counter())
    match kind:
        case "text":
            counts = Counter(texts(cells).tolist())
            n_different = len(counts)
            if n_different > _MOST_COUNTED:
                counts = Counter(dict(counts.most_common(_MOST_COUNTED)))
            found = found._replace(counts=counts, n_different=n_different)
            if isinstance(cells.dtype, pd.CategoricalDtype):
                ranks = cells.cat.categories if cells.cat.ordered else ()
                return found._replace(ranks=tuple(map(written, ranks)))
            note = "" if categorical else why_text(pd.Series([*counts], dtype=object))
            return found._replace(note=note)
        case "date":
            order = date_order(cells)
            values = values_of(dates(name, cells, order))
            ranges = {part: (float(v.min()), float(v.max())) for part, v in values.items()}
            return found._replace(ranges=ranges, order=order)
        case "number" if _NAMES_ROWS.fullmatch(name) and found.n_missing == 0 and found.n > _FEW:
            x = numbers(name, cells)
            whole = bool((x == np.rint(x)).all())
            return found._replace(counts_rows=whole and len(np.unique(x)) == len(x))
    return found


def _kind_of(name: str, cells: pd.Series, categorical: bool) -> Kind:
    if categorical or isinstance(cells.dtype, pd.CategoricalDtype):
        return "text"
    is_string = is_text(cells.dtype) and types.infer_dtype(cells) == "string"
    if _is_plain(cells) or (is_string and written_numbers(pd.Series(cells.unique(), dtype=object))):
        return "number"
    return kind_of(name, cells)


def column_encoder(
    name: str, looks: Mapping[str, Look], *, drop_identifiers: bool = True
) -> ColumnEncoder:
    """Return the encoder of a column, given its cells in each piece, by label."""
    found = list(looks.values())
    n, n_missing = sum(each.n for each in found), sum(each.n_missing for each in found)
    if not n and not drop_identifiers:
        raise TableError(f"Column {name!r} has no value in any row: drop it (--drop).")
    if not n:
        return ColumnEncoder(name, "number", n_missing=n_missing, dropped="it has no value")
    kind = one_kind(name, {label: each.kind for label, each in looks.items() if each.kind})
    made = ColumnEncoder(name, kind, n_missing=n_missing)
    if kind == "number":
        if drop_identifiers and all(each.counts_rows for each in found):
            return replace(made, dropped=_identifies(n, n))
        return replace(made, gaps=min(n, n_missing) >= max(_FEW, _OFTEN * (n + n_missing)))
    if kind == "date":
        ranges = [each.ranges for each in found if each.ranges]
        ends = {p: (min(r[p][0] for r in ranges), max(r[p][1] for r in ranges)) for p in PARTS}
        parts = tuple(p for p in PARTS if p == "year" or ends[p][0] < ends[p][1])
        order: Order = "month" if any(each.order == "month" for each in found) else "day"
        return replace(made, parts=parts, order=order)
    if kind == "text":
        counts = sum((each.counts for each in found), Counter[str]())
        n_different = len(counts)
        if any(each.n_different > _MOST_COUNTED for each in found):
            n_different = sum(each.n_different for each in found)  # at most
        ranks = found[0].ranks if all(each.ranks == found[0].ranks for each in found) else ()
        levels = _levels(counts, n, n_missing, ranks)
        dropped = _says_nothing(counts, n_different, n) if drop_identifiers else ""
        if not dropped and levels[0] in (OTHER, MISSING):
            dropped = f"its {n_different:,} {_ALL_RARE}"
        note = next((each.note for each in found if each.note), "")
        if dropped:
            return replace(made, dropped=f"{dropped}; {note}" if note else dropped)
        return replace(made, levels=levels, note=note, ranks=ranks if len(ranks) > 2 else ())
    return made


def _levels(
    counts: Counter[str], n: int, n_missing: int, ranks: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the levels that have an input: not the rare ones, which are pooled."""
    least = min(_LEAST, max(1, n // _LEAST_SHARE))
    common = [level for level, count in counts.items() if count >= least]
    common = sorted(common, key=lambda level: (-counts[level], level))[:MOST_LEVELS]
    rare = [OTHER] if len(common) < len(counts) else []
    common = [level for level in ranks if level in common] if ranks else sorted(common)
    return (*common, *rare, *([MISSING] if n_missing else []))


def _says_nothing(counts: Counter[str], n_different: int, n: int) -> str:
    """Return why a model cannot learn from these texts; empty if it can."""
    many = n_different > _IDENTIFIER and n_different > 0.5 * n
    if not many and not (n_different > _FEW and n_different == n):
        return ""
    words = np.mean([len(text.split()) for text in counts])
    if words >= _WORDS:
        return f"free text of {words:.0f} words per value"
    return _identifies(n_different, n)


def _identifies(n_different: int, n: int) -> str:
    return f"looks like an identifier ({n_different:,} distinct values in {n:,} rows)"


# ---- All columns


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encode the columns of a table as numbers: numbers, categories, dates, missing values.

    `PBPRegressorCV`, `PBPClassifierCV` and the command ``probprop fit`` encode tables with it.
    Numbers stay as they are, also if they are text, perhaps with a unit, such as ``"106.4 kg"``.
    True and false become 1 and 0. A date becomes the year with its fraction, and a sine and a
    cosine for the time of year, the weekday and the time of day if they vary. Other text, and
    columns of a category type, are one-hot encoded. Categories of fewer than 5 rows (fewer if there
    are fewer than 250 rows), and all but the 3,000 most frequent, share one level, which unseen
    categories are given too. If there are more than 1,000, the mean target of the category is an
    input: for the samples of `fit_transform` over other samples only. A missing category is a level
    of its own. Ordered categories have their rank as an input too. Other
    missing values, and missing or unseen categories without such a level, are NaN; if at least 5 %
    and 20 values of a column of numbers are missing, another input is 1 where they are.

    Columns that identify the rows, free text and columns without a value are dropped; `notes` says
    so. Ambiguous dates and badly written numbers raise a `TableError`.

    Parameters
    ----------
    categorical_features : "from_dtype", sequence of str or int, or mask, default="from_dtype"
        Columns whose values are categories, by name, by index or as a mask of shape
        (n_features,). "from_dtype": columns of a category type, and text that is neither numbers
        nor dates, which is always categorical.
    drop_identifiers : bool, default=True
        Whether to drop columns that identify the rows, and free text.

    Attributes
    ----------
    encoders_ : tuple of ColumnEncoder
        One for each column of the table.
    columns_ : DataFrame
        For each column its kind, how it is encoded, and the numbers of levels and missing values.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, if X had names.

    Examples
    --------
    >>> import pandas as pd
    >>> from probprop.table import TableEncoder
    >>> fruit = pd.DataFrame({"kind": ["apple", "pear", None], "weight": ["150 g", "180 g", None]})
    >>> encoder = TableEncoder().fit(fruit)
    >>> encoder.get_feature_names_out().tolist()
    ['kind=apple', 'kind=pear', 'kind=(missing)', 'weight']
    >>> encoder.transform(fruit)
    array([[  1.,   0.,   0., 150.],
           [  0.,   1.,   0., 180.],
           [  0.,   0.,   1.,  nan]])
    """

    encoders_: tuple[ColumnEncoder, ...]
    n_features_in_: int

    def __init__(
        self,
        *,
        categorical_features: Literal["from_dtype"] | ArrayLike = "from_dtype",
        drop_identifiers: bool = True,
    ) -> None:
        self.categorical_features = categorical_features
        self.drop_identifiers = drop_identifiers

    def fit(self, X: Any, y: ArrayLike | None = None) -> Self:
        """Decide how each column is encoded.

        X is a table of pandas, polars, pyarrow or another library that narwhals reads, or an array,
        of shape (n_samples, n_features). With y, of shape (n_samples,), columns that predict it
        almost perfectly on their own are noted.
        """
        frame = checked_frame(self, X, reset=True)
        categorical = self._categorical(list(frame.columns))
        made = [
            column_encoder(
                name,
                {"the table": look_at(name, frame[name], categorical=is_category)},
                drop_identifiers=self.drop_identifiers,
            )
            for name, is_category in zip(frame, categorical, strict=True)
        ]
        made = _without_repeats(made, frame)
        outputs = None if y is None else _outputs_of(y)
        if outputs is not None and len(outputs) == len(frame):
            made = [_with_means(each, frame[each.name], outputs) for each in made]
        if not any(each.names for each in made):
            why = "; ".join(f"{each.name!r}: {each.dropped}" for each in made)
            raise TableError(f"The table leaves no feature to learn from ({why}).")
        self.encoders_ = tuple(made if y is None else _with_leaks(made, frame, y))
        return self

    def transform(self, X: Any) -> Any:
        """Return the inputs of a network, (n_samples, n_inputs); NaN where a value is missing.

        With more than 32 levels in a column they are a `scipy.sparse.csr_array`, unless
        `set_output` asks for a frame.
        """
        return self._transformed(X)

    def fit_transform(self, X: Any, y: ArrayLike | None = None) -> Any:
        """Do the same for the samples of `fit`, whose mean targets are over other samples."""
        return self.fit(X, y)._transformed(X, y)

    def _transformed(self, X: Any, y: ArrayLike | None = None) -> Any:
        check_is_fitted(self, "encoders_")
        found = self.coded(checked_frame(self, X, reset=False), y)
        own = vars(self).get("_sklearn_output_config", {})  # of `set_output`
        plain = own.get("transform", get_config()["transform_output"]) == "default"
        if plain and isinstance(found, Coded) and found.sets:
            return found.tocsr()
        return np.asarray(found)

    def encode(self, frame: pd.DataFrame) -> FloatArray:
        """Return the inputs for a frame that has the columns by name; others are ignored."""
        return np.asarray(self.coded(frame))

    def coded(self, frame: pd.DataFrame, y: ArrayLike | None = None) -> FloatArray | Coded:
        """Return the same, with one-hot columns of more than 32 levels as codes, if there are any.

        Estimators of probprop take both. With the targets of training samples, (n,), mean targets
        are out of fold.
        """
        outputs = None if y is None else _outputs_of(y)
        if unknown := self.unknown(frame):
            where = ", ".join(
                f"{name!r} ({len(cells)} row{'s' * (len(cells) > 1)} with "
                f"{listed(dict.fromkeys(cells), 3)})"
                for name, cells in unknown.items()
            )
            warnings.warn(
                f"Categories that the model was not fitted on in column {where}: they are treated "
                "as missing.",
                UnknownCategoryWarning,
                stacklevel=4,
            )
        places, first = self.places, self.sets
        others = np.flatnonzero(first < 0)
        X, codes = np.zeros((len(frame), len(others))), list[Array]()
        plain = [e.name for e in self.used if e.kind == "number" and _is_plain(frame[e.name])]
        if plain:
            at = {name: np.searchsorted(others, places[name]) for name in plain}
            X[:, [at[name][0] for name in plain]] = cells = frame[plain].to_numpy(np.float64)
            gaps = [i for i, name in enumerate(plain) if len(at[name]) > 1]
            X[:, [at[plain[i]][1] for i in gaps]] = np.isnan(cells[:, gaps])
        for each in self.used:
            inputs = np.array(places[each.name])
            own = np.searchsorted(others, inputs[first[inputs] < 0])
            if len(own) < len(inputs):
                place = each.level_of(frame[each.name])
                codes.append(np.where(place < 0, np.nan, place))
                X[:, own] = each.after_levels(frame[each.name], outputs)
            elif each.name not in plain or np.isinf(X[:, own]).any():
                X[:, own] = each.encode(frame[each.name], outputs)
        return Coded(np.column_stack([X, *codes]), first) if (first != -1).any() else X

    @property
    def sets(self) -> Array:
        """The first input of the set of each input that is stored as a code, as in `Coded`."""
        first = np.full(len(self.names), -1)
        for name, own in self.places.items():
            first[own.stop - len(self[name].means) : own.stop] = MEAN
            if len(levels := self[name].levels) > FEW_LEVELS:
                first[own.start : own.start + len(levels)] = own.start
        return first

    def unknown(self, frame: pd.DataFrame) -> dict[str, list[str]]:
        """Return the categories without a level, one for each row with one, by column."""
        found: dict[str, list[str]] = {}
        for each in self.used:
            if each.kind == "text" and OTHER not in each.levels:
                cells = frame[each.name].dropna()
                if len(new := cells[each.level_of(cells) < 0]):
                    found[each.name] = texts(new).tolist()
        return found

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the inputs: ``column``, ``column=level``, ``column.year``."""
        check_is_fitted(self, "encoders_")
        return np.array(self.names, object)

    @property
    def used(self) -> list[ColumnEncoder]:
        """The encoders of the columns that are not dropped."""
        return [each for each in self.encoders_ if not each.dropped]

    @property
    def names(self) -> list[str]:
        """Names of the inputs."""
        return [name for each in self.used for name in each.names]

    @property
    def places(self) -> dict[str, range]:
        """The inputs of each column that is used."""
        found, start = {}, 0
        for each in self.used:
            found[each.name] = range(start, start + len(each.names))
            start += len(each.names)
        return found

    @property
    def kinds(self) -> dict[str, Kind]:
        """Kind of each column that is used."""
        return {each.name: each.kind for each in self.used}

    def __getitem__(self, name: str) -> ColumnEncoder:
        return next(each for each in self.encoders_ if each.name == name)

    @property
    def dropped(self) -> list[str]:
        """The columns that were dropped and why, a sentence each."""
        return [f"dropped {e.name!r}: {e.dropped}" for e in self.encoders_ if e.dropped]

    @property
    def notes(self) -> list[str]:
        """Notes for the user: columns that are dropped, read as text, or may be leaks."""
        return [
            *self.dropped,
            *(f"{e.name!r}: {note}" for e in self.used for note in notes_on(vars(e))),
        ]

    @property
    def columns_(self) -> pd.DataFrame:
        """Kind, encoding, and numbers of levels and missing values of each column."""
        return pd.DataFrame([column_facts(vars(e)) for e in self.encoders_], columns=COLUMN_FACTS)

    def _categorical(self, names: list[str]) -> list[bool]:
        """Return for each column whether `categorical_features` names it."""
        given = self.categorical_features
        if isinstance(given, str) and given == "from_dtype":
            return [False] * len(names)
        wanted = np.asarray(given)
        if wanted.dtype == bool:
            if wanted.shape != (len(names),):
                raise ValueError(
                    f"categorical_features set as a boolean mask should have shape ({len(names)},)."
                    f" Got {wanted.shape}."
                )
            return [bool(flag) for flag in wanted]
        if wanted.dtype.kind in "iu" and ((wanted < 0) | (wanted >= len(names))).any():
            raise ValueError(
                "categorical_features set as integer indices should be in "
                f"[0, n_features - 1] = [0, {len(names) - 1}]. Got {wanted.tolist()}."
            )
        chosen = {names[i] for i in wanted} if wanted.dtype.kind in "iu" else {*map(str, wanted)}
        check_present("The table", sorted(chosen), names)
        return [name in chosen for name in names]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags


def checked_frame(estimator: Any, X: Any, *, reset: bool) -> pd.DataFrame:
    """Return X as a frame; its names are checked, or remembered, as scikit-learn does."""
    frame = as_frame(X)
    if frame is not None:
        validate_data(estimator, frame, reset=reset, skip_check_array=True)
        return frame.set_axis([str(name) for name in frame.columns], axis=1)
    cells = validate_data(estimator, X, reset=reset, dtype=None, ensure_all_finite=False)
    usual = [f"x{i}" for i in range(cells.shape[1])]
    names = getattr(estimator, "feature_names_in_", usual)
    return pd.DataFrame(cells, columns=list(names)).infer_objects()


def table_encoder(encoders: Sequence[ColumnEncoder]) -> TableEncoder:
    """Return a fitted encoder of these columns."""
    made = TableEncoder()
    made.encoders_, made.n_features_in_ = tuple(encoders), len(encoders)
    made.feature_names_in_ = np.array([each.name for each in encoders], object)
    return made


def _with_means(each: ColumnEncoder, column: pd.Series, outputs: FloatArray) -> ColumnEncoder:
    """Return the encoder with the mean outputs of categories, if it has many."""
    if each.kind != "text" or (each.dropped and _ALL_RARE not in each.dropped):
        return each
    counts = pd.Series(or_missing(column)).value_counts()
    if len(counts) <= _MEANS_FROM:
        return each
    known = tuple(sorted(counts.index[counts > 1]))
    place = pd.Index(np.array(known, object)).get_indexer(or_missing(column))
    means = tuple(map(tuple, _means(place, outputs, len(known)).T.tolist()))
    levels = each.levels or (OTHER, *([MISSING] if each.n_missing else []))
    return replace(each, dropped="", levels=levels, known=known, means=means)


def _is_plain(column: pd.Series) -> bool:
    return isinstance(column.dtype, np.dtype) and column.dtype.kind in "fiu"


def _without_repeats(made: Sequence[ColumnEncoder], frame: pd.DataFrame) -> list[ColumnEncoder]:
    """Drop a date, or an indicator of missing values, that another column has already."""
    seen: dict[bytes, str] = {}
    left = []
    for each in made:
        if each.gaps and f"{each.name}={MISSING}" in frame:
            each = replace(each, gaps=False)
        if each.kind == "date" and not each.dropped:
            found = each.encode(frame[each.name]).tobytes()
            if (first := seen.setdefault(found, each.name)) != each.name:
                each = replace(each, dropped=f"the same dates as {first!r}")
        left.append(each)
    return left


def _with_leaks(
    made: Sequence[ColumnEncoder], frame: pd.DataFrame, y: ArrayLike
) -> list[ColumnEncoder]:
    """Note columns that predict the target almost perfectly on their own.

    Samples are sorted by the column: the mean squared difference of neighboring targets, or of
    their ranks, is twice the variance that the column leaves unexplained.
    """
    target = np.asarray(y)
    if target.ndim > 1 or len(target) < _LEAK_ROWS or sum(not each.dropped for each in made) < 2:
        return list(made)
    at_least = 0.0  # squared differences of neighbors, since each class has to begin
    if target.dtype.kind in "fiu":
        Y = rankdata(target)[:, np.newaxis]  # outliers do not hide a leak
    else:
        codes, classes = pd.factorize(target)
        Y = (codes[:, np.newaxis] == np.arange(len(classes))).astype(np.float64)
        at_least = 2.0 * (len(classes) - 1)
    variance = ((Y - Y.mean(axis=0)) ** 2).sum()
    shuffled = np.random.RandomState(0).permutation(len(Y))  # ties say nothing, whatever the order
    found = []
    for each in made:
        if not each.dropped and each.kind in ("number", "text") and variance > 0.0:
            column = frame[each.name]
            x = each.encode(column)[:, 0] if each.kind == "number" else each.level_of(column)
            order = shuffled[np.argsort(x[shuffled], kind="stable")]
            left = (np.diff(Y[order], axis=0) ** 2).sum() - at_least
            if left < _LEAK * 2.0 * variance:
                each = replace(each, leak=True)
        found.append(each)
    return found


def date_order(column: pd.Series) -> Order:
    """Return which comes first in a column of dates without missing values, day or month."""
    different = pd.Series(column.unique())
    is_string = is_text(column.dtype) and all(isinstance(cell, str) for cell in different)
    return (order_of(different) if is_string else None) or "day"


def times_of(frame: pd.DataFrame, name: str) -> Array:
    """Return a column of numbers or dates as values that grow with time, (n,)."""
    check_no_missing(select(frame, [name]))
    column = frame[name]
    kind = kind_of(name, column)
    if kind == "number":
        return numbers(name, column)
    if kind != "date":
        raise TableError(
            f"Column {name!r} of times (--time) must have numbers or dates, but has {kind}: "
            "give another column, or write its values as 2024-05-31."
        )
    times: Array = dates(name, column, date_order(column)).to_numpy().astype(np.int64)
    return times


_IN_WORDS = {"number": "numbers", "boolean": "true and false", "date": "dates", "text": "text"}


def one_kind(name: str, held: Mapping[str, Kind]) -> Kind:
    """Return the kind of a column in all pieces, given its kind in each, by label."""
    if not held:
        raise TableError(f"Column {name!r} has no value in any row: leave it out.")
    label, kind = next(iter(held.items()))
    for other, its in held.items():
        if its != kind:
            raise TableError(
                f"Column {name!r} has {_IN_WORDS[its]} in {other}, but {_IN_WORDS[kind]} in "
                f"{label}: write it with one type in all of them, or leave it out."
            )
    return kind
