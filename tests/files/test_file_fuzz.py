"""Mutated files: refused, or as good as the original."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from json_values import JSON, places_in
from model_files import X, rezip, survives, unzip
from probprop import ModelFileError, load
from probprop.estimators.regressor import PBPRegressor


def test_every_truncation_is_noticed(path: Path, model: PBPRegressor) -> None:
    content, expected = path.read_bytes(), model.predict(X)
    lengths = {*range(100), *range(0, len(content), 17), *range(len(content) - 300, len(content))}
    for length in sorted(lengths):
        assert not survives(path, content[:length], expected), length
    assert survives(path, content, expected)


def test_flipped_bytes_are_noticed_or_do_not_matter(path: Path, model: PBPRegressor) -> None:
    content, expected, rng = path.read_bytes(), model.predict(X), random.Random(0)
    places = [rng.randrange(len(content)) for _ in range(600)]
    places += [*range(45), *range(len(content) - 22, len(content))]
    for place in places:
        mutated = bytearray(content)
        mutated[place] ^= rng.choice([1 << rng.randrange(8), rng.randrange(1, 256)])
        survives(path, bytes(mutated), expected)


def test_flips_in_the_data_are_all_noticed(path: Path, model: PBPRegressor) -> None:
    content, expected, rng = path.read_bytes(), model.predict(X), random.Random(1)
    for name, data in unzip(path).items():
        start = content.index(name.encode() + data) + len(name)
        for _ in range(8):
            mutated = bytearray(content)
            mutated[start + rng.randrange(len(data))] ^= rng.randrange(1, 256)
            assert not survives(path, bytes(mutated), expected), name


PLACE = st.integers(0, 2**32)
CHUNK = st.one_of(
    st.binary(max_size=20),
    st.sampled_from([b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07"]),
    st.sampled_from([b"\xff" * 4, b"\xff" * 8, bytes(4), bytes(8), b"\x01\x00\x18\x00"]),
)
EDITS = st.lists(
    st.tuples(st.sampled_from(["overwrite", "insert", "delete", "copy"]), PLACE, PLACE, CHUNK),
    min_size=1,
    max_size=5,
)


@settings(max_examples=300, deadline=None)
@given(edits=EDITS, near_end=st.booleans())
def test_mutations(good: Path, model: PBPRegressor, edits: list[Any], near_end: bool) -> None:
    content = good.read_bytes()
    for action, first, second, chunk in edits:
        # The last quarter has the directory of the zip.
        low = 3 * len(content) // 4 if near_end else 0
        start = low + first % (len(content) - low + 1)
        stop = start + second % 64
        before, after = content[:start], content[start:]
        content = {
            "overwrite": before + chunk + content[start + len(chunk) :],
            "insert": before + chunk + after,
            "delete": before + content[stop:],
            "copy": before + content[start:stop] + after,
        }[action]
    survives(good.parent / "mutated", content, model.predict(X))


@settings(max_examples=300, deadline=None)
@given(data=st.data(), value=JSON)
def test_any_json_in_the_header(good: Path, data: Any, value: Any) -> None:
    members = unzip(good)
    header = json.loads(members["header.json"])
    place = data.draw(st.sampled_from(list(places_in(header))))
    if place:
        target = header
        for key in place[:-1]:
            target = target[key]
        target[place[-1]] = value
    else:
        header = value
    mutated = good.parent / "header"
    rezip(mutated, members | {"header.json": json.dumps(header).encode()})
    try:
        loaded = load(mutated)
    except ModelFileError:
        return
    assert type(loaded) is PBPRegressor
    assert loaded.posterior_.alpha_noise > 1.0
