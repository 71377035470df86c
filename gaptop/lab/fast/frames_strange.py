"""Stacks of code that no rule knows: plugins, custom model code, a server of somebody's own around the engine."""

from __future__ import annotations

from typing import Final

from gaptop.lab.fast.frames_common import THREAD, Written
from gaptop.lab.fast.frames_front import API
from gaptop.lab.fast.machine import Kind

WHOLE: Final[Written] = ("<module> /srv/app/main.py", "Loop.run /srv/app/loop.py")
"""Somebody's own code from end to end."""
_FORKED: Final[Written] = (
    "<module> /srv/app/main.py",
    "BaseProcess.start multiprocessing/process.py",
    "Popen._launch multiprocessing/popen_fork.py",
    "BaseProcess._bootstrap multiprocessing/process.py",
    "BaseProcess.run multiprocessing/process.py",
)
_CORE: Final[Written] = ("TenantCore.run /srv/plugins/tenancy/core.py", "TenantCore.turn /srv/plugins/tenancy/core.py")
_LEAF: Final[Written] = ("fused_gather /srv/plugins/kernels/gather.py",)
_MIDDLEWARE: Final[Written] = ("QuotaMiddleware.__call__ /srv/app/middleware.py", "verify /srv/app/tenants.py")
_JOB: Final[Written] = ("_worker concurrent/futures/thread.py", "_WorkItem.run concurrent/futures/thread.py")
_TEMPLATE: Final[Written] = ("render_template /srv/app/prompts.py",)


def unknown(kind: Kind) -> list[Written]:
    """In the place of whatever such a thread does: without one frame that a rule knows, and where the front end's
    threads run what others wrote, called by their event loop or as a pool's job."""
    if kind in ("engine", "split_engine", "worker"):
        return [(*_FORKED, *_CORE, *_LEAF)]
    if kind == "pool":
        return [(*THREAD, *_TEMPLATE), (*THREAD, *_JOB, *_TEMPLATE)]
    return [(*WHOLE, *_MIDDLEWARE), (*API, *_MIDDLEWARE)]


def beneath(known: Written) -> Written:
    """Code that no rule knows, called by what one knows."""
    return (*known, *_LEAF)
