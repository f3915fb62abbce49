"""What `tests/conftest.py` promises about `async def` tests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

CONFTEST = Path(__file__).parents[2] / "conftest.py"


def outcomes(pytester: pytest.Pytester, test: str) -> tuple[dict[str, int], str]:
    pytester.makeconftest(CONFTEST.read_text())
    pytester.makepyfile(test)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    return result.parseoutcomes(), result.stdout.str()


def test_an_async_test_runs_with_its_fixtures(pytester: pytest.Pytester) -> None:
    found, _ = outcomes(
        pytester,
        """
        import asyncio, pytest
        @pytest.fixture
        def seven(): return 7
        @pytest.mark.parametrize("five", [5])
        async def test_it(seven, five):
            await asyncio.sleep(0)
            assert seven + five == 12
        """,
    )

    assert found == {"passed": 1}


def test_an_async_test_that_fails_is_a_failure(pytester: pytest.Pytester) -> None:
    found, told = outcomes(
        pytester,
        """
        import asyncio
        async def test_it():
            asyncio.create_task(asyncio.sleep(60), name="forgotten")
            assert 1 == 2
        """,
    )

    assert found == {"failed": 1}
    assert "assert 1 == 2" in told
    assert "left tasks behind" not in told


def test_a_task_left_behind_fails_the_test_and_is_named(pytester: pytest.Pytester) -> None:
    found, told = outcomes(
        pytester,
        """
        import asyncio
        async def test_it():
            asyncio.create_task(asyncio.sleep(60), name="forgotten")
        """,
    )

    assert found == {"failed": 1}
    assert "left tasks behind" in told
    assert "forgotten" in told


def test_an_error_that_nobody_heard_fails_the_test(pytester: pytest.Pytester) -> None:
    found, told = outcomes(
        pytester,
        """
        import asyncio
        async def test_it():
            asyncio.get_running_loop().call_soon(int, "seven")
            await asyncio.sleep(0)
        """,
    )

    assert found == {"failed": 1}
    assert "errors that nobody heard" in told
    assert "'seven'" in told


def test_a_task_that_has_ended_is_not_left_behind(pytester: pytest.Pytester) -> None:
    found, _ = outcomes(
        pytester,
        """
        import asyncio
        async def test_it():
            await asyncio.create_task(asyncio.sleep(0))
        """,
    )

    assert found == {"passed": 1}


def test_a_plain_test_still_runs(pytester: pytest.Pytester) -> None:
    found, _ = outcomes(pytester, "def test_it(): pass")

    assert found == {"passed": 1}
