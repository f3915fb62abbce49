"""What there is of Onward today: the ground, without an engine on it. `make demo` runs this."""

from importlib.metadata import version
from importlib.util import find_spec

ROOMS = {
    "core": "the rules, as pure state machines",
    "codec": "values as checked JSON",
    "store": "one store over SQLite and Postgres",
    "testing": "a virtual clock, faults and a Postgres for tests",
}


def main() -> None:
    print(f"Onward {version('onward')}: durable execution for Python, in the making.\n")
    for room, purpose in ROOMS.items():
        there = "here" if find_spec(f"onward.{room}") else "to come"
        print(f"  {room:<9}{there:<9}{purpose}")
    print("\nThe engine that runs workflows comes next.")


if __name__ == "__main__":
    main()
