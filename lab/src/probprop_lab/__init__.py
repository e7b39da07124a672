"""The laboratory: benchmark sets, the paper's competitors, and its experiments.

It stands on `probprop`, and nothing in `probprop` imports it: the command finds what it adds
(``data``, ``compare``, ``reproduce``) by entry point.
"""
