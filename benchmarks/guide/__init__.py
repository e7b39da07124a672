"""The figures of the guide, a module per page or two: ``python -m benchmarks.guide.NAME``.

Each writes what it measured and the tables that the pages include into ``docs/results``.
"""
