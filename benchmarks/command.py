"""The command ``probprop``, alone in its process and in a given folder.

What it prints comes first, and then a line with its processor seconds and its peak memory in
bytes as JSON. The process measures itself: one that starts it would see its own peak, since the
`ru_maxrss` of a child begins with its parent's.
"""

from __future__ import annotations

import json
import os
import sys
import time


def main() -> None:
    from probprop.cli.application import run

    os.chdir(sys.argv[1])
    code = run(sys.argv[2:])
    seconds = time.process_time()
    from benchmarks.memory_fit import peak  # only now: the command decides what it loads

    print(json.dumps({"seconds": seconds, "peak": peak()}))
    sys.exit(code)


if __name__ == "__main__":
    main()
