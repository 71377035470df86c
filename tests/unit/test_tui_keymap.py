"""Keys that a user chose: what they are called, who has them, and what nobody can take away."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.keys import KEY_NAME_REPLACEMENTS, _character_to_key

from gaptop.tui.keymap import BadKey, changed, hints, in_force, key_named, keys_named, shown, shown_all, usual
from gaptop.tui.keys import KEYS


def test_every_character_has_textuals_name() -> None:
    for character in string.printable.strip():
        assert key_named(character) == _character_to_key(character)
    for name in KEY_NAME_REPLACEMENTS.values():
        assert key_named(name) == name


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("Space", "space"),
        ("PgUp", "pageup"),
        ("esc", "escape"),
        ("Return", "enter"),
        ("Ctrl+K", "ctrl+k"),
        ("shift+n", "N"),
        ("shift+left", "shift+left"),
        ("shift+ctrl+a", "ctrl+shift+a"),
        ("ctrl+i", "tab"),
        ("ctrl+[", "escape"),
        ("ä", "ä"),
    ],
)
def test_what_people_write_is_understood(given: str, meant: str) -> None:
    assert key_named(given) == meant


@pytest.mark.parametrize("given", ["", "foo", "ctrl+", "ctr+k", "f25", "\x07", "ctrl+foo", "n m"])
def test_what_is_no_key_is_told(given: str) -> None:
    with pytest.raises(BadKey, match="no key|needs a key"):
        keys_named(given)


def test_lists() -> None:
    assert keys_named("space, p ,p") == ("space", "p")
    assert keys_named(",") == ("comma",)
    assert keys_named("comma") == ("comma",)


def test_each_key_of_the_table_is_there_once_and_is_a_key() -> None:
    keys = [key for one in KEYS for key in one.keys]
    assert len(keys) == len(set(keys))
    assert len({one.id for one in KEYS}) == len(KEYS)
    for one in KEYS:
        assert tuple(map(key_named, one.keys)) == one.keys
        assert one.tooltip


def test_nothing_chosen_changes_nothing() -> None:
    force, refused = in_force({})
    assert (force, refused) == (usual(), {})
    assert changed(force) == {}


def test_a_key_goes_from_whoever_keeps_another() -> None:
    force, refused = in_force({"snapshot": ("p",)})
    assert refused == {}
    assert changed(force) == {"snapshot": "p", "pause": "space"}


def test_two_may_change_their_keys() -> None:
    force, refused = in_force({"next_valley": ("N",), "previous_valley": ("n",)})
    assert refused == {}
    assert changed(force) == {"next_valley": "N", "previous_valley": "n"}


@given(
    st.dictionaries(
        st.sampled_from(list(usual())),
        st.lists(
            st.sampled_from(
                ["p", "n", "N", "f9", "f5", "escape", "ctrl+c", "q", "space", "ctrl+p", "question_mark", "f1"]
            ),
            min_size=1,
            max_size=3,
            unique=True,
        ).map(tuple),
        max_size=6,
    )
)
def test_whatever_is_chosen_everything_keeps_a_key_of_its_own(own: dict[str, tuple[str, ...]]) -> None:
    force, refused = in_force(own)
    keys = [key for each in force.values() for key in each]
    assert len(keys) == len(set(keys))
    assert all(force.values())
    assert force["quit_now"] == ("ctrl+c", "ctrl+q")
    assert "escape" not in {key for name, each in force.items() if name != "back" for key in each}
    for name, each in own.items():
        assert name in refused or force[name] == each


def test_the_footer_has_the_keys_in_force() -> None:
    told = {hint.id: keys for hint, keys in hints(usual())}
    assert (told["next_valley"], told["zoom_in"], told["pan_left"]) == ("n/N", "+ - =", "arrows")
    told = {hint.id: keys for hint, keys in hints(in_force({"pause": ("f5",), "pan_left": ("f6",)})[0])}
    assert (told["pause"], told["pan_left"]) == ("f5", "f6/right")


def test_keys_are_shown_as_people_read_them() -> None:
    assert shown("question_mark") == "?"
    assert shown("shift+left") == "shift+←"
    assert shown_all(("shift+left", "comma", "N"), ascii_only=True) == "shift+left , N"
