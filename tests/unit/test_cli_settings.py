"""Settings: one precedence for all of them, and what is wrong with one is a sentence with its place."""

from __future__ import annotations

import itertools
import json
import tempfile
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from gaptop.cli import in_force as in_force_module
from gaptop.cli.exits import Exit, Stop
from gaptop.cli.in_force import Settings, settings
from gaptop.cli.look import Look, look_options
from gaptop.cli.main import cli
from gaptop.cli.setting_kinds import LANES, Choice, FilePath, KeyList, Lanes, Number, Switch, Text, Words, Zone
from gaptop.cli.settings import MEANT, SETTINGS, Setting
from gaptop.cli.target import Target, target_options
from gaptop.tui.feed import ScreenOptions

MANY = hypothesis_settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
KEYS = [
    [f"{modifier}+f{number}" for modifier in modifiers for number in range(1, 25)]
    for modifiers in (("ctrl", "alt", "ctrl+alt", "super"), ("hyper", "meta", "ctrl+hyper", "ctrl+meta"))
]
WORD = st.text("abXY09äß", min_size=1, max_size=5)


def values(setting: Setting, source: int) -> st.SearchStrategy[Any]:
    """What may be given to that setting; keys are another one for each setting and source, for they may not clash."""
    kind = setting.kind
    if isinstance(kind, KeyList):
        return st.just((KEYS[source][list(SETTINGS).index(setting.name)],))
    if isinstance(kind, Switch):
        return st.booleans()
    if isinstance(kind, Number):
        return st.floats(kind.low, kind.high)
    if isinstance(kind, Choice):
        return st.sampled_from(kind.words)
    if isinstance(kind, Zone):
        return st.sampled_from(("local", "UTC"))
    if isinstance(kind, Lanes):
        return st.lists(st.sampled_from(list(LANES)), min_size=1, unique=True).map(tuple)
    if isinstance(kind, Words):
        return st.lists(WORD, min_size=1, max_size=3).map(tuple)
    assert isinstance(kind, Text)
    return WORD


def as_toml(value: object) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


def as_variable(setting: Setting, value: object) -> str:
    if isinstance(value, tuple):
        return ("," if isinstance(setting.kind, Lanes | KeyList) else "\n").join(value)
    return str(value)


def file_of(given: dict[str, object]) -> str:
    """As a user writes it: what has no section comes first."""
    lines = sorted(given, key=lambda name: (SETTINGS[name].section, name))
    text, section = "", ""
    for name in lines:
        if SETTINGS[name].section != section:
            section = SETTINGS[name].section
            text += f"[{section}]\n"
        text += f"{SETTINGS[name].key} = {as_toml(given[name])}\n"
    return text


PICK = st.lists(st.sampled_from(list(SETTINGS)), max_size=len(SETTINGS), unique=True)


@MANY
@given(data=st.data(), in_environment=PICK, in_file=PICK)
def test_the_environment_counts_before_the_file_and_that_before_the_default(
    data: st.DataObject, in_environment: list[str], in_file: list[str]
) -> None:
    environ = {name: data.draw(values(SETTINGS[name], 0)) for name in in_environment}
    filed = {name: data.draw(values(SETTINGS[name], 1)) for name in in_file}
    variables = {SETTINGS[name].variable: as_variable(SETTINGS[name], value) for name, value in environ.items()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "c.toml"
        path.write_text(file_of(filed), encoding="utf-8")
        read = settings(str(path), variables)
        for name, setting in SETTINGS.items():
            found = read.found[name]
            if name in environ:
                assert (found.value, found.origin, found.place) == (environ[name], "environment", setting.variable)
            elif name in filed:
                relative = isinstance(setting.kind, FilePath)
                expected = str(path.parent / filed[name]) if relative else filed[name]
                assert (found.value, found.origin) == (expected, "file")
                line = int(found.place.removeprefix(f"{path}:"))
                assert path.read_text(encoding="utf-8").split("\n")[line - 1].startswith(f"{setting.key} = ")
            else:
                assert (found.value, found.origin) == (setting.default, "default")


@click.command()
@target_options
@look_options
def show(target: Target, look: Look) -> None:
    click.echo(
        json.dumps(
            {
                **{"url": list(target.addresses), "threads": target.threads, "gil": target.gil, "ca": target.ca_file},
                **{"gpu": target.gpu, "host": target.host, "insecure": target.insecure, "dcgm": list(target.dcgm)},
                **{"token_file": target.headers.get("Authorization"), "header": target.headers.get("X-A")},
                **{"theme": look.theme, "colours": look.colours, "symbols": look.symbols, "mouse": look.mouse},
            }
        )
    )


TYPED = [
    ("url", ["http://a:1"], ["http://a:1"], ["http://b:1"], ["http://c:1"]),
    ("threads", ["--threads", "fast"], "fast", "off", "auto"),
    ("gil", ["--gil"], True, False, True),
    ("gil", ["--no-gil"], False, True, True),
    ("gpu", ["--gpu"], True, False, False),
    ("gpu", ["--no-gpu"], False, True, False),
    ("host", ["--no-host"], False, True, True),
    ("insecure", ["--insecure"], True, False, False),
    ("insecure", ["--secure"], False, True, True),
    ("ca", ["--ca", "/dev/null"], "/dev/null", "/proc/stat", "/proc/uptime"),
    ("dcgm", ["--dcgm", "a"], ["a"], ["b"], ["c"]),
    ("theme", ["--theme", "nord"], "nord", "dracula", "gruvbox"),
    ("colours", ["--colors", "16"], "16", "256", "none"),
    ("symbols", ["--symbols", "block"], "block", "braille", "ascii"),
    ("symbols", ["--ascii"], "ascii", "braille", "block"),
    ("mouse", ["--mouse"], True, False, False),
    ("mouse", ["--no-mouse"], False, True, True),
]


@pytest.mark.parametrize(("name", "flag", "typed", "variable", "filed"), TYPED)
def test_the_command_line_counts_before_all_others(
    tmp_path: Path, name: str, flag: list[str], typed: object, variable: object, filed: object
) -> None:
    setting = SETTINGS[name]
    unset = json.loads(CliRunner().invoke(show).output)[name]
    for on_line, in_environment, in_file in itertools.product((True, False), repeat=3):
        path = tmp_path / "c.toml"
        path.write_text(file_of({name: filed}) if in_file else "")
        given = variable[0] if isinstance(variable, list) else str(variable)
        result = CliRunner(env={setting.variable: given if in_environment else None}).invoke(
            show, ["--config", str(path), *(flag if on_line else [])]
        )
        assert result.exit_code == 0, result.output
        expected = typed if on_line else variable if in_environment else filed if in_file else unset
        assert json.loads(result.stdout)[name] == expected


def test_secrets_of_a_file_are_found_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    (tmp_path / "token").write_text("abc")
    path.write_text(f'token_file = "token"\nheader = ["X-A=@{tmp_path / "token"}"]\n')
    told = json.loads(CliRunner().invoke(show, ["--config", str(path)]).stdout)
    assert (told["token_file"], told["header"]) == ("Bearer abc", "abc")


def test_an_empty_variable_is_none() -> None:
    assert settings(None, {"GAPTOP_THEME": ""}).found["theme"].origin == "default"


WRONG = [
    ('thme = "nord"', 1, "thme is no setting; did you mean theme?"),
    ('\ntheme = "nrd"', 2, "theme cannot be 'nrd'; did you mean 'nord'?"),
    ("theme = 3", 1, "theme cannot be 3; it is one of auto, "),
    ("ascii = true", 1, 'use symbols = "ascii"'),
    ("fps = 3", 1, "use frames_per_second"),
    ('mouse = "no"', 1, "mouse cannot be 'no'; it is true or false."),
    ("frames_per_second = 99", 1, "a number from 0.5 to 30"),
    ("frames_per_second = true", 1, "frames_per_second cannot be true"),
    ('timezone = "Mars"', 1, '"Europe/Berlin"'),
    ('timezone = "../../etc/passwd"', 1, '"Europe/Berlin"'),
    ("dcgm = [1]", 1, "a list of texts"),
    ("url = 8000", 1, "a list of texts"),
    ("lanes = 3", 1, "write [lanes] in a line of its own"),
    ('[lanes]\nfold = ["powr"]', 2, "'powr' is no lane; did you mean 'power'?"),
    ("[lanes]\nfold = [12]", 2, "12 is no lane; it is one of devices, "),
    ('[keys]\n\npause = "spce"', 3, "'spce' is no key; did you mean space?"),
    ("[keys]\npause = 3", 2, "keys in quotes"),
    ("[keys]\npause = []", 2, "it needs a key"),
    ('[keys]\npaus = "f9"', 2, "did you mean keys.pause?"),
    ('[keys]\nsnapshot = "n"', 2, "n is the only key of next_valley"),
    ('[keys]\nsnapshot = "f9"\nlive = "f9"', 3, "f9 is given to snapshot as well"),
    ('[keys]\nquit = "escape"', 2, "Esc only ever leads back"),
    ('[keys]\nhelp = "ctrl+c"', 2, "ctrl+c always quits"),
    ('[keys]\nquit_now = "x"', 2, "ctrl+c and ctrl+q always quit"),
    ('[keys]\ntheme = "nord"', 2, "theme is one, and stands above the first line in brackets"),
    ('theme "nord"', 1, "this is no TOML (Expected '=' after a key in a key/value pair)"),
    ("theme = ", 1, "this is no TOML"),
    (
        'theme = "a"\ntheme = "b"\n# end',
        2,
        "this is no TOML (Cannot overwrite a value: the same is set above); correct",
    ),
    ("theme = nord\n# end", 1, "this is no TOML (Invalid value: text stands in quotes); correct that line."),
    (
        'theme = """nord\n\n',
        1,
        "(Unterminated string), which shows at the end of the file; correct what begins in that",
    ),
    ('threads = "off"\nurl = ["a",\n "b"\n\n', 3, "(Unclosed array), which shows at the end of the file; correct what"),
    ('theme = "dark"', 1, "did you mean 'ansi-dark' or 'atom-one-dark' or 'solarized-dark' or 'textual-dark'?"),
    ('theme = "solarised"', 1, "did you mean 'solarized-dark' or 'solarized-light'?"),
    ('colours = "256color"', 1, "did you mean '256'?"),
    ("frames = 3", 1, "did you mean frames_per_second?"),
    ('[lane]\nfold = ["kv"]', 1, "lane is no setting; did you mean [lanes]?"),
    ("a.b.c = 3", 1, "a is no setting; gaptop config tells all there are."),
    ('[keys]\nfoo = "f9"', 2, "keys.foo is no setting; gaptop config tells all there are."),
    ('[keys]\nleft = "f9"', 2, "did you mean keys.pan_left or keys.page_left or keys.cursor_left?"),
    ('[keys]\nsave = "f9"', 2, "keys.save is no setting; use keys.snapshot."),
    ('[keys]\nquit = "foo"', 2, "'foo' is no key; write it like p, space, ctrl+k or f5."),
    ('# \xe4\ntheme = "\udcff"', 2, "no UTF-8 text"),
]


@pytest.mark.parametrize(("text", "line", "says"), WRONG)
def test_what_is_wrong_in_a_file_is_a_sentence_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, line: int, says: str
) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes((text + "\n").encode(errors="surrogateescape"))
    with pytest.raises(Stop) as stop:
        settings(str(path), {})
    assert stop.value.exit_code == Exit.USAGE
    assert stop.value.message.startswith(f"{path}:{line}: ")
    assert says in stop.value.message
    assert stop.value.message.endswith((".", "?"))
    assert "\n" not in stop.value.message
    # The same in the configuration folder: said, left out, and nothing else is lost.
    monkeypatch.setattr(in_force_module, "config_file", lambda: path)
    read = settings(None, {})
    assert read.wrong == (f"{stop.value.message} It is left out.",)
    left = {name for name, found in read.found.items() if found.origin != "default"}
    assert left <= {"keys.snapshot"}, "of two that want the same key the first has it"


def test_a_path_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path, why in ((tmp_path / "no.toml", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(Stop, match=why):
            settings(str(path), {})
    monkeypatch.setattr(in_force_module, "config_file", lambda: tmp_path / "no.toml")
    assert settings(None, {}).wrong == (), "nobody need have one"
    monkeypatch.setattr(in_force_module, "config_file", lambda: tmp_path)
    assert "Is a directory" in settings(None, {}).wrong[0]
    monkeypatch.setattr(in_force_module, "config_file", lambda: None)
    assert settings(None, {}).path is None


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_bytes(b"#" * 1_000_001)
    with pytest.raises(Stop, match="larger than a configuration can be"):
        settings(str(path), {})
    path.write_text("a = " + "[" * 100_000)
    with pytest.raises(Stop, match="nested too deeply|no TOML"):
        settings(str(path), {})


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("GAPTOP_THEME", "nrd", "did you mean 'nord'?"),
        ("GAPTOP_MOUSE", "maybe", "1 or 0"),
        ("GAPTOP_FRAMES_PER_SECOND", "x", "from 0.5 to 30"),
        ("GAPTOP_KEYS_HELP", "ctrl+c", "always quits"),
    ],
)
def test_a_wrong_variable_ends_gaptop_in_one_sentence(name: str, value: str, says: str) -> None:
    with pytest.raises(Stop) as stop:
        settings(None, {name: value})
    assert stop.value.exit_code == Exit.USAGE
    assert name in stop.value.message
    assert says in stop.value.message


def test_a_variable_wins_a_key_from_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c.toml"
    path.write_text('[keys]\nlive = "f9"\n')
    monkeypatch.setattr(in_force_module, "config_file", lambda: path)
    read = settings(None, {"GAPTOP_KEYS_SNAPSHOT": "f9"})
    assert (read.keys["snapshot"], read.keys["live"]) == (("f9",), ("end", "L"))
    assert "f9 is given to snapshot as well" in read.wrong[0]


def test_the_named_file_is_that_of_the_option_before_that_of_the_variable(tmp_path: Path) -> None:
    for name in ("nord", "dracula"):
        (tmp_path / f"{name}.toml").write_text(f'theme = "{name}"')
    environ = {"GAPTOP_CONFIG": str(tmp_path / "nord.toml")}
    assert settings(None, environ)["theme"] == "nord"
    assert settings(str(tmp_path / "dracula.toml"), environ)["theme"] == "dracula"
    assert settings("/dev/null", environ)["theme"] == "auto"


def test_what_people_call_a_setting_is_none_and_leads_to_one() -> None:
    for word, meant in MEANT.items():
        assert word not in SETTINGS
        assert meant.split(";")[0].split(" ")[0] in SETTINGS


def screen(read: Settings) -> ScreenOptions:
    return Look("auto", "auto", "auto", True, read["sweep"], read).screen_options("log", "1")


def test_the_screen_is_told_all_of_it() -> None:
    environ = {
        **{"GAPTOP_FRAMES_PER_SECOND": "2", "GAPTOP_SWEEP": "on", "GAPTOP_TIMEZONE": "UTC"},
        **{"GAPTOP_LANES_FOLD": "power, 8", "GAPTOP_LANES_ORDER": "kv,Engine threads", "GAPTOP_KEYS_PAUSE": "f5"},
    }
    options = screen(settings("/dev/null", environ))
    assert (options.fps, options.sweep, str(options.timezone)) == (2.0, "on", "UTC")
    assert (set(options.folded), options.order) == ({2, 8}, (6, 7))
    assert options.keys["pause"] == ("f5",)
    assert screen(settings("/dev/null", {})).timezone is None


def test_the_screen_says_what_is_wrong_with_the_words_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config.toml"
    path.write_text("thme = 1")
    monkeypatch.setattr(in_force_module, "config_file", lambda: path)
    assert screen(settings(None, {})).notices == (
        "config.toml:1: thme is no setting; did you mean theme? It is left out.",
    )


def test_every_command_that_heeds_settings_takes_a_file(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text("thme = 1")
    recording = str(Path(__file__).parent.parent / "data" / "lab" / "tour.gaptop")
    for arguments in (
        ["http://a"],
        ["record"],
        ["doctor"],
        ["open", recording],
        ["report", recording],
        ["demo", "steady", "--json"],
        ["export", recording, "--as", "folded"],
        ["config"],
    ):
        result = CliRunner().invoke(cli, [*arguments, "--config", str(path)])
        assert result.exit_code == Exit.USAGE, arguments
        assert "did you mean theme?" in str(result.exception) + result.output, arguments
