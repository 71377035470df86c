"""What the fields of each kind of line must look like.

A stream may come from anybody, so a decoded line is checked before it becomes a message: whoever uses it can rely on
types, finite numbers, columns of equal length and ascending times. A failed check is a ValueError that says what.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Final

Check = Callable[[Any], Any]

LONGEST: Final = 10 * 366 * 86400.0
"""Seconds. A time further than ten years from the stream's start is damage, and would blow up every grid."""
_DEEPEST: Final = 32
_NUMBERS: Final = frozenset((float, int))
_READINGS: Final = frozenset((float, int, type(None)))


def checked(kind: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of ``body`` that the kind knows, each checked. Raises ValueError or OverflowError."""
    shape = _SHAPES[kind]
    known = {name: check(body[name]) for name, check in shape.items() if name in body}
    whole = _WHOLE.get(kind)
    if whole is not None:
        whole(known)
    return known


def _text(value: Any) -> Any:
    if type(value) is not str:
        raise ValueError(f"{_short(value)} is not a string")
    return value


def _flag(value: Any) -> Any:
    if type(value) is not bool:
        raise ValueError(f"{_short(value)} is not true or false")
    return value


def _integer(value: Any) -> Any:
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise ValueError(f"{_short(value)} is not a 64-bit integer")
    return value


def _number(value: Any) -> Any:
    if type(value) not in _NUMBERS or not isfinite(value):
        raise ValueError(f"{_short(value)} is not a finite number")
    return value


def _positive(value: Any) -> Any:
    if _number(value) < 0:
        raise ValueError(f"{_short(value)} is negative")
    return value


def _time(value: Any) -> Any:
    if abs(_number(value)) > LONGEST:
        raise ValueError(f"{_short(value)} is no time within ten years of the start")
    return value


def _optional(check: Check) -> Check:
    return lambda value: None if value is None else check(value)


def _list(check: Check) -> Check:
    def every(value: Any) -> Any:
        for item in _sequence(value):
            check(item)
        return value

    return every


def _mapping(check: Check) -> Check:
    def every(value: Any) -> Any:
        for item in _object(value).values():
            check(item)
        return value

    return every


def _sequence(value: Any) -> list[Any]:
    if type(value) is not list:
        raise ValueError(f"{_short(value)} is not a list")
    return value


def _object(value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise ValueError(f"{_short(value)} is not an object")
    return value


def _pair(check: Check) -> Check:
    def pair(value: Any) -> Any:
        if len(_sequence(value)) != 2:
            raise ValueError(f"{_short(value)} is not a pair")
        return check(value[0]), check(value[1])

    return pair


def _interval(value: Any) -> Any:
    start, end = _pair(_time)(value)
    if start > end:
        raise ValueError(f"the interval {start}..{end} ends before it starts")
    return start, end


def _time_column(value: Any) -> Any:
    if not set(map(type, _sequence(value))) <= _NUMBERS or not all(map(isfinite, value)):
        raise ValueError("a column of times has something else in it")
    if value and (min(value) < -LONGEST or max(value) > LONGEST):
        raise ValueError("a time is not within ten years of the start")
    return value


def _readings(value: Any) -> Any:
    kinds = set(map(type, _sequence(value)))
    if not kinds <= _READINGS:
        raise ValueError("a column of readings has something else in it")
    if not all(map(isfinite, value if type(None) not in kinds else [item for item in value if item is not None])):
        raise ValueError("a reading is not finite")
    return value


def _frame(value: Any) -> Any:
    if len(_sequence(value)) != 3:
        raise ValueError("a frame is not [function, file, line]")
    _text(value[0])
    _text(value[1])
    _integer(value[2])
    return value


def _stacks(value: Any) -> Any:
    stack = _list(_frame)
    for key, frames in _object(value).items():
        if not (key.isascii() and key.isdigit()) or len(key) > 18:
            raise ValueError(f"{_short(key)} is no stack id")
        stack(frames)
    return value


def _json(value: Any) -> Any:
    """Any object, of bounded depth and with finite numbers, so that it can be walked and written again."""
    level: list[Any] = [_object(value)]
    for _ in range(_DEEPEST):
        if not level:
            return value
        deeper: list[Any] = []
        for item in level:
            for inner in item.values() if type(item) is dict else item:
                if type(inner) is float:
                    _number(inner)
                elif type(inner) is dict or type(inner) is list:
                    deeper.append(inner)
        level = deeper
    raise ValueError(f"nested more than {_DEEPEST} deep")


def _thread(value: Any) -> Any:
    _integer(_object(value).get("tid"))
    _text(value.get("name", ""))


_ENTITY: Final[Mapping[str, Check]] = {
    "uuid": _optional(_text),
    "name": _optional(_text),
    "kind2": _optional(_text),
    "index": _optional(_integer),
    "pids": _optional(_list(_integer)),
    "url": _optional(_text),
    "engine": _optional(_text),
    "version": _optional(_text),
    "model": _optional(_text),
    "pid": _optional(_integer),
    "role": _optional(_text),
    "critical_tid": _optional(_integer),
    "threads": _optional(_list(_thread)),
    "cores": _optional(_positive),
}


def _entity(value: Any) -> Any:
    _json(value)
    for name, check in _ENTITY.items():
        if name in value:
            check(value[name])
    return value


def _whole_batch(fields: Mapping[str, Any]) -> None:
    times = fields.get("t", [])
    if any(later < earlier for earlier, later in zip(times, times[1:], strict=False)):
        raise ValueError("its times do not ascend")
    if any(len(column) != len(times) for column in fields.get("values", {}).values()):
        raise ValueError("its columns are not as long as its times")


def _whole_spans(fields: Mapping[str, Any]) -> None:
    columns = [fields.get(name, []) for name in ("tid", "start", "end", "stack")]
    if len({len(column) for column in columns}) != 1:
        raise ValueError("its columns are not equally long")
    if any(start > end for start, end in zip(columns[1], columns[2], strict=True)):
        raise ValueError("a span ends before it starts")


def _whole_interval(fields: Mapping[str, Any]) -> None:
    if fields.get("start", 0.0) > fields.get("end", 0.0):
        raise ValueError("it ends before it starts")


def _short(value: Any) -> str:
    return reprlib.repr(value)


_WHOLE: Final[Mapping[str, Callable[[Mapping[str, Any]], None]]] = {
    "batch": _whole_batch,
    "spans": _whole_spans,
    "hole": _whole_interval,
    "range": _whole_interval,
}

_SHAPES: Final[Mapping[str, Mapping[str, Check]]] = {
    "header": {
        "format": _text,
        "version": _pair(_integer),
        "gaptop": _text,
        "start_utc": _text,
        "start_monotonic_ns": _integer,
        "host": _json,
        "simulated": _flag,
    },
    "source": {
        "t": _time,
        "id": _text,
        "collector": _text,
        "kind": _text,
        "entity": _entity,
        "signals": _list(_text),
        "period": _positive,
        "unsupported": _mapping(_text),
        "window": _optional(_positive),
        "window_measured": _flag,
        "lag": _number,
        "error": _positive,
        "refresh": _text,
        "refresh_by_signal": _mapping(_text),
        "period_by_signal": _mapping(_positive),
        "window_by_signal": _mapping(_positive),
        "jitter": _positive,
        "rounding": _text,
        "clock": _text,
        "paused": _flag,
        "says": _text,
    },
    "batch": {"src": _text, "t": _time_column, "values": _mapping(_readings)},
    "frames": {"src": _text, "stacks": _stacks},
    "spans": {
        "src": _text,
        "covered": _interval,
        "tid": _list(_integer),
        "start": _time_column,
        "end": _time_column,
        "stack": _list(_integer),
    },
    "hole": {"src": _text, "start": _time, "end": _time, "reason": _text},
    "clock": {"t": _time, "utc": _text, "boot_ns": _integer},
    "event": {"t": _time, "what": _text, "says": _text, "src": _optional(_text), "data": _json},
    "health": {
        "t": _time,
        "src": _text,
        "collector": _text,
        "state": _text,
        "newest": _optional(_time),
        "period": _optional(_positive),
        "cost": _optional(_number),
        "says": _text,
    },
    "self": {"t": _time, "cpu_seconds": _number, "rss_bytes": _integer, "py_spy_cpu_seconds": _optional(_number)},
    "tick": {"t": _time},
    "watermark": {"src": _text, "t": _time},
    "range": {"start": _time, "end": _time},
    "verdict": {"valley": _json},
}
