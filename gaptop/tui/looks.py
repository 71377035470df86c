"""The names of what a user may choose for the looks of the screen. Nothing of Textual here: the command line and the
configuration read them without a screen."""

from __future__ import annotations

from typing import Final, Literal, get_args

System = Literal["none", "16", "256", "true"]
"""How many colours a terminal shows."""
Colours = System | Literal["auto"]

SYMBOLS: Final = ("auto", "braille", "block", "ascii")
COLOURS: Final = ("auto", *get_args(System))
SWEEPS: Final = ("auto", "on", "off")
OWN_THEME: Final = "colour-blind"
ANSI_THEMES: Final = ("ansi-dark", "ansi-light")
"""The terminal's own colours."""
THEMES: Final = (
    "auto",
    *ANSI_THEMES,
    OWN_THEME,
    "atom-one-dark",
    "atom-one-light",
    "catppuccin-frappe",
    "catppuccin-latte",
    "catppuccin-macchiato",
    "catppuccin-mocha",
    "dracula",
    "flexoki",
    "gruvbox",
    "monokai",
    "nord",
    "rose-pine",
    "rose-pine-dawn",
    "rose-pine-moon",
    "solarized-dark",
    "solarized-light",
    "textual-dark",
    "textual-light",
    "tokyo-night",
)
"""Ours and Textual's; auto is the terminal's own colours, dark or light."""
