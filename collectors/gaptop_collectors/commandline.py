"""What a command line says about a server. Only the named facts are kept, never the arguments (they may hold keys)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final, Literal

from gaptop_collectors.target import Role


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A recognised server. ``port`` is the one it will listen on (the engine's default when none is given).

    ``one_cache``: llama-server's slots share one KV cache (None: cannot be told). ``python``: py-spy can look inside.
    """

    engine: str
    python: bool
    port: int
    host: str | None = None
    model: str | None = None
    sequence_cap: int | None = None
    token_budget: int | None = None
    tls: bool = False
    prefix: str = ""
    one_cache: bool | None = None


_PORTS: Final[Mapping[str, int]] = {
    "vllm": 8000,
    "llamacpp": 8080,
    "llama_cpp_python": 8000,
    "sglang": 30000,
    "tgi": 3000,
    "trtllm": 8000,
    "lmdeploy": 23333,
    "aphrodite": 2242,
    "mistralrs": 1234,
    "dynamo": 8000,
    "ollama": 11434,
    "koboldcpp": 5001,
}
_MODULES: Final = (
    ("vllm.entrypoints", "vllm"),
    ("sglang.launch_server", "sglang"),
    ("llama_cpp.server", "llama_cpp_python"),
    ("aphrodite.endpoints", "aphrodite"),
    ("dynamo.frontend", "dynamo"),
)
# Program name and, where the program does other things too, the subcommand that serves.
_PROGRAMS: Final = (
    ("vllm", "serve", "vllm"),
    ("llama-server", None, "llamacpp"),
    ("text-generation-launcher", None, "tgi"),
    ("trtllm-serve", None, "trtllm"),
    ("lmdeploy", "serve", "lmdeploy"),
    ("aphrodite", "run", "aphrodite"),
    ("mistralrs-server", None, "mistralrs"),
    ("mistralrs", "serve", "mistralrs"),
    ("ollama", "serve", "ollama"),
    ("koboldcpp", None, "koboldcpp"),
    ("koboldcpp.py", None, "koboldcpp"),
    ("sglang", "serve", "sglang"),
)
# setproctitle's names; vLLM's prefix is VLLM unless VLLM_PROCESS_NAME_PREFIX says otherwise.
_TITLES: Final[Sequence[tuple[str, re.Pattern[str], Mapping[str, Role]]]] = (
    (
        "sglang",
        re.compile(r"^sglang::(scheduler|detokenizer_router|detokenizer|tokenizer_worker|data_parallel_controller)"),
        {
            "scheduler": "engine",
            "detokenizer": "api",
            "detokenizer_router": "api",
            "tokenizer_worker": "api",
            "data_parallel_controller": "api",
        },
    ),
    (
        "vllm",
        re.compile(r"^[\w.-]{1,40}::(EngineCore|Worker|APIServer|DPCoordinator)(?:_|\b)"),
        {"EngineCore": "engine", "Worker": "worker", "APIServer": "api", "DPCoordinator": "other"},
    ),
)
# In the long form, without dashes; llama-server's short ones follow. Both spellings of the first word are accepted.
_SHORT: Final = {"-np": "parallel", "-m": "model", "-a": "alias", "-kvu": "kv-unified", "-no-kvu": "no-kv-unified"}


def is_python(argv: Sequence[str]) -> bool:
    """Whether the program is a Python interpreter, or one of a Python engine's renamed processes."""
    return bool(argv) and (PurePath(argv[0]).name.startswith("python") or titled(argv) is not None)


def titled(argv: Sequence[str]) -> tuple[str, Role] | None:
    """Engine and role of a process that its engine has renamed (``VLLM::EngineCore`` …), else None.

    Of SGLang every scheduler is an ``engine`` here: which of them leads, only the whole tree tells.
    """
    for engine, title, roles in _TITLES:
        match = title.match(argv[0]) if argv else None
        if match is not None:
            return engine, roles[match.group(1)]
    return None


def recognise(argv: Sequence[str]) -> CommandLine | None:
    """The server that this command line starts, or None (also for shells and clients that merely mention one)."""
    found = _engine(argv)
    if found is None:
        return None
    engine, rest = found
    options, words = _options(rest)
    port = _whole(options.get("port"))
    cap = {"vllm": "max-num-seqs", "llamacpp": "parallel"}.get(engine)
    return CommandLine(
        engine=engine,
        python=is_python(argv),
        port=port or _PORTS[engine],
        host=options.get("host"),
        model=_model(engine, options, words),
        sequence_cap=_whole(options.get(cap)) if cap else None,
        token_budget=_whole(options.get("max-num-batched-tokens")) if engine == "vllm" else None,
        tls="ssl-keyfile" in options or "ssl-key-file" in options,
        prefix=options.get("api-prefix", "") if engine == "llamacpp" else "",
        one_cache=_one_cache(options) if engine == "llamacpp" else None,
    )


def docker_proxy(argv: Sequence[str]) -> tuple[int, int] | None:
    """(host port, container port) of a ``docker-proxy`` for TCP, else None."""
    if not argv or PurePath(argv[0]).name != "docker-proxy":
        return None
    pairs = dict(zip(argv[1::2], argv[2::2], strict=False))
    outside, inside = _whole(pairs.get("-host-port")), _whole(pairs.get("-container-port"))
    return (outside, inside) if outside and inside and pairs.get("-proto") == "tcp" else None


def _engine(argv: Sequence[str]) -> tuple[str, Sequence[str]] | None:
    """Engine and the arguments behind the part that names it."""
    if not argv or not argv[0]:
        return None
    rest: Sequence[str] = argv
    if PurePath(argv[0]).name.startswith("python"):
        index = 1
        while index < len(argv) and argv[index].startswith("-"):
            if argv[index] == "-m" and index + 1 < len(argv):
                return _by_module(argv[index + 1], argv[index + 2 :])
            if argv[index] == "-c":
                return None
            index += 2 if argv[index] in ("-W", "-X") else 1
        rest = argv[index:]
        if rest and "/vllm/entrypoints/" in rest[0] and rest[0].endswith(".py"):
            return "vllm", rest[1:]
    if not rest:
        return None
    name = PurePath(rest[0]).name
    for program, subcommand, engine in _PROGRAMS:
        if name == program and subcommand is None:
            return engine, rest[1:]
        if name == program and len(rest) > 1 and rest[1] == subcommand:
            return engine, rest[2:]
    return None


def _by_module(module: str, rest: Sequence[str]) -> tuple[str, Sequence[str]] | None:
    for prefix, engine in _MODULES:
        if module == prefix or module.startswith(prefix + "."):
            if module == "vllm.entrypoints.cli.main":
                return (engine, rest[1:]) if rest[:1] == ["serve"] or rest[:1] == ("serve",) else None
            return engine, rest
    return None


def _options(rest: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Options by long name without dashes (a flag's value is ""), and the words before the first option."""
    options: dict[str, str] = {}
    words: list[str] = []
    for index, word in enumerate(rest):
        if not word.startswith("-") or word == "-":
            if not options:
                words.append(word)
            continue
        name, equals, value = word.partition("=")
        key = _SHORT.get(name, name.lstrip("-").replace("_", "-"))
        following = rest[index + 1] if index + 1 < len(rest) else ""
        options[key] = value if equals else ("" if following.startswith("-") else following)
    return options, words


def _model(engine: str, options: Mapping[str, str], words: Sequence[str]) -> str | None:
    served = options.get("served-model-name") or options.get("alias")
    name = served or options.get("model") or options.get("model-path")
    if not name and engine == "vllm" and words:
        name = words[0]
    return PurePath(name).name if name and engine == "llamacpp" else name or None


def _one_cache(options: Mapping[str, str]) -> bool:
    # llama-server: one cache for all slots when asked for, and by default when the number of slots is automatic.
    if "no-kv-unified" in options:
        return False
    slots: int | Literal["auto"] = _whole(options.get("parallel")) or "auto"
    return "kv-unified" in options or slots == "auto"


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and 0 < int(text) < 10**9 else None
