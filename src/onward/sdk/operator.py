"""Who makes a decision, if the caller does not say."""

from __future__ import annotations

import getpass


def this_user() -> str:
    """Return the user of this process."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # no user in this container
        return "unknown"
