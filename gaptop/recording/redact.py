"""Secrets are taken out by whoever writes a stream or a log, never by its reader.

Redacting errs on the side of hiding: a secret that slips into a recording is mailed around with it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from gaptop.recording.lines import Event, Health, Hole, Line, Source, Verdict

HIDDEN: Final = "***"

# The last word of a name decides: --api-key and HF_TOKEN are secret, --max-tokens, --tokenizer, --token-file are not.
_NAME: Final = (
    r"(?:[a-z0-9]+[-_.]+)*(?:[a-z0-9]*(?:api[-_]?keys?|(?:access|account|auth|master|private|shared|signing)[-_]?key"
    r"|token|secret|password|passwd|passphrase|signature)|key|credentials?|cookie)"
)
_START: Final = r"(?<![\w.-])"
_QUOTED: Final = r"\"[^\"]*\"|'[^']*'"
_BARE: Final = r"[^\s\"'&,;)}\]]+"

_URL_LOGIN: Final = re.compile(r"(?<=://)[^\s/?#@\"'<>]*(?:@[^\s/?#@\"'<>]*)*@")
_KNOWN_SHAPES: Final = re.compile(
    r"\b(?:sk-[\w-]{8,}|hf_\w{8,}|gh[pousr]_\w{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|xox[abprs]-[\w-]{8,}"
    r"|nvapi-[\w-]{16,}|(?:AKIA|ASIA)[0-9A-Z]{16}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
)
_AUTHORIZATION: Final = re.compile(
    r"(?i)\b((?:proxy-)?authorization[\"']?\s*[:=]\s*)([\"']?)(?:(?:basic|bearer|digest|token|negotiate)\s+)?"
    r"[^\s\"',;)}\]]+"
)
# All of it is one secret, pairs and semicolons included; and so is the value of each header that says auth.
_COOKIE: Final = re.compile(r"(?i)(?<![\w.-])((?:set-)?cookie[\"']?\s*:\s*)([\"']?)[^\r\n\"']+")
_AUTH_HEADER: Final = re.compile(r"(?i)(?<![\w.-])(x-auth[\w-]*[\"']?\s*[:=]\s*)([\"']?)[^\s\"',;)}\]]+")
# In a query only: "sig" and "code" are words elsewhere. (Signed links to storage; OAuth.)
_QUERY: Final = re.compile(r"(?i)(?<=[?&;])((?:sig|code|pwd|pass|auth)=)[^\s&;\"'<>]+")
_SCHEME: Final = re.compile(r"(?i)\b((?:bearer|basic)\s+)(?=[\w.~+/-]*[\d=]|[\w.~+/-]{20})[\w.~+/=-]{6,}")
_ASSIGNED: Final = re.compile(rf"(?i){_START}((?:--?)?{_NAME}[\"']?(?:\s?=\s?|:))({_QUOTED}|{_BARE})")
# "the server wants a token: give it one" is a sentence; what follows must look like a secret there.
_AFTER_COLON: Final = re.compile(
    rf"(?i){_START}({_NAME}[\"']?:\s)({_QUOTED}|(?=\S*\d|\S{{16}}){_BARE})"
    rf"|{_START}([a-z0-9_.-]+[-_](?:key|token|secret|password)[\"']?:\s)({_BARE})"
)
_OPTION: Final = re.compile(
    rf"(?i){_START}(--?{_NAME}\s+)({_QUOTED}|(?!-)[^\s\"']+)((?:\s+(?=\S*\d)(?!-)[\w.+/=-]{{8,}}(?=\s|$))*)"
)
# Short options mean something else to every program, so the value has to look like a secret, or the program be known.
_LOOKS_SECRET: Final = r"(?=[^\s/]*\d)(?=[^\s/]*[a-zA-Z])[\w+=~-]{8,}(?=\s|$|[\"'])"
_SHORT: Final = re.compile(
    rf"(?<!\S)(-[kK][ \t]+)({_LOOKS_SECRET})"
    r"|(?<!\S)(-u[ \t]+[^\s:/]+:)(?!//)([^\s\"']+)"
    r"|\b((?:sshpass[ \t]+-p|redis-cli[ \t]+-a|login[ \t]+-[pt]|(?:mysql|mysqldump|mariadb)[ \t]+-p)[ \t]*)([^\s\"']+)"
)
_SHORT_NAME: Final = frozenset(("-k", "-K"))
_SHORT_VALUE: Final = re.compile(_LOOKS_SECRET)
_OPTION_NAME: Final = re.compile(rf"(?i)--?{_NAME}")
_SECRET_NAME: Final = re.compile(rf"(?i){_NAME}|(?:proxy-)?authorization|x-auth[\w-]*")


def redact(text: str) -> str:
    """The text without what looks like a secret. Redacting twice changes nothing more."""
    text = _URL_LOGIN.sub(f"{HIDDEN}@", text)
    text = _AUTHORIZATION.sub(rf"\g<1>\g<2>{HIDDEN}", text)
    text = _COOKIE.sub(rf"\g<1>\g<2>{HIDDEN}", text)
    text = _AUTH_HEADER.sub(rf"\g<1>\g<2>{HIDDEN}", text)
    text = _QUERY.sub(rf"\g<1>{HIDDEN}", text)
    text = _SHORT.sub(_hide_short, text)
    text = _OPTION.sub(_hide_option, text)
    text = _ASSIGNED.sub(_hide_value, text)
    text = _AFTER_COLON.sub(_hide_value, text)
    text = _SCHEME.sub(rf"\g<1>{HIDDEN}", text)
    return _KNOWN_SHAPES.sub(HIDDEN, text)


def redact_argv(argv: Sequence[str]) -> list[str]:
    """A command line's words without secrets: also every value that follows a secret option (``--api-key A B``)."""
    shown: list[str] = []
    secret = False
    before = ""
    for word in argv:
        short = before
        before = word
        if word.startswith("-"):
            secret = _OPTION_NAME.fullmatch(word) is not None
            shown.append(redact(word))
        elif secret or (short in _SHORT_NAME and _SHORT_VALUE.fullmatch(word)):
            shown.append(HIDDEN)
        elif short == "-u" and ":" in word and "://" not in word:
            shown.append(f"{word.partition(':')[0]}:{HIDDEN}")
        else:
            shown.append(redact(word))
    return shown


def redact_line(line: Line) -> Line:
    """The line with every text of it that came from outside redacted; source ids stay, they tie lines together."""
    match line:
        case Source():
            return replace(
                line,
                entity=_walk(line.entity),
                unsupported=_walk(line.unsupported),
                says=redact(line.says),
            )
        case Event():
            return replace(line, says=redact(line.says), data=_walk(line.data))
        case Health():
            return replace(line, says=redact(line.says))
        case Hole():
            return replace(line, reason=redact(line.reason))
        case Verdict():
            return replace(line, valley=_walk(line.valley))
        case _:
            return line


def _hide_value(match: re.Match[str]) -> str:
    name, value = (match[1], match[2]) if match[1] is not None else (match[3], match[4])
    quote = value[0] if value[0] in "\"'" else ""
    return f"{name}{quote}{HIDDEN}{quote}"


def _hide_short(match: re.Match[str]) -> str:
    return f"{match[1] or match[3] or match[5]}{HIDDEN}"


def _hide_option(match: re.Match[str]) -> str:
    return _hide_value(match) + re.sub(r"\S+", HIDDEN, match[3])


def _walk(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {
            key: HIDDEN if isinstance(inner, str) and _SECRET_NAME.fullmatch(key) else _walk(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return redact_argv(value) if all(isinstance(item, str) for item in value) else [_walk(item) for item in value]
    return value
