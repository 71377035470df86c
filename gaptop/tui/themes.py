"""The picture's hues in each theme, and the filter that puts them in place of the palette's.

Lanes and panels draw in the palette's colours on no background. On the terminal's own dark background with 256 colours
or more that is what is sent; elsewhere each style is exchanged for that of the theme, after everything is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.color import Color as TextualColor
from textual.constants import DIM_FACTOR
from textual.filter import LineFilter
from textual.theme import Theme

from gaptop.tui.looks import OWN_THEME, System
from gaptop.tui.palette import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION, YELLOW

HUES: Final = (GREEN, SKY, ORANGE, PURPLE, VERMILLION, YELLOW, BLUE)
Hues = Mapping[str, str]
"""What stands for each of the palette's hues."""

DARK: Final[Hues] = {hue: hue for hue in HUES}
"""Okabe and Ito's: contrast of 3.2 or more on the background of every dark theme."""
LIGHT: Final[Hues] = {
    GREEN: "#128768",
    SKY: "#2B6DFF",
    ORANGE: "#5E3600",
    PURPLE: "#DE13A8",
    VERMILLION: "#974236",
    YELLOW: "#967100",
    BLUE: "#193D85",
}
"""Near the same hues, in lightness as far apart as a light background allows: contrast of 3.3 or more on #E0E0E0;
CIEDE2000 of any two 19.9 or more, and 10.6 with a kind of colour blindness."""
SAFE: Final[Hues] = {
    GREEN: "#1FFBCE",
    SKY: "#00B8D7",
    ORANGE: "#FFD529",
    PURPLE: "#ED3D8A",
    VERMILLION: "#E49A73",
    YELLOW: "#848118",
    BLUE: "#4F78EC",
}
"""For any kind of colour blindness CIEDE2000 of any two is 13.7 or more (7.6 with Okabe and Ito's); contrast of 4.5 or
more on their background."""
SIXTEEN: Final[Hues] = {
    GREEN: "green",
    SKY: "cyan",
    ORANGE: "yellow",
    PURPLE: "magenta",
    VERMILLION: "red",
    YELLOW: "bright_yellow",
    BLUE: "blue",
}
"""Of a terminal's own sixteen; what they look like is the user's choice there."""

COLOUR_BLIND: Final = Theme(
    name=OWN_THEME,
    primary="#00B8D7",
    secondary="#4F78EC",
    accent="#FFD529",
    warning="#FFD529",
    error="#E49A73",
    success="#1FFBCE",
    foreground="#F2F2F2",
    background="#101418",
    surface="#1A2026",
    panel="#242C34",
)


_SHARED: Final = {number: Color.from_ansi(number).get_truecolor() for number in range(16, 256)}
_GROUNDS: Final = (Color.parse("black").get_truecolor(), Color.parse("bright_white").get_truecolor())
_NO_COLOURS: Final = Style(color="default", bgcolor="default")
_REVERSED: Final = _NO_COLOURS + Style(reverse=True)


def hues_of(theme: Theme, system: System) -> Hues:
    """The hues for that theme on a terminal with so many colours."""
    if system in ("none", "16"):
        return SIXTEEN
    if theme.name == OWN_THEME:
        return SAFE
    return DARK if theme.dark else LIGHT


class ThemeFilter(LineFilter):
    """Exchanges hues; in a theme with colours of its own it also gives text and background to what has none, and turns
    dim into a colour between the two."""

    def __init__(self, theme: Theme, system: System) -> None:
        hues = hues_of(theme, system)
        super().__init__(enabled=system != "none" and (hues is not DARK or not theme.ansi))
        self._hues = {Color.parse(hue): Color.parse(own) for hue, own in hues.items()}
        self._plain: tuple[Color, Color] | None = None
        if not theme.ansi:
            colours = theme.to_color_system().generate()
            text, ground = (TextualColor.parse(colours[name]).rich_color for name in ("foreground", "background"))
            self._plain = text, _nearest(ground, darker=theme.dark) if system == "256" else ground
        self._few = system == "256" and not theme.ansi
        self._styles = lru_cache(4096)(self._style)

    def apply(self, segments: list[Segment], background: TextualColor) -> list[Segment]:
        styles = self._styles
        return [Segment(text, styles(style or Style.null()), control) for text, style, control in segments]

    def _style(self, style: Style) -> Style:
        color, ground = style.color, style.bgcolor
        if color is not None:
            color = self._hues.get(color, color)
        if self._plain is None:
            return style + Style(color=color)
        if color is None or color.is_default:
            color = self._plain[0]
        if ground is None or ground.is_default:
            ground = self._plain[1]
        if style.dim:
            color = _between(ground, color)
        if self._few:
            color, ground = _nearest(color), _nearest(ground)
        return style + Style(color=color, bgcolor=ground, dim=False if style.dim else None)


@lru_cache(1024)
def _nearest(color: Color, darker: bool | None = None) -> Color:
    """The nearest of the 240 that all terminals with 256 colours share, or the nearest that is darker (or lighter): a
    background must not come nearer to what stands on it. Rich takes many a dark grey for a colour: Nord's background
    would be teal."""
    red, green, blue = color.get_truecolor()
    weight = red + green + blue

    def distance(number: int) -> int:
        r, g, b = _SHARED[number]
        return (r - red) ** 2 + (g - green) ** 2 + (b - blue) ** 2

    allowed = [number for number, own in _SHARED.items() if darker is None or (sum(own) <= weight) is darker]
    return Color.from_ansi(min(allowed, key=distance))


class Colourless(LineFilter):
    """Takes all colours away. What only a background told, as a chosen row, is told by reversing instead."""

    def apply(self, segments: list[Segment], background: TextualColor) -> list[Segment]:
        return [Segment(text, _colourless(style or Style.null()), control) for text, style, control in segments]


@lru_cache(4096)
def _colourless(style: Style) -> Style:
    ground = style.bgcolor
    stands_out = ground is not None and ground.get_truecolor() not in _GROUNDS and not ground.is_default
    return style + (_REVERSED if stands_out else _NO_COLOURS)


def _between(ground: Color, color: Color) -> Color:
    parts = zip(ground.get_truecolor(), color.get_truecolor(), strict=True)
    return Color.from_rgb(*(a + (b - a) * DIM_FACTOR for a, b in parts))
