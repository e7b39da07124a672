"""Make relative links and pictures of a README absolute, for pages outside of the repository.

python tools/absolute_links.py https://HOST/OWNER/REPOSITORY TAG README.md [lab/README.md]
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

LINK = re.compile(r"(!?\[[^]]*\])\((?!https?://|mailto:|#)([^)\s]+)\)")


def absolute(text: str, repository: str, tag: str, folder: str = "") -> str:
    """Return a text whose links, relative to a folder, lead to the tag of a repository."""

    def address(link: re.Match[str]) -> str:
        path, hash_, anchor = link[2].partition("#")
        kind = "raw" if link[1].startswith("!") else "blob"
        path = os.path.normpath(os.path.join(folder, path)).replace(os.sep, "/")
        return f"{link[1]}({repository.rstrip('/')}/{kind}/{tag}/{path}{hash_}{anchor})"

    return LINK.sub(address, text)


if __name__ == "__main__":
    for name in sys.argv[3:]:
        file = Path(name)
        text = absolute(file.read_text("utf-8"), *sys.argv[1:3], os.path.dirname(name))
        file.write_text(text, "utf-8", newline="\n")
