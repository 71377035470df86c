"""The characters that the picture is made of: with braille, with blocks only, or of nothing but ASCII."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True, slots=True, eq=False)
class Glyphs:
    """``bars`` are the partial fills of a cell from lowest to full; ``zero`` is a measured zero, which is not blank;
    ``texture`` are the fills of what lies on a bar, told from it without a colour;
    ``levels`` are the heights of a line within a cell, none where it is drawn in braille."""

    ascii: bool
    levels: str
    bars: str
    texture: str
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
    levels="",
    bars="▁▂▃▄▅▆▇█",
    texture="⣀⣤⣶⣿",
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
    levels='_-"',
    bars=".:=#",
    texture="oO",
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


BLOCK: Final = replace(UNICODE, levels="▁─▔", texture="▒")
"""For fonts that have blocks and no braille."""


def glyphs(ascii_only: bool, braille: bool = True) -> Glyphs:
    return ASCII if ascii_only else UNICODE if braille else BLOCK
