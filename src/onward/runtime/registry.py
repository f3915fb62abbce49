"""Which function is meant by a name: history and the store know workflows and steps by no more."""

from __future__ import annotations

from types import MethodType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from onward.core.run import RunKind
from onward.errors import BadInput
from onward.runtime.definition import StepDefinition, WorkflowDefinition, run_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Named(Protocol):
    """What a function was made into."""

    @property
    def name(self) -> str:
        """The name under which it is stored."""
        ...

    @property
    def fn(self) -> Callable[..., Any]:
        """The function."""
        ...


D = TypeVar("D", bound=Named)


class Meant(Generic[D]):
    """Definitions of one kind by name, and those names that are not known to mean one of them.

    Several functions of a process may have one name, as in a suite of tests. Nobody can tell whose
    a run of that name is, before one of them is used here.
    """

    def __init__(self, kind: str, definitions: Iterable[D]) -> None:
        self._kind = kind
        known = _by_name(definitions)
        self.one: dict[str, D] = {name: same[0] for name, same in known.items() if len(same) == 1}
        self._several = {name: same for name, same in known.items() if len(same) > 1}
        self._chosen: set[str] = set()

    @property
    def unclear(self) -> dict[str, list[D]]:
        """Names that may mean several, with what has them."""
        return {name: same for name, same in self._several.items() if name not in self.one}

    @property
    def settled(self) -> dict[str, D]:
        """What every name means of which that will not change."""
        open_names = self._several.keys() - self._chosen
        return {name: one for name, one in self.one.items() if name not in open_names}

    def suggest(self, name: str, fn: Callable[..., Any]) -> bool:
        """Let a name mean this function until another one is chosen; say whether that is news."""
        if name in self._chosen:
            return False
        for one in self._several.get(name, ()):
            if one.fn is fn:
                is_news = self.one.get(name) is not one
                self.one[name] = one
                return is_news
        return False

    def choose(self, name: str, fn: Callable[..., Any]) -> bool:
        """Take note which of several functions is meant by a name; say whether that is news.

        Raises:
            BadInput: another one was chosen before.
        """
        if name in self._chosen and not _is_again(self.one[name].fn, fn):
            raise two(self._kind, name, self.one[name].fn, fn)
        is_news = self.suggest(name, fn)
        if name in self._several and self.one.get(name) is not None:
            self._chosen.add(name)
        return is_news


class Registry:
    """The workflows and steps that a worker can run, by name."""

    def __init__(
        self, workflows: Iterable[WorkflowDefinition], steps: Iterable[StepDefinition] = ()
    ) -> None:
        self._workflows = Meant("workflow", workflows)
        self._steps = Meant("step", steps)
        self.names = self._names()
        """The names of all runs that can be taken, sorted."""
        self.tell: Callable[[str, str, Callable[..., Any]], None] = lambda *_: None
        """Is told what is chosen, for the other workers of the process."""

    @property
    def workflows(self) -> dict[str, WorkflowDefinition]:
        """The workflows whose names are clear."""
        return self._workflows.one

    @property
    def steps(self) -> dict[str, StepDefinition]:
        """The steps whose names are clear."""
        return self._steps.one

    @property
    def unclear(self) -> dict[str, str]:
        """Names of workflows that are not taken, and the places of the functions that have them."""
        return {
            name: " and ".join(place_of(each.fn) for each in same)
            for name, same in self._workflows.unclear.items()
        }

    def check_clear(self) -> None:
        """Refuse workflows of one name.

        Raises:
            BadInput: there are two.
        """
        for name, (first, second, *_) in self._workflows.unclear.items():
            raise two("workflow", name, first.fn, second.fn)

    def choose(self, kind: str, name: str, fn: Callable[..., Any]) -> None:
        """Take note which function is meant by a name here, if there are several.

        Raises:
            BadInput: another one was chosen before.
        """
        meant = self._of(kind)
        if meant is not None:
            if meant.choose(name, fn):
                self.names = self._names()
            self.tell(kind, name, fn)

    def suggest(self, kind: str, name: str, fn: Callable[..., Any]) -> None:
        """Take note which function others in this process mean by a name, if there are several."""
        meant = self._of(kind)
        if meant is not None and meant.suggest(name, fn):
            self.names = self._names()

    def _of(self, kind: str) -> Meant[WorkflowDefinition] | Meant[StepDefinition] | None:
        if kind == "workflow":
            return self._workflows
        return self._steps if kind == "step" else None

    @property
    def settled(self) -> dict[str, WorkflowDefinition]:
        """The workflows whose names will mean nothing else."""
        return self._workflows.settled

    @property
    def limits(self) -> dict[str, int]:
        """How many runs of a step may be running at a time, where it has a limit."""
        routes = ((name, step.route) for name, step in self.steps.items())
        return {
            run_name(RunKind.STEP, name): route.limit
            for name, route in routes
            if route is not None and route.limit is not None
        }

    def _names(self) -> tuple[str, ...]:
        steps = (run_name(RunKind.STEP, name) for name in self.steps)
        maps = (run_name(RunKind.MAP, name) for name in {*self.workflows, *self.steps})
        return tuple(sorted((*self.workflows, *steps, *maps)))


class Names:
    """Whose the names are that the bodies of one worker call steps, effects and workflows by.

    If two functions had one, each could be handed what the other has returned. They are not refused
    before they are used: a process may know many more.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._taken: dict[str, dict[str, Callable[..., Any]]] = {
            "step": {},
            "effect": {},
            "workflow": {name: each.fn for name, each in registry.settled.items()},
        }

    def check(self, kind: str, name: str, fn: Callable[..., Any]) -> None:
        """Take note of a call.

        Raises:
            BadInput: other code was called by this name.
        """
        if isinstance(fn, MethodType):
            return  # as it is the caller's business which object does it, so is of which class
        taken = self._taken[kind]
        other = taken.get(name)
        if other is fn:
            return
        if other is None:
            self._registry.choose(kind, name, fn)
        elif not is_same(other, fn):
            raise two(kind, name, other, fn)
        taken[name] = fn


def _by_name(definitions: Iterable[D]) -> dict[str, list[D]]:
    """Return definitions by name; one that was loaded again has taken the place of the old."""
    found: dict[str, list[D]] = {}
    for each in definitions:
        same = found.setdefault(each.name, [])
        same[:] = [*(other for other in same if not _is_again(other.fn, each.fn)), each]
    return found


def is_same(fn: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Say whether two functions stand at one place: it was loaded twice, or is made in a call."""
    return fn is other or place_of(fn) == place_of(other) or _file(fn) == _file(other)


def _is_again(fn: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Say whether a function is another one loaded again, which takes its place."""
    return fn is other or (is_same(fn, other) and "<locals>" not in place_of(fn))


def two(kind: str, name: str, fn: Callable[..., Any], other: Callable[..., Any]) -> BadInput:
    """Return what is wrong with two functions of one name."""
    return BadInput(
        f"the {kind} name {name!r}",
        f"is used by {place_of(fn)} and by {place_of(other)}",
        f"Give one of them another: @{kind}(name=...)",
    )


def place_of(fn: Callable[..., Any]) -> str:
    """Return where a function is defined, in words."""
    return f"{fn.__module__}.{getattr(fn, '__qualname__', type(fn).__qualname__)}"


def _file(fn: Callable[..., Any]) -> tuple[object, str]:
    """Return where a function is written; a script that is also imported has two modules."""
    code = getattr(fn, "__code__", None)
    return (place_of(fn), "") if code is None else (code.co_filename, code.co_qualname)
