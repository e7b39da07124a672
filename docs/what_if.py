"""Draw ``docs/what-if.png``, the what-if page of a model of concrete: python docs/what_if.py.

Needs chromium, and the benchmark set concrete (`probprop data fetch concrete`).
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pandas as pd
from PIL import Image

from probprop import PBPRegressorCV
from probprop.report import write_report
from probprop.report.live import live_page
from probprop.table import fit_table_model
from probprop_lab import datasets

WIDTH, HEIGHT, SHOWN = 1280, 1200, 925  # pixels

concrete = datasets.load("concrete")
names = [name.replace("_", " ") for name in concrete.feature_names]
table = pd.DataFrame(concrete.X, columns=names).assign(strength=concrete.y)
table = table.sample(frac=1.0, random_state=0, ignore_index=True)
train, test = table[:900], table[900:]
estimator = PBPRegressorCV(budget="fast", missing="marginalize", random_state=0)
model = fit_table_model(train, "strength", estimator=estimator)

with tempfile.TemporaryDirectory() as folder:
    page, picture = Path(folder, "page.html"), Path(folder, "page.png")
    live = live_page(model, rows=test, train=train)
    write_report(page, "The strength of concrete", [], live)
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    taken = [f"--screenshot={picture}", f"--window-size={WIDTH},{HEIGHT}"]
    command = ["chromium", *flags, *taken, f"--user-data-dir={folder}/profile"]
    command += ["--virtual-time-budget=5000", f"{page.as_uri()}#what-if&along=age"]
    subprocess.run(command, check=True, capture_output=True)
    image = Image.open(picture).convert("RGB").crop((0, 0, WIDTH, SHOWN)).quantize(128)
    image.save(Path(__file__).with_name("what-if.png"), optimize=True)
