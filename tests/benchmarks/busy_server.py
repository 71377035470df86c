"""A server that is always busy: steps of pure Python on its main thread, a vLLM-like metrics endpoint on another.

Run as ``python busy_server.py BODY``: it says its port on the first line, then twenty times a second how many units of
work it has done and how much CPU time that took.
"""

from __future__ import annotations

import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit


def schedule(waiting: list[int]) -> int:
    """A step's bookkeeping."""
    taken = 0
    for item in waiting:
        taken += item * item % 7
    return taken


def step() -> int:
    """One unit of work, about half a millisecond."""
    return schedule(list(range(6000)))


def serve(body: bytes) -> int:
    """Answers like vLLM: ``/metrics``, or only the samples asked for at ``/metrics/?name[]=``; the port."""
    lines = body.splitlines(keepends=True)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            names = tuple(name.encode() for name in parse_qs(url.query).get("name[]", ()))
            known = url.path.rstrip("/") == "/metrics"
            chosen = [line for line in lines if not names or line.startswith(names)] if known else []
            answer = b"".join(chosen)
            self.send_response(200 if known else 404)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            """An access log is not what is measured."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def main() -> None:
    """Until standard output is closed."""
    print(serve(Path(sys.argv[1]).read_bytes()), flush=True)
    units, told = 0, time.monotonic()
    while True:
        step()
        units += 1
        if time.monotonic() - told >= 0.05:
            told = time.monotonic()
            print(units, time.process_time(), flush=True)


if __name__ == "__main__":
    main()
