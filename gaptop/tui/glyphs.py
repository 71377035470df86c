"""The characters that the picture is made of: one set for capable terminals, one of nothing but ASCII."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, eq=False)
class Glyphs:
    """``bars`` are the partial fills of a cell from lowest to full; ``zero`` is a measured zero, which is not blank."""

    ascii: bool
    bars: str
    zero: str
    hole: str
    pending: str
    rule: str
    axis_left: str
    axis_mark: str
    corner: str
    edge: str
    cursor: str
    high: str
    medium: str
    low: str
    plateau: str
    selected: str
    arrow: str
    state_ok: str
    state_wait: str
    state_bad: str
    ellipsis: str
    idle: str
    dot: str
    plus_minus: str
    minus: str
    fine: str
    bad: str


UNICODE: Final = Glyphs(
    ascii=False,
    bars="▁▂▃▄▅▆▇█",
    zero="_",
    hole="░",
    pending="/",
    rule="─",
    axis_left="┤",
    axis_mark="┬",
    corner="└",
    edge="┊",
    cursor="│",
    high="═",
    medium="─",
    low="┄",
    plateau="~",
    selected="▸",
    arrow="▸",
    state_ok="●",
    state_wait="○",
    state_bad="✗",
    ellipsis="…",
    idle="·",
    dot="·",
    plus_minus="±",
    minus="−",
    fine="✓",
    bad="✗",
)
ASCII: Final = Glyphs(
    ascii=True,
    bars=".:=#",
    zero="_",
    hole="x",
    pending="/",
    rule="-",
    axis_left="|",
    axis_mark="+",
    corner="+",
    edge=":",
    cursor="|",
    high="=",
    medium="-",
    low=".",
    plateau="~",
    selected=">",
    arrow=">",
    state_ok="*",
    state_wait="o",
    state_bad="x",
    ellipsis="~",
    idle=".",
    dot="|",
    plus_minus="+/-",
    minus="-",
    fine="ok",
    bad="NO",
)


def glyphs(ascii_only: bool) -> Glyphs:
    return ASCII if ascii_only else UNICODE
