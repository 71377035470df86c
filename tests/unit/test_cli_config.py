"""``gaptop config``: every setting, its value, and where it came from; nothing that a terminal obeys, no secret."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gaptop.cli.exits import Exit
from gaptop.cli.main import cli
from gaptop.cli.settings import SETTINGS

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configuration file, which is not there yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "gaptop").mkdir()
    return tmp_path / "gaptop" / "config.toml"


def run(*arguments: str, **environ: str) -> Result:
    return CliRunner(env=environ).invoke(cli, ["config", *arguments])


def rows(result: Result) -> dict[str, tuple[str, str]]:
    """Value and origin by name."""
    assert result.exit_code == 0, result.output
    found = {}
    for line in result.stdout.split("\n"):
        if match := re.fullmatch(r"(\S+) += (.*\S) +# (.+)", line):
            found[match[1]] = (match[2], match[3])
    return found


def test_each_setting_is_shown_with_where_it_came_from(home: Path) -> None:
    told = rows(run())
    assert list(told) == list(SETTINGS)
    assert {origin for _, origin in told.values()} == {"default"}
    assert told["keys.pause"] == ('"space,p"', "default")
    home.write_text('theme = "nord"\n\n[lanes]\nfold = ["power"]\n')
    told = rows(run(GAPTOP_MOUSE="off", GAPTOP_KEYS_SNAPSHOT="p"))
    assert told["theme"] == ('"nord"', f"{home}:1")
    assert told["lanes.fold"] == ('["power"]', f"{home}:4")
    assert told["mouse"] == ("false", "GAPTOP_MOUSE")
    assert told["keys.pause"] == ('"space"', "default"), "what is in force, without the key that went away"


def test_what_it_shows_is_a_configuration(home: Path) -> None:
    home.write_text('theme = "nord"\n[keys]\ncursor_left = ","\n')
    shown = run().stdout
    again = home.with_name("again.toml")
    again.write_text(shown)
    values = {name: value for name, (value, _) in rows(run("--config", str(again))).items()}
    assert values == {name: value for name, (value, _) in rows(run()).items()}
    assert values["keys.cursor_left"] == '"comma"'


def test_path(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("--path").stdout == f"{home}\n"
    named = home.with_name("other.toml")
    named.write_text("")
    assert run("--path", GAPTOP_CONFIG=str(named)).stdout == f"{named}\n"
    monkeypatch.setattr("gaptop.cli.in_force.config_file", lambda: None)
    result = run("--path")
    assert result.exit_code == Exit.UNREADABLE


def test_json(home: Path) -> None:
    home.write_text('frames_per_second = 2\nthme = "x"\n')
    result = run("--json", GAPTOP_THREADS="fast")
    told: dict[str, Any] = json.loads(result.stdout)
    assert (told["schema"], told["path"], told["exists"]) == (1, str(home), True)
    assert told["settings"]["frames_per_second"] == {
        **{"value": 2.0, "default": 4.0, "origin": "file", "place": f"{home}:1"},
        "variable": "GAPTOP_FRAMES_PER_SECOND",
    }
    assert told["settings"]["threads"]["place"] == "GAPTOP_THREADS"
    assert told["settings"]["lanes.fold"]["value"] == []
    assert told["wrong"] == [f"{home}:2: thme is no setting; did you mean theme? It is left out."]
    assert result.stderr == f"gaptop: {told['wrong'][0]}\n"


def test_the_default_file_can_be_saved_and_says_what_is_so(home: Path) -> None:
    text = run("--default").stdout
    assert tomllib.loads(text) == {"lanes": {}, "keys": {}}
    home.write_text(text)
    assert {origin for _, origin in rows(run()).values()} == {"default"}
    # Every line that is a setting, without its #: nothing changes but where it came from.
    home.write_text(re.sub(r"(?m)^# (?=\w+ = )", "", text))
    read = rows(run())
    assert all(place.startswith(f"{home}:") for _, place in read.values())
    home.write_text("")
    assert {name: value for name, (value, _) in read.items()} == {
        name: value for name, (value, _) in rows(run()).items()
    }
    assert max(map(len, text.split("\n"))) <= 120
    assert text.isascii()


def test_a_mistaken_variable_is_told() -> None:
    assert run(GAPTOP_THEM="nord").stderr == (
        "gaptop: the variable GAPTOP_THEM says nothing to gaptop; did you mean GAPTOP_THEME?\n"
    )
    assert run(GAPTOP_VENV="x", GAPTOP_CONFIG="/dev/null").stderr == ""


def test_only_one_form_at_a_time() -> None:
    assert run("--json", "--path").exit_code == Exit.USAGE


def test_a_file_cannot_speak_to_the_terminal_and_secrets_stay(home: Path) -> None:
    home.write_text(
        'url = "http://me:hunter2@host:1/\\u001b[2J"\ndcgm = ["https://me:hunter2@host"]\ntoken_file = "\\u009b31m"\n'
        '"\\u001b[31m" = 1\n'
    )
    for arguments in ((), ("--json",)):
        result = run(*arguments)
        assert "http://***@host:1" in result.stdout
        assert "hunter2" not in result.output
        assert not set("\x1b\x9b") & set(result.output)


def test_a_wrong_file_that_was_named_is_refused(home: Path) -> None:
    home.write_text("thme = 1")
    assert run().exit_code == 0
    result = run("--config", str(home))
    assert result.exit_code == Exit.USAGE
    assert result.stdout == ""


def test_the_readmes_example_is_a_configuration(home: Path) -> None:
    blocks = [block for block in README.read_text().split("```") if "[keys]" in block]
    assert len(blocks) == 1
    home.write_text(blocks[0].removeprefix("toml"))
    result = run()
    assert result.stderr == ""
    assert rows(result)["theme"][1] == f"{home}:2"
