"""Which function a name means: history and the store know workflows and steps by name alone.

Functions of one process may share a name, as in a test suite. A worker takes no runs of such a name
until its process starts or calls one of them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath
from types import MethodType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from onward.core.run import RunKind
from onward.errors import BadInput
from onward.runtime.definition import StepDefinition, WorkflowDefinition, run_name
from onward.runtime.flows import declared_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from onward.core.flow import FlowId
    from onward.model.flow import DeclaredLimits
    from onward.runtime.pipelines.definition import HandlerDefinition


class Named(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def fn(self) -> Callable[..., Any]: ...


Definitions: TypeAlias = "tuple[list[WorkflowDefinition], list[StepDefinition]]"

N = TypeVar("N", bound=Named)
D = TypeVar("D", bound="WorkflowDefinition | StepDefinition")

_used: dict[tuple[str, str], Callable[..., Any]] = {}
"""By kind and name, the function that this process has started or called last."""

_defined = 0
"""How many definitions this process has made: a worker looks for new ones when it rises."""


def define(table: dict[str, list[N]], definition: N) -> None:
    """Add a definition to those of its name; it replaces an earlier one of the same place."""
    global _defined
    same = table.setdefault(definition.name, [])
    same[:] = [*(one for one in same if not is_same(one.fn, definition.fn)), definition]
    _defined += 1


def note_start(workflow: WorkflowDefinition, registries: Iterable[Registry]) -> None:
    """Note that an app starts a workflow; `registries` are those of the app's own workers.

    Raises:
        BadInput: in one of them the name means another function.
    """
    for registry in registries:
        registry.check_start(workflow.name, workflow.fn)
    _used["workflow", workflow.name] = workflow.fn


class Registry:
    """The workflows and steps that a worker runs, by name.

    Args:
        workflows: The workflows.
        steps: The steps.
        is_list: Whether the workflows are those of a list, and not all of the process.
        later: Returns the workflows and steps to take up too if they are defined later.
        handlers: The handlers of pipelines.

    Raises:
        BadInput: two workflows of a list have one name.
    """

    def __init__(
        self,
        workflows: Iterable[WorkflowDefinition],
        steps: Iterable[StepDefinition] = (),
        *,
        is_list: bool = False,
        later: Callable[[], Definitions] | None = None,
        handlers: Iterable[HandlerDefinition] = (),
    ) -> None:
        self.handlers = {handler.name: handler for handler in handlers}
        self._later, self._seen = later, _defined
        self._workflows = _Names("workflow", workflows)
        self._steps = _Names("step", steps)
        self._of: dict[str, _Names[Any]] = {
            "workflow": self._workflows,
            "step": self._steps,
            "effect": _Names[StepDefinition]("effect", ()),
        }
        self.workflows = self._workflows.clear
        self.steps = self._steps.clear
        self._workflows.fix_clear(is_list=is_list)
        self._names: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the runs to claim, sorted; the same object unless names became clear."""
        if self._seen != _defined and self._later is not None:
            self._seen = _defined
            workflows, steps = self._later()
            self._workflows.add(workflows)
            self._steps.add(steps)
        self._workflows.follow_process()
        self._steps.follow_process()
        mapped = {*self.workflows, *self.steps}
        handled = [run_name(each.run_kind, name) for name, each in self.handlers.items()]
        count = len(self.workflows) + len(self.steps) + len(mapped) + len(handled)
        if len(self._names) != count:
            routed = (run_name(RunKind.STEP, name) for name in self.steps)
            maps = (run_name(RunKind.MAP, name) for name in mapped)
            self._names = tuple(sorted((*self.workflows, *routed, *maps, *handled)))
        return self._names

    @property
    def unclear(self) -> dict[str, str]:
        """Names that several workflows share and none is chosen for, with their places."""
        return {
            name: " and ".join(place_of(each.fn) for each in same)
            for name, same in self._workflows.known.items()
            if name not in self.workflows
        }

    def check(self, kind: str, name: str, fn: Callable[..., Any]) -> None:
        """Note that a body calls a function.

        Raises:
            BadInput: another function was called by this name, and could be given its results.
        """
        self._of[kind].fix(name, fn, is_same)

    def check_start(self, name: str, fn: Callable[..., Any]) -> None:
        """Note that the worker's own app starts a workflow.

        Raises:
            BadInput: the worker runs another function by this name.
        """
        self._workflows.fix(name, fn, _replaces)

    @property
    def limits(self) -> dict[FlowId, DeclaredLimits]:
        """The limits that the code declares.

        Raises:
            BadInput: they contradict each other.
        """
        return declared_limits(self.workflows.values(), self.steps.values())


class _Names(Generic[D]):
    """The definitions of one kind. Names are fixed by the app and the bodies of one worker."""

    def __init__(self, kind: str, definitions: Iterable[D]) -> None:
        self._kind = kind
        self.known: dict[str, list[D]] = {}
        for each in definitions:
            same = self.known.setdefault(each.name, [])
            same[:] = [*(one for one in same if not _replaces(one.fn, each.fn)), each]
        self._shared = {name: same for name, same in self.known.items() if len(same) > 1}
        self.clear = {name: same[0] for name, same in self.known.items() if len(same) == 1}
        self._fixed: dict[str, Callable[..., Any]] = {}
        local = {name for name, one in self.clear.items() if _is_local(one.fn)}
        self._open = {*self._shared, *local}

    def add(self, definitions: Iterable[D]) -> None:
        """Take up definitions that are new. A name that is in use keeps its function."""
        for each in definitions:
            same = self.known.setdefault(each.name, [])
            if not any(is_same(one.fn, each.fn) for one in same):
                same.append(each)
            if len(same) == 1 and each.name not in self.clear:
                self.clear[each.name] = each
                if _is_local(each.fn):
                    self._open.add(each.name)
                else:
                    self._fixed[each.name] = each.fn

    def fix_clear(self, *, is_list: bool) -> None:
        """Fix the names that mean one function; those of a list must all do."""
        if is_list:
            for name, (first, second, *_) in self._shared.items():
                raise _taken(self._kind, name, first.fn, second.fn)
            self._open.clear()
        self._fixed |= {name: one.fn for name, one in self.clear.items() if name not in self._open}

    def fix(self, name: str, fn: Callable[..., Any], fits: Callable[..., bool]) -> None:
        other = self._fixed.get(name)
        if other is fn or isinstance(fn, MethodType):  # whose method it is, is up to the caller
            return
        if other is not None and not fits(other, fn):
            raise _taken(self._kind, name, other, fn)
        self._fixed[name] = _used[self._kind, name] = fn
        self._choose(name, fn)

    def follow_process(self) -> None:
        """Let names that are not fixed mean what the process has used last."""
        for name in self._open - self._fixed.keys():
            if (fn := _used.get((self._kind, name))) is not None:
                self._choose(name, fn)

    def _choose(self, name: str, fn: Callable[..., Any]) -> None:
        for one in self.known[name] if name in self._open else ():
            if is_same(one.fn, fn):
                self.clear[name] = one if _replaces(fn, one.fn) else replace(one, fn=fn)


def is_same(fn: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Say whether two functions stand at one place: loaded twice, or made by a call each time."""
    return fn is other or _qualified(fn) == _qualified(other) or _written(fn) == _written(other)


def _replaces(fn: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Say whether two are one function, or one that was loaded again."""
    return fn is other or (is_same(fn, other) and not _is_local(fn))


def _is_local(fn: Callable[..., Any]) -> bool:
    return "<locals>" in _qualified(fn)


def _taken(kind: str, name: str, fn: Callable[..., Any], other: Callable[..., Any]) -> BadInput:
    return BadInput(
        f"the {kind} name {name!r}",
        f"is used by {place_of(fn)} and by {place_of(other)}",
        f"Give one of them another name: @{kind}(name=...)",
    )


def place_of(fn: Callable[..., Any]) -> str:
    """Return where a function is defined: `shop.sell (shop.py:12)`."""
    code = getattr(fn, "__code__", None)
    line = "" if code is None else f" ({PurePath(code.co_filename).name}:{code.co_firstlineno})"
    return _qualified(fn) + line


def _qualified(fn: Callable[..., Any]) -> str:
    return f"{fn.__module__}.{getattr(fn, '__qualname__', type(fn).__qualname__)}"


def _written(fn: Callable[..., Any]) -> tuple[str, str]:
    """Return where a function is written; a script that is also imported has two modules."""
    code = getattr(fn, "__code__", None)
    return (_qualified(fn), "") if code is None else (code.co_filename, code.co_qualname)
