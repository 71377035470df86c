"""Real servers for tests: a vLLM (CPU) and a llama-server with small random models, on loopback, ended by pid."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

VLLM = "vllm-0.32.0"
LLAMA = "llama-11434.0.0"


def cache() -> Path:
    """Where ``.ci/run`` keeps the engines between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("GAPTOP_REAL_CACHE") or f"{base}/gaptop-real")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    assert isinstance(port, int)
    return port


@dataclass(frozen=True, slots=True)
class RealServer:
    """A running server: where it answers, its main process, and its own log."""

    url: str
    pid: int
    log: Path

    def get(self, path: str, timeout: float = 10.0) -> str:
        with urllib.request.urlopen(self.url + path, timeout=timeout) as answer:
            text = answer.read().decode()
        assert isinstance(text, str)
        return text


@contextlib.contextmanager
def _serving(
    argv: Sequence[str], url: str, log: Path, environment: Mapping[str, str], patience: float
) -> Iterator[RealServer]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **environment}, start_new_session=True
        )
    server = RealServer(url, process.pid, log)
    try:
        end = time.monotonic() + patience
        while True:
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{argv[0]} did not come up; its log ends with:\n{log.read_text()[-3000:]}")
            with contextlib.suppress(urllib.error.URLError, OSError):
                server.get("/health", timeout=2)
                break
            time.sleep(0.3)
        yield server
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """SIGCONT and SIGTERM to the server's own session, 5 s of patience, then SIGKILL."""
    for kind in (signal.SIGCONT, signal.SIGTERM):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, kind)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)


@contextlib.contextmanager
def vllm(folder: Path, *flags: str, model: str = "mid-512x8", patience: float = 180.0) -> Iterator[RealServer]:
    """vLLM in its single-GPU process shape (API process and engine core); the calmest one on two cores."""
    home = cache() / VLLM
    port = free_port()
    argv = [
        str(home / "bin" / "vllm"),
        "serve",
        str(home / "models" / model),
        "--served-model-name=random",
        "--load-format=dummy",
        "--dtype=float32",
        "--host=127.0.0.1",
        f"--port={port}",
        "--max-model-len=2048",
        "--enforce-eager",
        "--max-num-batched-tokens=512",
        "--block-size=32",
        "--distributed-executor-backend=vllm.v1.executor.uniproc_executor.UniProcExecutor",
        *flags,
    ]
    environment = {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_CACHE_ROOT": str(folder / "vllm-cache"),
    }
    with _serving(argv, f"http://127.0.0.1:{port}", folder / "vllm.log", environment, patience) as server:
        yield server


@contextlib.contextmanager
def llama(folder: Path, *flags: str, patience: float = 60.0) -> Iterator[RealServer]:
    """llama-server with four slots and one compute thread (OpenMP's spin barrier misbehaves on busy cores)."""
    home = cache() / LLAMA
    port = free_port()
    argv = [
        str(home / "llama-server"),
        "-m",
        str(home / "mid.gguf"),
        "-np",
        "4",
        "-c",
        "8192",
        "-t",
        "1",
        "-tb",
        "1",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        *flags,
    ]
    with _serving(argv, f"http://127.0.0.1:{port}", folder / "llama.log", {}, patience) as server:
        yield server
