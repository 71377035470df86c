"""Stacks to activities: the rules of ``activities*.toml`` and of a user's own file.

The grammar of a rule and the order of judgement stand at the top of ``activities.toml``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, Final

from gaptop_collectors.signals import ACTIVITIES

_FILES: Final = ("", "_vllm", "_sglang", "_tgi", "_lmdeploy", "_trtllm", "_libraries")
"""The built-in ``activities*.toml`` in the order of judgement; the first one's [sets] are known in all."""

_CALLERS: Final = "callers"
"""The list under a file's [sets] of frames that run what others wrote."""

_KEYS: Final = {"activity", "frames", "under", "anywhere"}
_HEAD: Final = re.compile(r"^[ \t]*\[\[[ \t]*rule[ \t]*\]\]", re.MULTILINE)
_MOST_BYTES: Final = 1_000_000
_MOST_FRAMES: Final = 65_536


class ActivityFileError(Exception):
    """A rule file that cannot be used: which file, what is wrong in it, and what to write instead."""


class _Pattern:
    """One ``FILE: NAME | NAME``. Expressions are compiled on first need: most patterns never meet a frame."""

    def __init__(self, glob: str, names: Sequence[str]) -> None:
        self._parts = re.split(r"(\*\*|\*|\?)", glob)
        self._literal = max(self._parts[::2], key=len)
        self._exact = frozenset(name for name in names if "*" not in name)
        self._suffixes = tuple("." + name for name in self._exact)
        self._globs = tuple(name for name in names if "*" in name)

    def matches(self, function: str, file: str) -> bool:
        if self._literal not in file or self._file.match(file) is None:
            return False
        return (
            function in self._exact
            or function.endswith(self._suffixes)
            or any(name.match(function) for name in self._names)
        )

    @cached_property
    def _file(self) -> re.Pattern[str]:
        wild = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
        inner = "".join(wild.get(part, re.escape(part)) for part in self._parts)
        return re.compile(rf"(?:.*/)?{inner}\Z", re.DOTALL)

    @cached_property
    def _names(self) -> tuple[re.Pattern[str], ...]:
        inner = (".*".join(map(re.escape, glob.split("*"))) for glob in self._globs)
        return tuple(re.compile(rf"(?:.*\.)?{name}\Z", re.DOTALL) for name in inner)


@dataclass(frozen=True, slots=True)
class _Rule:
    activity: str
    frames: tuple[_Pattern, ...]
    under: tuple[_Pattern, ...]
    anywhere: bool


@dataclass(frozen=True, slots=True)
class _Known:
    """What the rules say about one (function, file): computed once, then looked up."""

    takes_over: int
    """Index of the first ``anywhere`` rule that matches, or a number past the last rule."""
    hits: tuple[tuple[str, int], ...]
    """(activity, index of the rule whose ``under`` must be met, or -1), in order of judgement."""
    marks: frozenset[int]
    """Rules whose ``under`` this frame meets."""
    calls: bool
    """It runs what others wrote: it says what its own code does, and nothing of theirs."""


class ActivityMap:
    """Classifies stacks. Not thread-safe; results depend on the stack alone, so callers cache per interned stack."""

    def __init__(self, rules: Sequence[_Rule], callers: Sequence[_Pattern]) -> None:
        self._rules = rules
        self._callers = callers
        self._known: dict[tuple[str, str], _Known] = {}

    def classify(self, frames: Sequence[tuple[str, str, int]]) -> str:
        """The activity of a stack of (function, file, line), outermost frame first; ``other`` where no rule fits."""
        cache = self._known
        if len(cache) > _MOST_FRAMES:
            cache.clear()
        known = []
        first = nobody = len(self._rules)
        for frame in frames:
            entry = cache.get((frame[0], frame[1]))
            if entry is None:
                entry = cache[frame[0], frame[1]] = self._learn(frame[0], frame[1])
            if entry.takes_over < first:
                first = entry.takes_over
            known.append(entry)
        if first < nobody:
            return self._rules[first].activity
        for index in range(len(known) - 1, -1, -1):
            for activity, under in known[index].hits:
                if under < 0 or any(under in outer.marks for outer in known[:index]):
                    return "other" if known[index].calls and index < len(known) - 1 else activity
        return "other"

    def _learn(self, function: str, file: str) -> _Known:
        takes_over = len(self._rules)
        hits: list[tuple[str, int]] = []
        marks: set[int] = set()
        for index, rule in enumerate(self._rules):
            if any(pattern.matches(function, file) for pattern in rule.under):
                marks.add(index)
            if not any(pattern.matches(function, file) for pattern in rule.frames):
                continue
            if rule.anywhere:
                takes_over = min(takes_over, index)
            else:
                hits.append((rule.activity, index if rule.under else -1))
        calls = any(pattern.matches(function, file) for pattern in self._callers)
        return _Known(takes_over, tuple(hits), frozenset(marks), calls)


def load_activities(user_file: Path | None = None) -> ActivityMap:
    """The map of the built-in rules, with those of ``user_file`` before them.

    Raises :class:`ActivityFileError` when ``user_file`` cannot be read or holds a rule that makes no sense.
    """
    rules: list[_Rule] = []
    callers: list[_Pattern] = []
    shared: dict[str, Any] = {}
    for part in _FILES:
        name = f"activities{part}.toml"
        found, sets = _parse(resources.files(__package__).joinpath(name).read_text(encoding="utf-8"), name, shared)
        rules += found
        callers += _patterns(sets.get(_CALLERS, []), {}, name)
        shared = shared or sets
    if user_file is None:
        return ActivityMap(rules, callers)
    own, sets = _parse(_read(user_file), str(user_file), shared)
    callers += _patterns(sets.get(_CALLERS, []), {}, str(user_file))
    return ActivityMap([*own, *rules], callers)


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            body = file.read(_MOST_BYTES + 1)
        if len(body) > _MOST_BYTES:
            raise ActivityFileError(f"{path} is larger than a file of rules can be; name the file with your rules.")
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        line = body[: error.start].count(b"\n") + 1
        raise ActivityFileError(f"{path}, line {line}: this is no UTF-8 text; save the file as UTF-8.") from error
    except OSError as error:
        raise ActivityFileError(
            f"{path} cannot be read ({error.strerror}); correct the path or the file's permissions."
        ) from error


def _parse(text: str, where: str, shared: Mapping[str, Any]) -> tuple[list[_Rule], dict[str, Any]]:
    """The rules and the [sets] of one file."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        last = f"at line {len(text.splitlines())}, the last"
        says = str(error).replace("at end of document", last)
        raise ActivityFileError(f"{where} is not valid TOML: {says}; correct it there.") from error
    sets = table.get("sets", {})
    rules = table.get("rule", [])
    if not isinstance(sets, dict) or not isinstance(rules, list) or set(table) - {"sets", "rule"}:
        raise ActivityFileError(
            f"{where} has something else than rules; write them as [[rule]] tables and named lists under [sets]."
        )
    heads = [text.count("\n", 0, head.start()) + 1 for head in _HEAD.finditer(text)]
    found = []
    for number, entry in enumerate(rules):
        # Where rules are written in another way than as [[rule]], their number has to do.
        place = f"line {heads[number]}" if len(heads) == len(rules) else f"rule {number + 1}"
        found.append(_rule(entry, {**shared, **sets}, f"{where}, {place}"))
    return found, sets


def _rule(entry: Any, sets: Mapping[str, Any], where: str) -> _Rule:
    if not isinstance(entry, dict):
        raise ActivityFileError(f"{where}: write each rule as a [[rule]] table.")
    unknown = set(entry) - _KEYS
    if unknown:
        raise ActivityFileError(f"{where}: unknown key {sorted(unknown)[0]!r}; a rule has {', '.join(sorted(_KEYS))}.")
    activity = entry.get("activity")
    if activity not in ACTIVITIES:
        raise ActivityFileError(f"{where}: activity {activity!r} is not known; use one of {', '.join(ACTIVITIES)}.")
    frames = tuple(_patterns(entry.get("frames"), sets, where))
    if not frames:
        raise ActivityFileError(f'{where}: frames is empty; write e.g. frames = ["mypackage/loop.py: run | step"].')
    under = tuple(_patterns(entry.get("under", []), sets, where))
    anywhere = entry.get("anywhere", False)
    if not isinstance(anywhere, bool) or (anywhere and under):
        raise ActivityFileError(f"{where}: anywhere is true or false, and stands without under.")
    return _Rule(str(activity), frames, under, anywhere)


def _patterns(value: Any, sets: Mapping[str, Any], where: str) -> Iterable[_Pattern]:
    if not isinstance(value, list):
        raise ActivityFileError(f'{where}: frames and under are lists of "FILE: NAME | NAME" or "@set".')
    for item in value:
        if not isinstance(item, str):
            raise ActivityFileError(f"{where}: {item!r} is not text; write FILE: NAME | NAME.")
        if item.startswith("@"):
            named = sets.get(item[1:])
            if not isinstance(named, list) or any(str(inner).startswith("@") for inner in named):
                raise ActivityFileError(f"{where}: {item} is not a list of plain patterns under [sets].")
            yield from _patterns(named, {}, where)
            continue
        file, colon, names = item.rpartition(": ")
        if not colon or not file.strip() or not all(name.strip() for name in names.split("|")):
            raise ActivityFileError(f"{where}: {item!r} is not FILE: NAME | NAME.")
        yield _Pattern(file.strip(), [name.strip() for name in names.split("|")])
