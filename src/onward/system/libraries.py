"""Which files belong to Python or to installed packages."""

from __future__ import annotations

import os

_STANDARD = os.path.dirname(os.__file__)


def is_library(file: str) -> bool:
    """Return whether a source file is part of Python or of an installed package."""
    return file.startswith((_STANDARD, "<frozen")) or "site-packages" in file
