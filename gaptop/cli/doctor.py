"""``gaptop doctor``: what can be measured here, what cannot, and how to get it."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gaptop import __version__
from gaptop.cli import own_files
from gaptop.cli.exits import Exit, Stop
from gaptop.cli.target import Target, choose, probe_config, target_options
from gaptop.recording.printable import printable

if TYPE_CHECKING:
    from gaptop.recording.lines import Health, Source
    from gaptop_collectors.target import Server

_LOOK_SECONDS: Final = 4.0
_LIBRARIES: Final = ("textual", "nvidia-ml-py", "py-spy", "psutil", "aiohttp", "numpy", "prometheus-client")
_LOG_LINES: Final = 40
_OWN_CALLS: Final = "device.own_calls"


@click.command(short_help="Tell what can be measured here, and how to get the rest.")
@target_options
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--report", "as_report", is_flag=True, help="Everything a bug report needs, with secrets removed.")
@click.pass_context
def doctor(ctx: click.Context, *, target: Target, as_json: bool, as_report: bool) -> None:
    """Tell what gaptop can see here, what it cannot, and how to get the rest."""
    from gaptop.cli.paths import start_log

    start_log()
    findings = examine(target)
    if as_json:
        click.echo(json.dumps(findings, indent=2))
    else:
        click.echo(_text(findings, with_log=as_report))
    ctx.exit(Exit.FINE if any(source["state"] == "ok" for source in findings["sources"]) else Exit.NOTHING_TO_OBSERVE)


def examine(target: Target) -> dict[str, Any]:
    """Run the real probe for a few seconds and report the state of every source, besides facts about this host."""
    from gaptop.cli.paths import log_path, no_log, state_dir

    servers: Sequence[Server] = ()
    server_says = ""
    try:
        servers = choose(target)
    except Stop as stop:
        server_says = stop.format_message()
    sources, devices, own_calls = _seen(target, servers)
    return {
        "gaptop": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": os.cpu_count(),
        "user": "root" if os.geteuid() == 0 else "not root",
        "libraries": {name: _version(name) for name in _LIBRARIES},
        "ptrace_scope": _read("/proc/sys/kernel/yama/ptrace_scope"),
        "stacks": _stacks(),
        "terminal": {
            "TERM": os.environ.get("TERM"),
            "COLORTERM": os.environ.get("COLORTERM"),
            "NO_COLOR": "NO_COLOR" in os.environ,
            "encoding": sys.stdout.encoding,
            "size": list(shutil.get_terminal_size()),
            "over_ssh": "SSH_CONNECTION" in os.environ,
        },
        "paths": {
            "log": str(log) if (log := log_path()) else None,
            "no_log": no_log() or None,
            "state": str(state_dir()),
            **own_files.rules_found(),
        },
        "config": own_files.config_found(),
        "server": _named_server(servers[0]) if servers else None,
        "servers": [_named_server(server) for server in servers],
        "server_says": " ".join(server.says for server in servers if server.says) or server_says or None,
        "sources": _told(sources),
        "devices": [_device(info, own_calls.get(src, _Share()).share) for src, info in sorted(devices.items())],
    }


def sources_without_server(target: Target) -> list[dict[str, Any]]:
    """The state of every source of this host alone, as in ``examine``."""
    return _told(_seen(target, ())[0])


def _named_server(server: Server) -> dict[str, str | None]:
    return {"url": server.url, "engine": server.engine, "version": server.version, "model": server.model}


def _seen(target: Target, servers: Sequence[Server]) -> tuple[dict[str, Health], dict[str, Source], dict[str, _Share]]:
    """The newest health of each source, devices, and the share of the time that our own calls to each take."""
    from gaptop.cli.probe_lines import LiveLines, decoded
    from gaptop.recording.lines import Batch, Health, Source

    sources: dict[str, Health] = {}
    devices: dict[str, Source] = {}
    own_calls: dict[str, _Share] = {}
    empty: dict[str, Mapping[str, str]] = {}
    with LiveLines(probe_config(target, servers)) as lines:
        end = time.monotonic() + _LOOK_SECONDS
        while (left := end - time.monotonic()) > 0:
            raw = lines.take(left)
            line = decoded(raw) if raw is not None else None
            if isinstance(line, Health):
                sources[line.src] = line
            elif isinstance(line, Source):
                if line.kind == "device":
                    devices[line.id] = line
                empty.pop(line.id, None)
                if not line.signals and line.unsupported:
                    empty[line.id] = line.unsupported
            elif isinstance(line, Batch) and (column := line.values.get(_OWN_CALLS)):
                own_calls.setdefault(line.src, _Share()).add(line.t[-1], column[-1])
    speaking = {health.collector for src, health in sources.items() if src != health.collector}
    for name in [src for src, health in sources.items() if src == health.collector]:
        if sources[name].state == "ended" or (sources[name].state == "ok" and name in speaking):
            del sources[name]  # it has only given way to its sources
    silent = {server.url for server in servers if server.engine == "unknown"}
    for name, missing in empty.items():
        if name in sources and sources[name].state == "ok":
            sources[name] = replace(sources[name], state="absent", says=_why_empty(name, missing, silent))
    return sources, devices, own_calls


def _why_empty(source: str, missing: Mapping[str, str], silent: Collection[str]) -> str:
    """Why a source that works has nothing to tell; ``silent`` are the URLs of servers that have not answered."""
    url = source.partition("/")[2]
    if url in silent:
        return f"{url} was not reached, so nothing of it is seen here either; start it, or give gaptop its address."
    return "; ".join(dict.fromkeys(missing.values()))


def _told(sources: Mapping[str, Health]) -> list[dict[str, Any]]:
    return [
        {"source": health.src, "collector": health.collector, "state": health.state, "says": health.says}
        for health in sorted(sources.values(), key=lambda health: health.src)
    ]


class _Share:
    """The share of the time by which a counter of seconds rises; None until it was read twice."""

    def __init__(self) -> None:
        self._first: tuple[float, float] | None = None
        self.share: float | None = None

    def add(self, time: float, seconds: float | None) -> None:
        if seconds is None:
            return
        if self._first is None:
            self._first = (time, seconds)
        elif time > self._first[0]:
            self.share = round((seconds - self._first[1]) / (time - self._first[0]), 6)


def _device(info: Source, own_calls: float | None) -> dict[str, Any]:
    """How finely a device is seen; ``pids`` null: it is not known which of the server's processes use it."""
    from gaptop.tui.seen import missing, window_of

    return {
        "source": info.id,
        **{key: info.entity.get(key) for key in ("uuid", "name", "index", "parent", "slice", "pids")},
        "window_seconds": window_of(info),
        "window_measured": info.window_measured,
        "jitter_seconds": info.jitter,
        "rounding": info.rounding or None,
        "clock": info.clock or None,
        "own_calls": own_calls,
        "missing": missing(info),
    }


def _stacks() -> str:
    """Whether py-spy may read the stacks of a process that is not ours: asked of the kernel, about our parent."""
    from gaptop_collectors.collector import CollectorError
    from gaptop_collectors.host.pyspy_command import check_right, find_pyspy

    try:
        found = find_pyspy()
    except CollectorError as error:
        return error.says
    refused = check_right(os.getppid())
    return refused.says if refused is not None else f"py-spy may read this user's processes ({found.name} is there)"


def _version(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version  # 20 ms, and help loads this module

    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def _text(findings: dict[str, Any], *, with_log: bool) -> str:
    libraries = ", ".join(f"{name} {installed or 'MISSING'}" for name, installed in findings["libraries"].items())
    paths = findings["paths"]
    lines = [
        f"gaptop {findings['gaptop']}, Python {findings['python']}, {findings['system']}, {findings['cores']} cores, "
        f"{findings['user']}",
        f"libraries  {libraries}",
        f"stacks     {printable(findings['stacks'])}",
        f"terminal   {findings['terminal']['TERM']}, {findings['terminal']['encoding']}",
        f"log        {printable(paths['log'] or 'none: ' + paths['no_log'])}",
        *own_files.lines(findings["config"], paths),
    ]
    for server in findings["servers"]:
        parts = [server["url"], server["engine"], server["version"], server["model"]]
        lines.append("server     " + " ".join(printable(part) for part in parts if part))
    if findings["server_says"]:
        lines += [f"server     {printable(line)}" for line in findings["server_says"].split("\n")]
    devices = findings.get("devices", ())
    lacks = {device["source"]: device["missing"] for device in devices}
    costs = {device["source"]: device["own_calls"] for device in devices}
    names = {device["source"]: _named(device) for device in devices}
    lines.append("sources")
    for source in findings["sources"]:
        mark = {"ok": "ok  ", "starting": "... "}.get(source["state"], "--  ")
        name = names.get(source["source"], "")
        lines.append(f"  {mark}{printable(source['source'])}{printable(name)}: {source['state']}")
        if source["says"]:
            lines.append(f"      {printable(source['says'])}")
        if (share := costs.get(source["source"])) is not None:
            lines.append(f"      gaptop's own calls to its driver take {share:.2%} of the time")
        lines += [f"      N/A {printable(text)}" for text in lacks.get(source["source"], ())]
    if not findings["sources"]:
        lines.append("  none: the measuring process did not answer; see the log.")
    if with_log:
        lines += ["", "last lines of the log:", *_log_tail(paths["log"])]
    return "\n".join(lines)


def _named(device: Mapping[str, Any]) -> str:
    """Which device people know it as: `` (#0 NVIDIA L4)``, with its profile where it is a MIG slice."""
    index, name, part = device.get("index"), device.get("name"), device.get("slice")
    words = [f"#{index}" if index is not None else "", name, "" if str(part) in str(name) else part]
    said = " ".join(str(word) for word in words if word)
    return f" ({said})" if said else ""


def _log_tail(path: str | None) -> list[str]:
    from gaptop.recording.redact import redact

    if path is None:
        return ["  (there is no log)"]
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        return [f"  (the log cannot be read: {error.strerror})"]
    return ["  " + printable(redact(line)) for line in text.splitlines()[-_LOG_LINES:]]
