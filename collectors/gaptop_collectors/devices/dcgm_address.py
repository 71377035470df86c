"""What people type for a dcgm-exporter becomes one clean base URL. Standard library only: the command line uses it."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit, urlunsplit

from gaptop_collectors.engines.address import BadAddress, printable, split_address

PORT: Final = 9400
"""dcgm-exporter's own default."""


def exporter_address(text: str) -> tuple[str, dict[str, str]]:
    """As ``split_address``, but a port that was left out is 9400: ``gpu-host`` gives ``("http://gpu-host:9400", {})``.

    :raises BadAddress: no host, a scheme other than http and https, a port that is none.
    """
    text = text.strip()
    whole = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(whole)
        if parts.hostname and parts.port is None:
            whole = urlunsplit(parts._replace(netloc=f"{parts.netloc.rstrip(':')}:{PORT}"))
        return split_address(whole)
    except ValueError:  # BadAddress is one too; its example is a server's
        raise BadAddress(
            f"{printable(text)} is no address of a dcgm-exporter; give one like http://127.0.0.1:{PORT}."
        ) from None
