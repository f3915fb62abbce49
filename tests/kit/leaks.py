"""What an error gives away, for tests that look for a secret in it."""

from __future__ import annotations

from traceback import format_exception_only


def shown(error: BaseException) -> str:
    """Return all that an error shows, with the errors before it."""
    chain: list[BaseException] = []
    left: list[BaseException | None] = [error]
    while left:
        found = left.pop()
        if found is not None and found not in chain:
            chain.append(found)
            left += [found.__cause__, found.__context__]
    texts = (f"{each} {each!r} {each.args} {vars(each)}" for each in chain)
    return "\n".join((*texts, *(line for each in chain for line in format_exception_only(each))))
