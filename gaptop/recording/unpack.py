"""Bytes of a stream, plain or gzip, as whole lines: in bounded memory, and with a sentence where it ends early."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import BinaryIO, Final

LONGEST_LINE: Final = 16 << 20
LARGEST: Final = 16 << 30
"""Bytes of text that one recording may unfold to: two weeks of a busy server."""
_RATIO: Final = 200
"""A recording packs 10 to 40 times; deflate can do 1032."""
_RATIO_FROM: Final = 64 << 20
_PIECE: Final = 1 << 16
_GZIP: Final = 31


class Damage(Exception):
    """Nothing after this can be read; the text says why."""


def lines(stream: BinaryIO) -> Iterator[bytes]:
    """The stream's lines, each with its newline; the rest after the last newline comes too, without one.

    Lines come as soon as they are complete, also from a pipe. Raises :class:`Damage` after the last readable line,
    and OSError when the stream cannot be read.
    """
    rest: list[bytes] = []
    held = 0
    for piece in _text(stream):
        first, newline, others = piece.partition(b"\n")
        rest.append(first)
        held += len(first)
        if held > LONGEST_LINE:
            raise Damage(f"a line is longer than {LONGEST_LINE >> 20} MiB, so what follows is no gaptop stream")
        if not newline:
            continue
        yield b"".join(rest) + b"\n"
        whole, newline, last = others.rpartition(b"\n")
        if newline:
            for line in whole.split(b"\n"):
                yield line + b"\n"
        rest = [last]
        held = len(last)
    if held:
        yield b"".join(rest)


def _text(stream: BinaryIO) -> Iterator[bytes]:
    pieces = _pieces(stream)
    head = b""
    for piece in pieces:
        head += piece
        if len(head) >= 2:
            break
    if head.startswith(b"\x1f\x8b"):
        yield from _unpacked(head, pieces)
    else:
        yield head
        yield from pieces


def _pieces(stream: BinaryIO) -> Iterator[bytes]:
    # read1() and a raw read() give what is there; a buffered read() would wait for a full piece of a live pipe.
    read = getattr(stream, "read1", stream.read)
    while piece := read(_PIECE):
        yield piece


def _unpacked(head: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    member = zlib.decompressobj(_GZIP)
    taken = given = 0
    packed = head
    while True:
        taken += len(packed)
        while packed:
            if member.eof:
                member = zlib.decompressobj(_GZIP)
            try:
                text = member.decompress(packed, _PIECE)
            except zlib.error as error:
                raise Damage(f"the compressed data is damaged ({error})") from None
            packed = member.unused_data if member.eof else member.unconsumed_tail
            given += len(text)
            if given > LARGEST or (given > _RATIO_FROM and given > _RATIO * taken):
                raise Damage(f"it unfolds to over {given >> 20} MiB, far more than a recording of its size can hold")
            if text:
                yield text
        following = next(pieces, None)
        if following is None:
            break
        packed = following
    if not member.eof:
        raise Damage("its last part is missing (the recording is still going on, or was cut off)")
