"""Tables as users have them: one table of flats in every awkward form, generated here."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import zipfile
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np
import pandas as pd


def flats(n: int = 60) -> pd.DataFrame:
    """Return flats with a price that depends on all of their columns."""
    rng = np.random.RandomState(0)
    day = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.randint(0, 700, n), unit="D")
    frame = pd.DataFrame(
        {
            "id": [f"{i:04d}" for i in range(n)],
            "town": rng.choice(["Köln", "Rom", "Oslo"], n),
            "area": rng.uniform(20.0, 99.0, n).round(1),
            "lift": rng.choice([True, False], n),
            "sold": day.strftime("%Y-%m-%d"),
        }
    )
    by_town = frame["town"].map({"Köln": 10.5, "Rom": 50.5, "Oslo": 90.5})
    frame["price"] = (frame["area"] + by_town + day.month + rng.normal(0.0, 2.0, n)).round(2)
    return frame


def xlsx(frame: pd.DataFrame) -> dict[str, str]:
    """Return the parts of a minimal spreadsheet; moments are numbers with the style of a date."""

    def cell(value: object) -> str:
        if isinstance(value, pd.Timestamp):
            days = (value - pd.Timestamp("1899-12-30")) / pd.Timedelta(days=1)
            return f'<c s="1"><v>{days!r}</v></c>'
        if isinstance(value, bool | np.bool_):
            return f'<c t="b"><v>{int(value)}</v></c>'
        if isinstance(value, float | int):
            return "<c/>" if value != value else f"<c><v>{value!r}</v></c>"
        return f'<c t="inlineStr"><is><t>{escape(str(value))}</t></is></c>'

    rows = [list(frame), *frame.astype(object).to_numpy().tolist()]
    lines = "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    of = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    return {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"/>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" '
        f'Type="{of}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{of}"><sheets>'
        '<sheet name="Flats" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships">'
        f'<Relationship Id="r1" Type="{of}/worksheet" Target="worksheets/sheet1.xml"/>'
        f'<Relationship Id="r2" Type="{of}/styles" Target="styles.xml"/></Relationships>',
        "xl/styles.xml": f'<styleSheet xmlns="{main}"><cellXfs count="2"><xf numFmtId="0"/>'
        '<xf numFmtId="14" applyNumberFormat="1"/></cellXfs></styleSheet>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{main}"><sheetData>{lines}</sheetData>'
        "</worksheet>",
    }


def write_awkward(folder: Path, frame: pd.DataFrame | None = None) -> dict[str, Path]:
    """Write flats in every form; return the paths by what is awkward about them."""
    frame = flats() if frame is None else frame
    plain = frame.to_csv(index=False).encode()
    gaps = frame.astype({"price": object, "town": object, "area": object})
    gaps.loc[[3, 20], "price"] = [None, "?"]
    gaps.loc[[5, 9, 30], "town"] = ["NA", None, "-"]
    gaps.loc[[7, 8], "area"] = ["null", "N/A"]
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    records = [json.dumps(row, default=str) for row in rows]
    moments = frame.assign(sold=frame["sold"].add("T08:15:00+02:00"))
    contents = {
        "gzip": ("flats.csv.gz", gzip.compress(plain)),
        "bzip2": ("flats.csv.bz2", bz2.compress(plain)),
        "xz": ("flats.csv.xz", lzma.compress(plain)),
        "decimal comma": ("comma.csv", frame.to_csv(index=False, sep=";", decimal=",").encode()),
        "all of Europe": (
            "europe.csv",
            frame.to_csv(index=False, sep=";", decimal=",", lineterminator="\r\n").encode("cp1252"),
        ),
        "mark": ("mark.csv", frame.to_csv(index=False).encode("utf-8-sig")),
        "index": ("index.csv", frame.to_csv().encode()),
        "bar": ("bar.txt", frame.to_csv(index=False, sep="|").encode()),
        "Windows-1252": ("latin.csv", plain.decode().encode("cp1252")),
        "UTF-16": ("wide.csv", plain.decode().encode("utf-16")),
        "UTF-32": ("wider.csv", plain.decode().encode("utf-32")),
        "JSON": ("flats.jsonl", "\n".join(records).encode()),
        "list": ("flats.json", f"[{','.join(records)}]".encode()),
        "gaps": ("gaps.csv", gaps.to_csv(index=False).encode()),
        "empty column": ("empty.csv", frame.assign(note="").to_csv(index=False).encode()),
        "moments": ("moments.csv", moments.to_csv(index=False).encode()),
    }
    paths = {kind: folder / name for kind, (name, _) in contents.items()}
    for kind, (_, content) in contents.items():
        paths[kind].write_bytes(content)
    paths["parquet"] = folder / "flats.parquet"
    frame.assign(sold=pd.to_datetime(frame["sold"])).to_parquet(paths["parquet"])
    dated = frame.assign(sold=pd.to_datetime(frame["sold"]))
    for kind, table in (("sheet", frame), ("dates in a sheet", dated)):
        paths[kind] = folder / f"{kind}.xlsx".replace(" ", "-")
        with zipfile.ZipFile(paths[kind], "w") as file:
            for name, text in xlsx(table).items():
                file.writestr(name, text)
    return paths
