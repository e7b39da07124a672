"""The what-if page: a fitted model of a table inside a report, which answers as one asks it."""
