"""The experiments: one module per table or figure, one runner for all.

`paper` has the experiments of [PBP15], `beyond` has others, and `harness` has their common parts.

A `Job` is one fit; `run` runs many in parallel and keeps one row for each in a results file,
from which a stopped run resumes. `EXPERIMENTS` has, by name, what makes the jobs and what makes
the table; `report` writes it as text, Markdown, CSV and HTML next to the paper's printed numbers.

>>> import os, tempfile
>>> from probprop_lab.experiments import EXPERIMENTS, Selection, report, run
>>> toy = EXPERIMENTS["toy"]
>>> path = os.path.join(tempfile.mkdtemp(), "toy.jsonl")
>>> rows = run(toy.jobs(Selection(methods=["PBP", "EBP"])), path, n_jobs=1)
>>> report.table(toy, rows)[0][:3]
['method', 'RMSE', 'log-likelihood']
"""

from probprop_lab.experiments.harness import methods, report
from probprop_lab.experiments.harness.columns import Column
from probprop_lab.experiments.harness.experiment import Experiment, Selection
from probprop_lab.experiments.harness.job import Job
from probprop_lab.experiments.harness.runner import JobError, finished, read_results, unfinished
from probprop_lab.experiments.registry import EXPERIMENTS, check, cost, run, run_job
from probprop_lab.results import ResultsError, Row

__all__ = [
    "EXPERIMENTS",
    "Column",
    "Experiment",
    "Job",
    "JobError",
    "ResultsError",
    "Row",
    "Selection",
    "check",
    "cost",
    "finished",
    "methods",
    "read_results",
    "report",
    "run",
    "run_job",
    "unfinished",
]
