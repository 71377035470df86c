"""Every setting, once: what it is called, what it may be, what it is by default, and what it is for.

The configuration file has them by name (``lanes.fold`` in the section ``[lanes]``), the environment as GAPTOP_NAME in
capitals with an underscore for the dot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gaptop.cli.setting_kinds import (
    Choice,
    FilePath,
    KeyList,
    Kind,
    Lanes,
    Number,
    Switch,
    Value,
    Words,
    Zone,
)
from gaptop.tui.keys import KEYS
from gaptop.tui.looks import COLOURS, SWEEPS, SYMBOLS, THEMES

SECTIONS: Final = {
    "lanes": "The lanes of the picture: devices, power, queue, decode, prompt, kv, engine_threads, front_end, valleys.",
    "keys": "Keys by what they do. A key that is given to one thing is taken from another, if that keeps one.",
}
"""The sections of the configuration file, with what stands above each in the default one."""


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    kind: Kind
    default: Value
    says: str

    @property
    def variable(self) -> str:
        return "GAPTOP_" + self.name.upper().replace(".", "_")

    @property
    def section(self) -> str:
        """The section of the file that it stands in, "" for none."""
        return self.name.rpartition(".")[0]

    @property
    def key(self) -> str:
        """What it is called within its section."""
        return self.name.rpartition(".")[2]


SETTINGS: Final[dict[str, Setting]] = {
    setting.name: setting
    for setting in (
        Setting("url", Words(), (), "The servers to watch, URLs or PIDs; without it all of this host are watched."),
        Setting("header", Words("\n"), (), 'Headers for the server\'s endpoint, "NAME=@FILE" or "NAME=env:VARIABLE".'),
        Setting("token_file", FilePath(), "", "File with the bearer token of the server's endpoint."),
        Setting("ca", FilePath(), "", "CA certificate of an https endpoint."),
        Setting("insecure", Switch(), False, "Do not check the certificate of an https endpoint."),
        Setting("dcgm", Words(), (), "URLs of dcgm-exporters, for GPUs that NVML does not show here."),
        Setting("threads", Choice(("auto", "fast", "off")), "auto", "Sampling of threads: auto, fast or off."),
        Setting("gil", Switch(), False, "Also tell who holds Python's GIL."),
        Setting("gpu", Switch(), True, "Ask the GPU's driver."),
        Setting("host", Switch(), True, "Look at the processes of this host."),
        Setting("activities", FilePath(), "", "Your own rules for what a stack does."),
        Setting("theme", Choice(THEMES), "auto", f"Colours of the screen: {', '.join(THEMES)}."),
        Setting("colours", Choice(COLOURS), "auto", "How many the terminal shows: auto, none, 16, 256 or true."),
        Setting("symbols", Choice(SYMBOLS), "auto", "What the picture is drawn with: auto, braille, block or ascii."),
        Setting("mouse", Switch(), True, "Use the mouse; without, the terminal keeps it for selecting text."),
        Setting("timezone", Zone(), "local", 'Of the clock times: "local", "UTC", or a name like "Europe/Berlin".'),
        Setting("frames_per_second", Number(0.5, 30), 4.0, "How often the screen is drawn at most."),
        Setting("sweep", Choice(SWEEPS), "auto", "Whether the picture is written round in place: auto, on or off."),
        Setting("lanes.order", Lanes(), (), "Lanes from the top; those not named follow as usual."),
        Setting("lanes.fold", Lanes(), (), "Lanes that are folded at the start."),
        *(Setting(f"keys.{key.id}", KeyList(), key.keys, key.tooltip + ".") for key in KEYS if not key.priority),
    )
}

MEANT: Final = {
    "ascii": 'symbols = "ascii"',
    "no_mouse": "mouse = false",
    "no_gpu": "gpu = false",
    "no_host": "host = false",
    "no_color": 'colours = "none"',
    "colors": "colours",
    "color": "colours",
    "fps": "frames_per_second",
    "pid": "url",
    "server": "url",
    "tz": "timezone",
    "keys.exit": "keys.quit",
    "keys.save": "keys.snapshot",
    "keys.quit_now": "keys.quit; ctrl+c and ctrl+q always quit",
}
"""What people call a setting elsewhere, and what it is here."""
