"""The laboratory: benchmark sets, the paper's competitors, and its experiments.

It is a distribution of its own, ``probprop-lab``. Nothing in `probprop` imports it: the command
finds its sub-commands (``data``, ``reproduce``) and methods of ``compare`` by entry points.
"""
