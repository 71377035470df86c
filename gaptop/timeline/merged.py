"""Stacks of an interval merged by function: a tree of calls, its heaviest paths, and the functions by time.

A function is its name and its file: samples of one function on different lines are one node, which shows the line that
took longest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from gaptop.timeline.stacks import Frame
from gaptop.timeline.types import StackTimes

_Key = tuple[str, str]
_Kind = TypeVar("_Kind", int, str)


@dataclass(frozen=True, slots=True)
class Node:
    """A function as called along one path: seconds with all that it calls, and its ``own`` ones as the innermost frame.

    The root is no function: its own time is that of stacks whose frames never came. ``children`` come heaviest first.
    ``activity`` is that of most of its own time ("" where it has none).
    """

    function: str
    file: str
    line: int
    seconds: float
    own: float
    activity: str
    children: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Path:
    """Time spent in the innermost of these frames, called along this path (outermost first)."""

    frames: tuple[Frame, ...]
    seconds: float
    activity: str


@dataclass(frozen=True, slots=True)
class FunctionTime:
    """One function on whatever path: its own seconds as the innermost frame, and all in which it was on the stack."""

    function: str
    file: str
    line: int
    own: float
    total: float


@dataclass(slots=True)
class _Growing:
    seconds: float = 0.0
    lines: dict[int, float] = field(default_factory=dict)
    own: dict[str, float] = field(default_factory=dict)
    children: dict[_Key, _Growing] = field(default_factory=dict)


def tree(threads: Iterable[StackTimes]) -> Node:
    """The calls of one thread, or of several as if they were one."""
    root = _Growing()
    for thread in threads:
        for item in thread.stacks:
            node = root
            node.seconds += item.seconds
            for function, file, line in item.frames:
                node = node.children.setdefault((function, file), _Growing())
                node.seconds += item.seconds
                node.lines[line] = node.lines.get(line, 0.0) + item.seconds
            node.own[item.activity] = node.own.get(item.activity, 0.0) + item.seconds
    return _grown(("", ""), root)


def heaviest(root: Node, count: int) -> list[Path]:
    """The paths with the most time of their own in their last function."""
    found = [path for path in _paths(root, ()) if path.seconds > 0.0]
    return sorted(found, key=lambda path: (-path.seconds, path.frames))[:count]


def top(root: Node) -> list[FunctionTime]:
    """Every function, the one with the most own time first. Recursion counts once in the total."""
    own: dict[_Key, float] = {}
    total: dict[_Key, float] = {}
    lines: dict[_Key, dict[int, float]] = {}
    for node, above in _nodes(root, frozenset()):
        key = node.function, node.file
        own[key] = own.get(key, 0.0) + node.own
        if key not in above:
            total[key] = total.get(key, 0.0) + node.seconds
        at = lines.setdefault(key, {})
        at[node.line] = at.get(node.line, 0.0) + node.seconds
    found = [FunctionTime(*key, _most(lines[key], 0), own[key], total[key]) for key in own]
    return sorted(found, key=lambda item: (-item.own, -item.total, item.function, item.file))


def _grown(key: _Key, node: _Growing) -> Node:
    children = []
    for inner, child in node.children.items():
        # No comprehension: its frames would double the depth, which a stack of 256 makes deep enough.
        children.append(_grown(inner, child))
    children.sort(key=lambda child: (-child.seconds, child.function, child.file))
    line, activity = _most(node.lines, 0), _most(node.own, "")
    return Node(*key, line, node.seconds, sum(node.own.values()), activity, tuple(children))


def _most(seconds: dict[_Kind, float], none: _Kind) -> _Kind:
    return max(seconds, key=lambda item: (seconds[item], item), default=none)


def _paths(node: Node, above: tuple[Frame, ...]) -> Iterator[Path]:
    for child in node.children:
        frames = (*above, (child.function, child.file, child.line))
        yield Path(frames, child.own, child.activity)
        yield from _paths(child, frames)


def _nodes(node: Node, above: frozenset[_Key]) -> Iterator[tuple[Node, frozenset[_Key]]]:
    for child in node.children:
        yield child, above
        yield from _nodes(child, above | {(child.function, child.file)})
