"""Find the servers to watch: by command line, listening socket and GPU, or from a URL or pid that was given.

Only likely ports of likely processes are asked, with one-second GETs; nothing else on the host is touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gaptop_collectors.commandline import docker_proxy, is_python
from gaptop_collectors.discovery_probe import Identity, NoAnswer, identify
from gaptop_collectors.engines.address import BadAddress, host_and_port, printable, split_address
from gaptop_collectors.engines.dialects import OTHERS, SUPPORTED, not_supported, title
from gaptop_collectors.host.proctable import (
    Listener,
    Row,
    ancestors,
    descendants,
    is_local,
    listeners,
    read_argv,
    scan,
)
from gaptop_collectors.host.roots import Root, find_roots, processes_of, root_at_port, root_of
from gaptop_collectors.target import HttpOptions, Server

_ANY: Final = {"0.0.0.0": "127.0.0.1", "::": "127.0.0.1", "": "127.0.0.1"}
_MOST_PORTS: Final = 4


@dataclass(frozen=True, slots=True)
class _Found:
    """A server and whether something listens there (it may want credentials, or be stopped)."""

    server: Server
    up: bool


class DiscoveryError(Exception):
    """What was given cannot be watched: one sentence, with the remedy. ``silent``: the server that it may be once it
    answers, where nothing does there yet."""

    def __init__(self, says: str, silent: Server | None = None) -> None:
        super().__init__(says)
        self.silent = silent


def discover(url: str | None, pid: int | None, http: HttpOptions, devices_pids: Sequence[int] = ()) -> list[Server]:
    """The servers at a URL, of a pid, or (with neither) of this host; [] when there is none.

    ``devices_pids`` are pids seen on a GPU. Servers that are not up (yet) are given only when none is, engines that
    gaptop cannot read only when there is nothing else; ``says`` tells what is wrong with a server.
    Credentials in a URL are used for asking and never kept: whoever scrapes later adds ``split_address(url)[1]`` to its
    headers.

    :raises DiscoveryError: the given URL or pid cannot be used.
    """
    if url is not None:
        return [_at_url(url, http)]
    rows = scan()
    roots, sockets = find_roots(rows), listeners()
    if pid is not None:
        return [_of_pid(pid, rows, roots, sockets, http)]
    for root in _on_devices(rows, roots, sockets, devices_pids):
        roots.append(root)
    found: dict[str, _Found] = {}
    for root in roots:
        for each in _of_root(root, rows, sockets, http):
            found.setdefault(each.server.url, each)
    supported = [each for each in found.values() if each.server.engine in SUPPORTED]
    best = [each for each in supported if each.up] or supported or list(found.values())
    return [each.server for each in best]


def _at_url(url: str, http: HttpOptions) -> Server:
    try:
        base, credentials = split_address(url)
    except BadAddress as error:
        raise DiscoveryError(str(error)) from None
    host, port = host_and_port(base)
    root, rows, why = None, {}, f"{host} is another host, so its processes, threads and GPUs are not visible from here."
    if is_local(host):
        rows = scan()
        roots, sockets = find_roots(rows), listeners()
        root = root_at_port(rows, roots, sockets, port) or _behind_proxy(rows, roots, port)
        if root is None:
            root, why = _owner(rows, sockets, port)
    try:
        identity = identify(base, replace(http, headers={**http.headers, **credentials}))
    except NoAnswer as error:
        if root is None or root.engine not in SUPPORTED or error.kind == "wrong":
            says = f"{base} {error.says}."
            silent = None if error.kind == "wrong" else Server(base, "unknown", says=says)
            raise DiscoveryError(says, silent) from None
        identity = Identity(root.engine)
        why = f"{base} {error.says}."
        return _server(base, identity, root, rows, why)
    if identity.engine == "unknown" and (root is None or root.engine not in SUPPORTED):
        raise DiscoveryError(
            f"{base} answers{identity.trouble}, but not as an engine that gaptop reads "
            f"({', '.join(SUPPORTED.values())}); give the engine's own address, not that of a gateway before it."
        )
    if identity.engine in OTHERS:
        raise DiscoveryError(not_supported(identity.engine, base))
    return _server(base, identity, root, rows, why if root is None else "")


def _of_pid(
    pid: int, rows: Mapping[int, Row], roots: Sequence[Root], sockets: Sequence[Listener], http: HttpOptions
) -> Server:
    if pid not in rows:
        port = f" (if it is a port: http://127.0.0.1:{pid})" if 0 < pid < 65536 else ""
        raise DiscoveryError(f"There is no process {pid} here; give the pid of a running server, or its URL{port}.")
    root = root_of(rows, roots, pid) or next((r for r in roots if r.pid in descendants(rows, pid)), None)
    found = _of_root(root or Root(pid, "unknown", None), rows, sockets, http)
    if found and found[0].server.engine in SUPPORTED:
        return found[0].server
    if found and found[0].server.engine in OTHERS:
        raise DiscoveryError(found[0].server.says)
    raise DiscoveryError(
        f"Process {pid} has no port where an engine that gaptop reads answers (its sockets may be another user's or in "
        "a container); give the server's URL instead."
    )


def _of_root(root: Root, rows: Mapping[int, Row], sockets: Sequence[Listener], http: HttpOptions) -> list[_Found]:
    """The server of one process tree: the first likely URL that answers, else one that says what is wrong."""
    silent: _Found | None = None
    for url in _urls(root, rows, sockets):
        try:
            identity = identify(url, http)
        except NoAnswer as error:
            waiting = error.kind in ("down", "loading") and root.command is not None
            says = f"{url} {'is not up yet' if waiting and error.kind == 'down' else error.says}."
            up = error.kind in ("wrong", "silent")
            silent = silent or _Found(_server(url, Identity(root.engine), root, rows, says), up)
            continue
        if identity.engine == "unknown":
            continue
        if identity.engine in OTHERS:
            return [_Found(_server(url, identity, root, rows, not_supported(identity.engine, url)), True)]
        return [_Found(_server(url, identity, root, rows, ""), True)]
    if root.engine in OTHERS:
        at = silent.server.url if silent else f"process {root.pid}"
        return [_Found(_server(at, Identity(root.engine), root, rows, not_supported(root.engine, at)), False)]
    if silent is not None and root.engine in SUPPORTED:
        return [silent]
    return []


def _urls(root: Root, rows: Mapping[int, Row], sockets: Sequence[Listener]) -> list[str]:
    """Likely base URLs: the port of the command line, then what the tree itself listens on, then docker's mappings."""
    command = root.command
    tree = set(descendants(rows, root.pid))
    own = [s for s in sockets if s.pid in tree]
    wanted = command.port if command else None
    scheme = "https" if command and command.tls else "http"
    prefix = command.prefix if command else ""
    ordered = [s for s in own if s.port == wanted]
    mapped = [out for out, inside in _proxies(rows) if inside == wanted]
    if wanted is not None and not ordered and not mapped:
        seen = next((s for s in sockets if s.port == wanted), None)
        if seen is None or seen.pid is None:  # hidden owner, or not up yet: the command line's word counts
            ordered.append(seen or Listener(command.host if command and command.host else "", wanted, None))
    if not ordered and not mapped:
        # A front end listens itself; other ranks' sockets (torch, zmq) are no HTTP and must not be asked.
        ordered = [s for s in own if s.pid == root.pid or s.pid in _front_ends(rows, root)][:_MOST_PORTS]
    urls = [_url(scheme, s.host, s.port) + prefix for s in ordered]
    urls += [_url(scheme, "", port) + prefix for port in mapped]
    return [url for url in dict.fromkeys(urls) if _usable(url)]


def _usable(url: str) -> bool:
    """Host and prefix are what somebody typed: what is no address is not asked, nor shown."""
    try:
        split_address(url)
    except BadAddress:
        return False
    return True


def _front_ends(rows: Mapping[int, Row], root: Root) -> set[int]:
    return {p.pid for p in processes_of(rows, root.pid, "vllm") if p.role == "api"} if root.engine == "vllm" else set()


def _url(scheme: str, host: str, port: int) -> str:
    host = _ANY.get(host, host)
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _proxies(rows: Mapping[int, Row]) -> list[tuple[int, int]]:
    pairs = (docker_proxy(read_argv(pid)) for pid, row in rows.items() if row.comm == "docker-proxy")
    return sorted({pair for pair in pairs if pair is not None})


def _behind_proxy(rows: Mapping[int, Row], roots: Sequence[Root], port: int) -> Root | None:
    inside = {within for outside, within in _proxies(rows) if outside == port}
    fitting = [root for root in roots if root.command is not None and root.command.port in inside]
    return fitting[0] if len(fitting) == 1 else None


def _owner(rows: Mapping[int, Row], sockets: Sequence[Listener], port: int) -> tuple[Root | None, str]:
    """The process on a port when no server was recognised there, or why there is none to see."""
    at_port = [s for s in sockets if s.port == port]
    pid = next((s.pid for s in at_port if s.pid in rows), None)
    if pid is not None and rows[pid].comm != "docker-proxy":
        return Root(pid, "unknown", None), ""
    if pid is not None:
        return (
            None,
            f"Port {port} belongs to docker-proxy, so the server's processes are not known; give a pid instead.",
        )
    if at_port:
        return None, f"Port {port} belongs to another user, so its processes are not visible; use sudo to see them."
    return None, f"No process here is seen to listen on port {port}, so host lanes stay empty; try sudo."


def _on_devices(
    rows: Mapping[int, Row], roots: Sequence[Root], sockets: Sequence[Listener], pids: Sequence[int]
) -> list[Root]:
    """Process trees on a GPU that nothing recognised and that listen: worth asking, engine unknown."""
    found: dict[int, Root] = {}
    for pid in pids:
        if pid not in rows or root_of(rows, roots, pid) is not None:
            continue
        for each in [pid, *ancestors(rows, pid)]:
            if is_python(read_argv(each)) and any(s.pid == each for s in sockets):
                found.setdefault(each, Root(each, "unknown", None))
                break
    return list(found.values())


def _server(url: str, identity: Identity, root: Root | None, rows: Mapping[int, Row], says: str) -> Server:
    command = root.command if root else None
    engine = identity.engine if identity.engine != "unknown" else root.engine if root else "unknown"
    return Server(
        url=url,
        engine=engine,
        version=identity.version,
        model=identity.model or (printable(command.model) if command and command.model else None),
        processes=processes_of(rows, root.pid, engine) if root else (),
        sequence_cap=command.sequence_cap if command and command.engine == engine else None,
        says=says,
    )


def same_server(one: Server, other: Server) -> bool:
    """Whether two of them are one server under two names: the same address, or the same port of this host."""
    if one.url == other.url:
        return True
    (host, port), (other_host, other_port) = host_and_port(one.url), host_and_port(other.url)
    return port == other_port and is_local(host) and is_local(other_host)


def describe_choice(servers: Sequence[Server]) -> str:
    """One line a server, for "more than one found": URL, engine, model, pid."""
    return "\n".join(
        f"  {s.url}  {title(s.engine)}{f' {s.version}' if s.version else ''}  {s.model or ''}  "
        f"{f'pid {s.processes[0].pid}' if s.processes else ''}".rstrip()
        for s in servers
    )
