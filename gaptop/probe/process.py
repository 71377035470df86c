"""What surrounds the probe's main loop in its process: logging, the parent's death, the configuration, the end."""

from __future__ import annotations

import faulthandler
import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

from gaptop.probe.config import ConfigError, ProbeConfig, parse
from gaptop.probe.core import Probe
from gaptop.probe.inlet import Inlet
from gaptop.probe.parent import die_with_parent
from gaptop.probe.runner import Plan
from gaptop.recording.log_format import RedactingFormatter

_USAGE: Final = 2
_PATIENCE: Final = 10.0


def main(make_plans: Callable[[ProbeConfig], Sequence[Plan]]) -> int:
    """Run a probe with these collectors on descriptors 0, 1 and 2; ends the process when the probe is over.

    Comes back only with the exit status 2, when there is no configuration.
    """
    die_with_parent()
    faulthandler.enable(sys.stderr, all_threads=True)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(RedactingFormatter("%(asctime)s probe %(process)d %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    descriptor = _own_standard_output()
    inlet = Inlet(0)
    first = inlet.first(_PATIENCE)
    try:
        config = parse(first if first is not None else b"")
    except ConfigError as error:
        logging.getLogger(__name__).error("%s; gaptop starts the probe, it is not meant to be run by hand.", error)
        return _USAGE
    try:
        Probe(config, make_plans(config), inlet, descriptor).run()
    except Exception:
        logging.getLogger(__name__).exception("the probe failed")
        _leave(1)
    _leave(0)


def _own_standard_output() -> int:
    """Move the stream to a descriptor of its own: what a library prints must not end up in the stream."""
    descriptor = os.dup(1)
    os.set_inheritable(descriptor, False)
    os.dup2(2, 1)
    return descriptor


def _leave(status: int) -> NoReturn:
    """End now, also while a collector's thread hangs in a library."""
    logging.shutdown()
    os._exit(status)
