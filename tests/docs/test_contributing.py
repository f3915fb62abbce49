"""CONTRIBUTING maps the packages that exist, and its paths exist."""

import re

from tests.docs.pages import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text()
SOURCE = ROOT / "src" / "onward"
PATH = re.compile(r"`([a-z_]+(?:/[\w.]+)*/?)(?:::\w+)?`")


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


def test_the_package_map_lists_every_package() -> None:
    mapped = re.findall(r"^\| `(\w+)` \|", section("Package map"), flags=re.MULTILINE)
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert sorted(mapped) == sorted(packages)


def test_every_path_exists() -> None:
    paths = [path for path in PATH.findall(PAGE) if "/" in path]
    assert len(paths) > 20
    places = (ROOT, SOURCE)
    assert [path for path in paths if not any((place / path).exists() for place in places)] == []
