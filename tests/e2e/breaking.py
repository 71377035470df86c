"""gaptop with a bug that shows itself once a file is there: ``python breaking.py WHERE FILE ARGUMENTS-OF-GAPTOP``."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from textual.drivers.linux_driver import LinuxDriver

from gaptop.cli.main import main
from gaptop.timeline.timeline import Timeline
from gaptop.tui.actions.choosing import Choosing
from gaptop.tui.screens.main import Dashboard
from gaptop.tui.widgets.lines import Lines

SAYS: Final = "made for \x1b[31ma test"
_WHERE: Final[dict[str, tuple[Any, str]]] = {
    "render": (Lines, "render_lines"),
    "frame": (Dashboard, "tick"),
    "line": (Timeline, "apply"),
    "key": (Choosing, "action_below"),
    "input": (LinuxDriver, "process_message"),
}


def _broken(works: Callable[..., Any], when: Path) -> Callable[..., Any]:
    def breaks(*arguments: Any, **options: Any) -> Any:
        if when.exists():
            raise ZeroDivisionError(SAYS)
        return works(*arguments, **options)

    return breaks


def _in_a_thread(when: Path) -> None:
    while not when.exists():
        time.sleep(0.1)
    raise ZeroDivisionError(SAYS)


if __name__ == "__main__":
    where, when, *sys.argv[1:] = sys.argv[1:]
    if where == "thread":
        threading.Thread(target=_in_a_thread, args=[Path(when)], daemon=True).start()
    else:
        owner, name = _WHERE[where]
        setattr(owner, name, _broken(getattr(owner, name), Path(when)))
    main()
