"""A mistake that a beginner makes: a script, and what its output must say."""

from __future__ import annotations

from typing import NamedTuple

IMPORTS = """\
import asyncio
import onward
from onward import App, Signal, effect, step, workflow
"""
RUN = """

async def main():
    app = App("onward.db")
    async with app, app.worker():
        print("result:", await app.run(order, 7))


asyncio.run(main())
"""
DEBUG = RUN.replace('App("onward.db")', 'App("onward.db", debug=True)')
HERE = "# here"


class Mistake(NamedTuple):
    """One mistake. The line that ends in `# here`, if there is one, must be named."""

    name: str
    says: tuple[str, ...]
    code: str
    end: str = RUN
    status: int | None = 1
    """The exit status; None for a script that does not end by itself."""

    @property
    def script(self) -> str:
        """The whole script, as the beginner saved it."""
        return IMPORTS + self.code + self.end

    @property
    def line(self) -> int | None:
        """The number of the line to be named."""
        lines = self.script.splitlines()
        return next((at for at, line in enumerate(lines, 1) if line.endswith(HERE)), None)
