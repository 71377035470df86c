"""What people type for a server becomes one clean base URL; credentials in it become a header.

Standard library only: discovery uses it too.
"""

from __future__ import annotations

import base64
import unicodedata
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

_PORTS: Final = {"http": 80, "https": 443}
_TAILS: Final = ("/metrics", "/v1/models", "/v1", "/slots", "/health")


class BadAddress(ValueError):
    """One sentence: what is wrong with the address and how it should look."""


def split_address(text: str) -> tuple[str, dict[str, str]]:
    """``user:secret@host:8000/metrics`` gives ``("http://host:8000", {"Authorization": "Basic …"})``.

    A missing scheme is http; an endpoint's path at the end (``/metrics``, ``/v1`` …) is taken off, any other path is
    kept as a prefix (a reverse proxy); query and fragment are dropped.

    :raises BadAddress: no host, a scheme other than http and https, a port that is none.
    """
    text = text.strip()
    parts = _split(text if "://" in text else f"http://{text}")
    headers = {}
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode("ascii")
    path = parts.path.rstrip("/")
    for tail in _TAILS:
        path = path.removesuffix(tail).rstrip("/")
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else str(parts.hostname)
    port = f":{parts.port}" if parts.port not in (None, _PORTS[parts.scheme]) else ""
    return urlunsplit((parts.scheme, host + port, path, "", "")), headers


def host_and_port(url: str) -> tuple[str, int]:
    """Host (without brackets) and port, the scheme's own where the URL names none.

    :raises BadAddress: as :func:`split_address`.
    """
    parts = _split(url)
    return str(parts.hostname), parts.port or _PORTS[parts.scheme]


def same_origin(url: str, other: str) -> bool:
    """Whether two absolute URLs have the same scheme, host and port."""
    try:
        return host_and_port(url) == host_and_port(other) and _split(url).scheme == _split(other).scheme
    except BadAddress:
        return False


def printable(text: str, limit: int = 80) -> str:
    """Untrusted text for a sentence: one line, nothing that a terminal obeys, no login of a URL, cut at ``limit``.

    Control characters become their pictures (ESC is ``␛``), odd spaces a space, what else is not printable ``\ufffd``:
    the same rule as in ``gaptop.recording.printable``, which may not be imported from here.
    """
    if "://" in text and "@" in text:
        scheme, _, rest = text.partition("://")
        authority, slash, path = rest.partition("/")
        text = f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"
    clean = text if text.isprintable() else "".join(map(_shown, text))
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def _shown(letter: str) -> str:
    if letter.isprintable():
        return letter
    code = ord(letter)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    return " " if unicodedata.category(letter) == "Zs" else "\ufffd"


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise BadAddress(
            f"{printable(url)} is not an address gaptop can use; give one like http://127.0.0.1:8000."
        ) from None
    if parts.scheme not in _PORTS:
        raise BadAddress(f"{printable(url)} is neither http:// nor https://; give one like http://127.0.0.1:8000.")
    if not parts.hostname or port == 0 or not all(letter.isprintable() and letter != " " for letter in url):
        raise BadAddress(f"{printable(url)} names no usable host and port; give one like http://127.0.0.1:8000.")
    return parts
