"""Causes can be told apart in every theme: by contrast, by hue, and with each kind of colour blindness."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

import pytest
from rich.color import Color, ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.color import Color as TextualColor
from textual.theme import BUILTIN_THEMES, Theme

from gaptop.tui import palette, terminal
from gaptop.tui.looks import ANSI_THEMES, OWN_THEME, THEMES, System
from gaptop.tui.palette import cause_style
from gaptop.tui.themes import COLOUR_BLIND, DARK, HUES, LIGHT, SAFE, SIXTEEN, ThemeFilter, hues_of
from gaptop.valleys.model import Cause

Linear = tuple[float, float, float]
ALL = {**BUILTIN_THEMES, OWN_THEME: COLOUR_BLIND}
GROUNDS = {"ansi-dark": "#000000", "ansi-light": "#FFFFFF"}
"""What a terminal of that kind has, at its most usual; Textual's own dark and light backgrounds are nearer to grey."""

# Machado, Oliveira and Fernandes 2009, severity 1, for linear light.
SEEN_BY: Mapping[str, Sequence[Linear]] = {
    "everybody": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopes": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopes": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "tritanopes": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.3039)),
}


def linear(color: Color | str) -> Linear:
    triplet = (Color.parse(color) if isinstance(color, str) else color).get_truecolor()
    parts = (part / 255 for part in triplet)
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return red, green, blue


def dot(a: Iterable[float], b: Iterable[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def luminance(color: Color | str) -> float:
    return dot(linear(color), (0.2126, 0.7152, 0.0722))


def contrast(one: Color | str, other: Color | str) -> float:
    """As WCAG 2 has it; 3 is what it asks of graphics."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def lab(seen: Iterable[float]) -> Linear:
    clipped = [min(max(part, 0.0), 1.0) for part in seen]
    x, y, z = (
        dot(row, clipped) / white
        for row, white in (
            ((0.4124564, 0.3575761, 0.1804375), 0.95047),
            ((0.2126729, 0.7151522, 0.0721750), 1.0),
            ((0.0193339, 0.1191920, 0.9503041), 1.08883),
        )
    )
    fx, fy, fz = (math.cbrt(v) if v > 216 / 24389 else (24389 / 27 * v + 16) / 116 for v in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def difference(one: Linear, other: Linear) -> float:
    """CIEDE2000: 1 is just seen side by side, 10 at a glance."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    mean = (math.hypot(a1, b1) + math.hypot(a2, b2)) / 2
    grey = 0.5 * (1 - math.sqrt(mean**7 / (mean**7 + 25**7)))
    a1, a2 = a1 * (1 + grey), a2 * (1 + grey)
    c1, c2 = math.hypot(a1, b1), math.hypot(a2, b2)
    h1, h2 = math.degrees(math.atan2(b1, a1)) % 360, math.degrees(math.atan2(b2, a2)) % 360
    turn = (h2 - h1 + 180) % 360 - 180
    lightness, chroma, hue = l2 - l1, c2 - c1, 2 * math.sqrt(c1 * c2) * math.sin(math.radians(turn / 2))
    lm, cm, hm = (l1 + l2) / 2, (c1 + c2) / 2, (h1 + h2) / 2 + (180 if abs(h1 - h2) > 180 else 0)
    t = 1 - 0.17 * math.cos(math.radians(hm - 30)) + 0.24 * math.cos(math.radians(2 * hm))
    t += 0.32 * math.cos(math.radians(3 * hm + 6)) - 0.2 * math.cos(math.radians(4 * hm - 63))
    sl = 1 + 0.015 * (lm - 50) ** 2 / math.sqrt(20 + (lm - 50) ** 2)
    sc, sh = 1 + 0.045 * cm, 1 + 0.015 * cm * t
    rotation = -math.sin(math.radians(60 * math.exp(-(((hm - 275) / 25) ** 2))))
    rotation *= 2 * math.sqrt(cm**7 / (cm**7 + 25**7))
    parts = (lightness / sl, chroma / sc, hue / sh)
    return math.sqrt(dot(parts, parts) + rotation * parts[1] * parts[2])


def closest(colours: Iterable[Color | str], who: str) -> float:
    """The difference of those two that are nearest to one another, as that kind of people see them."""
    seen = [lab([dot(row, linear(color)) for row in SEEN_BY[who]]) for color in colours]
    return min(difference(a, b) for a, b in itertools.combinations(seen, 2))


def test_the_measure_itself() -> None:
    """Pairs of the paper (Sharma, Wu and Dalal 2005), and black on white."""
    assert difference((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485)) == pytest.approx(2.0425, abs=1e-4)
    assert difference((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387)) == pytest.approx(1.2644, abs=1e-4)
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)


def drawn(style: Style, theme: Theme, system: System = "true") -> Style:
    """What the filter sends for that style."""
    line = ThemeFilter(theme, system)
    [segment] = line.apply([Segment("x", style)], TextualColor(0, 0, 0)) if line.enabled else [Segment("x", style)]
    assert segment.style is not None
    return segment.style


def ground(theme: Theme, system: System = "true") -> Color:
    if theme.ansi:
        return Color.parse(GROUNDS[theme.name])
    found = drawn(Style(), theme, system).bgcolor
    assert found is not None
    return found


@pytest.mark.parametrize("system", ["true", "256"])
@pytest.mark.parametrize("name", sorted(ALL))
def test_each_cause_stands_out_from_the_background(name: str, system: System) -> None:
    theme = ALL[name]
    for cause in get_args(Cause):
        color = drawn(cause_style(cause, bold=True), theme, system).color
        if color is None or color.is_default:
            assert theme.ansi, "only the terminal's own text colour is not known"
        else:
            assert contrast(color, ground(theme, system)) >= 3.0, (cause, name)


@pytest.mark.parametrize("name", sorted(ALL))
def test_the_hues_can_be_told_apart(name: str) -> None:
    theme = ALL[name]
    colours = [drawn(palette.hue(hue), theme).color or "" for hue in HUES]
    assert closest(colours, "everybody") >= 11
    for who in SEEN_BY:
        assert closest(colours, who) >= (13 if name == OWN_THEME else 7), who


def test_a_dim_style_lies_between_text_and_background() -> None:
    theme = ALL["textual-light"]
    dim, plain = drawn(Style(dim=True), theme), drawn(Style(), theme)
    assert dim.color is not None
    assert plain.color is not None
    assert not dim.dim
    assert contrast(plain.color, ground(theme)) > contrast(dim.color, ground(theme)) > 3.0


def test_the_terminals_own_dark_is_left_alone() -> None:
    assert not ThemeFilter(ALL["ansi-dark"], "256").enabled
    assert ThemeFilter(ALL["ansi-dark"], "16").enabled
    assert ThemeFilter(ALL["ansi-light"], "256").enabled
    assert drawn(Style(bold=True), ALL["ansi-light"]).bgcolor is None


def test_the_palette_knows_no_other_hue() -> None:
    used = {style.color.name.upper() for style in palette._STYLES.values() if style.color is not None}
    assert used == {hue.upper() for hue in HUES}
    for hues in (DARK, LIGHT, SAFE, SIXTEEN):
        assert set(hues) == set(HUES)


@pytest.mark.parametrize("name", sorted(ALL))
def test_256_colours_keep_the_hues_apart_and_the_background(name: str) -> None:
    theme = ALL[name]
    less = [drawn(palette.hue(hue), theme, "256").color for hue in HUES]
    numbers = [color.downgrade(ColorSystem.EIGHT_BIT) for color in less if color is not None]
    assert len({color.number for color in numbers}) == len(HUES)
    assert closest(numbers, "everybody") >= 9
    assert abs(lab(linear(ground(theme)))[0] - lab(linear(ground(theme, "256")))[0]) < 6
    assert not theme.dark or theme.ansi or len(set(ground(theme, "256").get_truecolor())) == 1, "a grey, no colour"


def test_sixteen_colours_are_seven_different_ones() -> None:
    numbers = {Color.parse(color).number for color in hues_of(ALL["nord"], "16").values()}
    assert len(numbers) == len(HUES)
    assert all(number is not None and number not in (0, 7, 8, 15) for number in numbers), "no grey: that is text"


def test_the_themes_that_can_be_chosen_are_those_there_are() -> None:
    assert set(THEMES) - {"auto"} == set(ALL)
    assert set(ANSI_THEMES) == {name for name, theme in ALL.items() if theme.ansi}


@pytest.mark.parametrize(
    ("environ", "shows"),
    [
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "true"),
        ({"TERM": "xterm", "COLORTERM": "24bit"}, "true"),
        ({"TERM": "xterm-direct"}, "true"),
        ({"TERM": "xterm-256color"}, "256"),
        ({"TERM": "screen-256color"}, "256"),
        ({"TERM": "xterm-kitty"}, "256"),
        ({"TERM": "vte-256color"}, "256"),
        ({"TERM": "screen"}, "16"),
        ({"TERM": "linux"}, "16"),
        ({"TERM": "vt100"}, "none"),
        ({"TERM": "vt220", "COLORTERM": "truecolor"}, "none"),
        ({"TERM": "dumb"}, "none"),
        ({}, "none"),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, "none"),
        ({"TERM": "xterm-256color", "NO_COLOR": ""}, "256"),
    ],
)
def test_how_many_colours_a_terminal_shows(environ: Mapping[str, str], shows: str) -> None:
    assert terminal.colours(environ) == shows


@pytest.mark.parametrize(
    ("environ", "theme"),
    [
        ({}, "ansi-dark"),
        ({"COLORFGBG": "0;15"}, "ansi-light"),
        ({"COLORFGBG": "0;default;7"}, "ansi-light"),
        ({"COLORFGBG": "15;0"}, "ansi-dark"),
        ({"COLORFGBG": "15;default"}, "ansi-dark"),
    ],
)
def test_a_light_terminal_that_says_so_is_light(environ: Mapping[str, str], theme: str) -> None:
    assert terminal.own_theme(environ) == theme
