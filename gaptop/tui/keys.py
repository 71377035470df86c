"""Every key, once: Textual binds from this table, the footer and the help read it."""

from __future__ import annotations

from typing import Final

from textual.binding import Binding, BindingType

KEYS: Final[tuple[Binding, ...]] = (
    Binding("space,p", "pause", "pause", tooltip="Hold the view; measuring goes on", id="pause"),
    Binding("left,h", "pan(-1)", "pan", tooltip="Back in time by an eighth of the screen", id="pan_left"),
    Binding("right,l", "pan(1)", "pan", tooltip="Forward in time by an eighth of the screen", id="pan_right"),
    Binding("shift+left,H", "page(-1)", "page", tooltip="Back in time by a page", id="page_left"),
    Binding("shift+right", "page(1)", "page", tooltip="Forward in time by a page", id="page_right"),
    Binding("plus", "zoom(1)", "zoom in", tooltip="Show less time, more closely", id="zoom_in"),
    Binding("minus", "zoom(-1)", "zoom out", tooltip="Show more time", id="zoom_out"),
    Binding("equals_sign,0", "zoom_reset", "reset zoom", tooltip="About a minute on screen again", id="zoom_reset"),
    Binding("n", "valley(1)", "next valley", tooltip="Select the next valley", id="next_valley"),
    Binding("N", "valley(-1)", "previous valley", tooltip="Select the previous valley", id="previous_valley"),
    Binding("enter", "zoom_to_valley", "zoom to it", tooltip="Zoom to the valley that is explained", id="zoom_valley"),
    Binding("end,L", "live", "live", tooltip="Back to the newest moment", id="live"),
    Binding("comma", "cursor(-1)", "cursor left", tooltip="Move the cursor a column back", id="cursor_left"),
    Binding("full_stop", "cursor(1)", "cursor right", tooltip="Move the cursor a column on", id="cursor_right"),
    Binding("s", "snapshot", "snapshot", tooltip="Write what is on screen to a file that gaptop opens", id="snapshot"),
    *(
        Binding(str(digit), f"lane({digit})", "lane", tooltip=f"Fold or unfold lane {digit}", id=f"lane_{digit}")
        for digit in range(1, 10)
    ),
    Binding("question_mark,f1", "help", "help", tooltip="Keys, how to read the screen, log, own cost", id="help"),
    Binding("escape", "back", "back", tooltip="Drop cursor and selection; never quits", id="back"),
    Binding("ctrl+z", "suspend_process", "suspend", tooltip="To the shell; fg comes back", id="suspend"),
    Binding("q", "quit", "quit", tooltip="Quit; the server never noticed", id="quit"),
    Binding("ctrl+c,ctrl+q", "quit", "quit", tooltip="Quit from anywhere", id="quit_now", priority=True),
)
BINDINGS: Final[list[BindingType]] = list(KEYS)

FOOTER: Final = (
    ("pause", "space"),
    ("next_valley", "n/N"),
    ("zoom_valley", "enter"),
    ("zoom_in", "+ - ="),
    ("pan_left", "arrows"),
    ("live", "End"),
    ("snapshot", "s"),
    ("help", "?"),
    ("quit", "q"),
)
"""What the footer shows, in this order: a binding's id, and the keys as people read them."""

WORDS: Final = {
    "pause": "pause",
    "next_valley": "valley",
    "zoom_valley": "zoom to it",
    "zoom_in": "zoom",
    "pan_left": "pan",
    "live": "live",
    "snapshot": "snapshot",
    "help": "help",
    "quit": "quit",
}
