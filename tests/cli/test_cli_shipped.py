"""Tables that other packages ship, as they are: the first command that a newcomer types works."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

import probprop
from cli_tables import call

Captured = pytest.CaptureFixture[str]

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("in_tmp_path")]


def shipped(package: str, path: str) -> Path:
    """Return a file of a package, without running the package."""
    found = find_spec(package)
    if found is None or found.origin is None:
        pytest.skip(f"{package}, which ships the table, is not installed")
    return Path(found.origin).parent / path


def fits_predicts_and_reports(table: Path, target: str) -> None:
    # The budget is the test's own: a newcomer gives none, and waits a minute.
    assert call(f"fit {table} --target {target} -o m.pbp --report r.html --budget fast") == 0
    assert call(f"predict m.pbp {table} -o out.csv -q") == 0
    assert call(f"evaluate m.pbp {table} -q") == 0
    assert Path("r.html").stat().st_size > 10_000


def test_the_body_mass_of_penguins(capfd: Captured) -> None:
    fits_predicts_and_reports(shipped("palmerpenguins", "data/penguins.csv"), "body_mass_g")
    said = capfd.readouterr().err
    assert "note: dropped 2 rows without 'body_mass_g'" in said
    model = probprop.load("m.pbp")
    assert model.categories["species"] == ["Adelie", "Chinstrap", "Gentoo"]
    assert model.categories["sex"] == ["female", "male", "(missing)"]


def test_the_miles_per_gallon_of_cars(capfd: Captured) -> None:
    fits_predicts_and_reports(shipped("vega_datasets", "_data/cars.json"), "Miles_per_Gallon")
    said = capfd.readouterr().err
    assert "cars.json (JSON)" in said
    assert "note: dropped 8 rows without 'Miles_per_Gallon'" in said
    assert "note: dropped 'Name': looks like an identifier" in said
    assert "note: dates in 'Year'" in said
    model = probprop.load("m.pbp")
    assert model.categories == {"Origin": ["Europe", "Japan", "USA"]}
    assert model.encoder["Year"].parts[0] == "year"
