"""A process that looks like a small vLLM server under steady load: run as ``python …/vllm serve MODEL --port PORT``
through a link of that name. Standard library only, so that it is up at once."""

from __future__ import annotations

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

RUNNING = 4
TOKENS_PER_SECOND = 200
_BEGUN = time.monotonic()


def metrics(model: str) -> str:
    """Four running requests whose tokens grow with time; nothing waits."""
    labels = f'{{engine="0",model_name="{model}"}}'
    values = (
        ("vllm:num_requests_running", "gauge", RUNNING),
        ("vllm:num_requests_waiting", "gauge", 0),
        ("vllm:kv_cache_usage_perc", "gauge", 0.25),
        ("vllm:generation_tokens_total", "counter", int(TOKENS_PER_SECOND * (time.monotonic() - _BEGUN))),
        ("vllm:prompt_tokens_total", "counter", int(TOKENS_PER_SECOND / 4 * (time.monotonic() - _BEGUN))),
        ("vllm:num_preemptions_total", "counter", 0),
    )
    lines = [f"# TYPE {name.removesuffix('_total')} {kind}\n{name}{labels} {value}\n" for name, kind, value in values]
    return "".join(lines)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model = "tiny"

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        answers = {
            "/v1/models": json.dumps({"data": [{"id": self.model, "owned_by": "vllm"}]}),
            "/version": json.dumps({"version": "0.32.0"}),
            "/health": "",
            "/metrics": metrics(self.model),
            "/metrics/": metrics(self.model),
        }
        body = answers.get(path, "").encode()
        self.send_response(200 if path in answers else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the test's output stays clean."""


def main() -> None:
    Handler.model = sys.argv[2]
    port = int(sys.argv[sys.argv.index("--port") + 1])
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
