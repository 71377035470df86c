"""Every key, once: the screen binds from this table, the footer, the help, the command palette and the configuration
read it. Nothing of Textual here, so that a command without a screen can read it too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Key:
    """What some keys do. ``key`` are Textual's names of keys with commas between them; ``id`` is what the
    configuration calls it; one with ``priority`` works wherever the focus is, and no configuration changes it."""

    key: str
    action: str
    description: str
    tooltip: str
    id: str
    priority: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.key.split(","))


NAMES: Final = (
    (1, "devices"),
    (2, "power"),
    (3, "queue"),
    (4, "decode"),
    (5, "prompt"),
    (6, "KV"),
    (7, "engine threads"),
    (8, "front end"),
    (9, "valleys"),
)
"""What the digit keys fold and unfold."""

KEYS: Final[tuple[Key, ...]] = (
    Key("space,p", "pause", "pause", tooltip="Hold the view; measuring goes on. A recording: play", id="pause"),
    Key("left,h", "pan(-1)", "pan back", tooltip="Back in time by an eighth of the screen", id="pan_left"),
    Key("right,l", "pan(1)", "pan on", tooltip="Forward in time by an eighth of the screen", id="pan_right"),
    Key("shift+left,H", "page(-1)", "page back", tooltip="Back in time by a page", id="page_left"),
    Key("shift+right", "page(1)", "page on", tooltip="Forward in time by a page", id="page_right"),
    Key("plus", "zoom(1)", "zoom in", tooltip="Show less time, more closely", id="zoom_in"),
    Key("minus", "zoom(-1)", "zoom out", tooltip="Show more time", id="zoom_out"),
    Key("equals_sign,0", "zoom_reset", "reset zoom", tooltip="About a minute; all of a recording", id="zoom_reset"),
    Key("n", "valley(1)", "next valley", tooltip="Select the next valley", id="next_valley"),
    Key("N", "valley(-1)", "previous valley", tooltip="Select the previous valley", id="previous_valley"),
    Key("enter", "zoom_to_valley", "zoom to it", tooltip="Zoom to the valley that is explained", id="zoom_valley"),
    Key("end,L", "live", "live", tooltip="Back to the newest moment", id="live"),
    Key("w", "sweep", "sweep", tooltip="Newest column over a standing picture, for slow links; or roll", id="sweep"),
    Key("comma", "cursor(-1)", "cursor left", tooltip="Move the cursor a column back", id="cursor_left"),
    Key("full_stop", "cursor(1)", "cursor right", tooltip="Move the cursor a column on", id="cursor_right"),
    Key("v", "below('list')", "valley list", tooltip="The list of valleys below the picture", id="valley_list"),
    Key("d", "below('whole')", "whole argument", tooltip="All of it: each number, parts, stacks", id="whole"),
    Key("up", "up_or_down(-1)", "up", tooltip="The row above in the list; else a number less", id="up"),
    Key("down", "up_or_down(1)", "down", tooltip="The row below in the list; else the next number", id="down"),
    Key("pageup", "scroll(-1)", "scroll up", tooltip="Scroll the whole argument", id="scroll_up"),
    Key("pagedown", "scroll(1)", "scroll down", tooltip="Scroll the whole argument", id="scroll_down"),
    Key("f", "filter_causes", "filter by cause", tooltip="Only valleys of some causes", id="filter_causes"),
    Key("slash", "filter_text", "filter by text", tooltip="Only valleys that say something", id="filter_text"),
    Key("o", "next_order", "sort the list", tooltip="Sort the list by the next column", id="list_order"),
    Key(
        "r", "mark_range", "select time", tooltip="Select time from the cursor on; again: that was it", id="mark_range"
    ),
    Key("g", "go_to_time", "go to time", tooltip="Put the cursor at a moment", id="go_to_time"),
    Key("left_square_bracket", "step_head(-1)", "step back", tooltip="The play head a step back", id="step_back"),
    Key("right_square_bracket", "step_head(1)", "step on", tooltip="The play head a step on", id="step_on"),
    Key("less_than_sign", "faster(-1)", "play slower", tooltip="Play a recording half as fast", id="slower"),
    Key("greater_than_sign", "faster(1)", "play faster", tooltip="Play a recording twice as fast", id="faster"),
    Key("s", "snapshot", "snapshot", tooltip="Write what is on screen to a file that gaptop opens", id="snapshot"),
    Key("tab", "focus_on(1)", "next server or device", tooltip="One of several servers or devices", id="next_focus"),
    Key("shift+tab", "focus_on(-1)", "previous", tooltip="The one before; at last everything", id="previous_focus"),
    Key("e,M", "enlarge", "enlarge a lane", tooltip="Give a lane most of the rows: then its digit", id="enlarge"),
    Key("m", "lift", "move a lane", tooltip="Put a lane on top of the others: then its digit", id="lift"),
    Key("S", "picture", "picture", tooltip="Write the screen as an SVG picture", id="picture"),
    Key("x", "trace", "trace", tooltip="Write what is selected, or on screen, as a trace for Perfetto", id="trace"),
    Key("y", "copy", "copy the verdict", tooltip="The verdict as Markdown: to the clipboard and a file", id="copy"),
    *(
        Key(str(digit), f"lane({digit})", f"fold {name}", tooltip=f"Fold or unfold lane {digit}", id=f"lane_{digit}")
        for digit, name in NAMES
    ),
    Key("colon,ctrl+p", "command_palette", "commands", tooltip="Find a command, a theme, a valley", id="palette"),
    Key("question_mark,f1", "help", "help", tooltip="Keys, how to read the screen, log, own cost", id="help"),
    Key("escape", "back", "back", tooltip="Drop cursor and selection; never quits", id="back"),
    Key("ctrl+z", "suspend_process", "suspend", tooltip="To the shell; fg comes back", id="suspend"),
    Key("q", "quit", "quit", tooltip="Quit; the server never noticed", id="quit"),
    Key("ctrl+c,ctrl+q", "quit", "quit", tooltip="Quit from anywhere", id="quit_now", priority=True),
)


@dataclass(frozen=True, slots=True)
class Hint:
    """A place in the footer: the action of ``id``, a word for it, and the ids whose first keys stand there."""

    id: str
    word: str
    ids: tuple[str, ...]
    between: str = "/"


FOOTER: Final = (
    Hint("pause", "pause", ("pause",)),
    Hint("next_valley", "valley", ("next_valley", "previous_valley")),
    Hint("valley_list", "list", ("valley_list",)),
    Hint("whole", "detail", ("whole",)),
    Hint("snapshot", "snapshot", ("snapshot",)),
    Hint("zoom_valley", "zoom to it", ("zoom_valley",)),
    Hint("zoom_in", "zoom", ("zoom_in", "zoom_out", "zoom_reset"), " "),
    Hint("live", "live", ("live",)),
    Hint("pan_left", "pan", ("pan_left", "pan_right")),
    Hint("help", "help", ("help",)),
    Hint("quit", "quit", ("quit",)),
)
"""What the footer shows, in this order."""

MARKING: Final = (
    Hint("cursor_right", "move its end", ("cursor_left", "cursor_right"), " "),
    Hint("mark_range", "done", ("mark_range",)),
    Hint("back", "drop it", ("back",)),
    Hint("snapshot", "snapshot of it", ("snapshot",)),
    Hint("trace", "trace", ("trace",)),
    Hint("help", "help", ("help",)),
    Hint("quit", "quit", ("quit",)),
)
"""The same while a range is being selected."""
