"""The sweep: columns at fixed places, and when the picture is swept by itself."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaptop.tui import link, palette
from gaptop.tui.cells import Row, row_of
from gaptop.tui.link import PATIENCE, Link
from gaptop.tui.position import Position
from gaptop.tui.sweep import GAP, Places, SweepMode
from gaptop.tui.terminal import Meter
from gaptop.tui.unhurried import Unhurried
from gaptop.tui.view import View
from gaptop.tui.widgets.picture import changed_until

_VIEWS = st.builds(View, st.integers(0, 20), st.integers(1, 250), st.integers(-300, 10**7), st.booleans())
_PLACES = st.builds(Places, _VIEWS, st.booleans())


@given(_PLACES)
def test_every_place_shows_one_column_and_every_column_seen_has_one_place(places: Places) -> None:
    view = places.view
    seen = [column for column in range(view.first - 2, view.right + 3) if places.place(column) is not None]
    assert seen == list(range(view.first + places.gap, view.right + 1))
    found = [places.place(column) for column in seen]
    assert len(set(found)) == len(seen) == view.columns - places.gap
    assert [places.column(place) for place in found if place is not None] == seen
    for place in set(range(view.columns)) - set(found):
        assert places.column(place) == view.right, "the gap stands for the newest"


@given(_PLACES)
def test_cells_stand_where_their_columns_are(places: Places) -> None:
    view = places.view
    arranged = places.arrange(list(range(view.first, view.right + 1)), [None] * GAP)
    assert len(arranged) == view.columns
    for place, column in enumerate(arranged):
        assert column is None or (places.place(column), places.column(place)) == (place, column)


@given(st.integers(10, 200), st.integers(-50, 10**6), st.integers(1, 5))
def test_a_sweep_leaves_all_columns_where_they_are(columns: int, right: int, steps: int) -> None:
    before = Places(View(10, columns, right, True), True)
    after = Places(View(10, columns, right + steps, True), True)
    kept = range(after.view.first + after.gap, right + 1)
    assert [before.place(column) for column in kept] == [after.place(column) for column in kept]


@given(st.integers(20, 200), st.floats(0, 5000), st.data())
def test_what_is_under_the_pointer_stays_there_when_it_ends_the_sweep(
    columns: int, now: float, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, columns - 1))
    position = Position(columns, now)
    position.sweep = True
    column = position.places.column(place)
    position.point_at(place, None)
    assert not position.places.sweeping
    assert position.cursor == position.view.time_at(column)
    assert position.places.place(column) == place
    position = Position(columns, now)
    position.sweep = True
    seconds, t = position.view.seconds, position.view.time_at(position.places.column(place))
    position.zoom_at(1, place, now)
    assert position.view.seconds < seconds
    assert position.view.column_at(t) - position.view.first == place


def test_a_drag_across_a_sweep_selects_what_it_began_on() -> None:
    position = Position(120, 330.0)
    position.sweep = True
    assert position.places.place(position.view.right) == 60
    first = position.places.column(20)
    for last in (21, 25, 30):
        position.drag(20, last)
    seconds = position.view.seconds
    assert position.selected == (first * seconds, (first + 11) * seconds)


@pytest.mark.parametrize(("chosen", "on"), [("auto", False), ("off", False), ("on", True)])
def test_the_picture_is_swept_as_chosen(chosen: str, on: bool) -> None:
    assert SweepMode(chosen).on == on


def after(mode: SweepMode, queued: list[int | None], step: float = 0.5) -> list[bool]:
    answers = iter(queued)
    mode.watch(Link(lambda: next(answers)))
    return [mode.turned_on(step * index) for index in range(len(queued))]


def test_a_link_that_never_keeps_up_has_the_picture_swept_once() -> None:
    frames = round(PATIENCE / 0.5) + 1
    mode = SweepMode("auto")
    assert after(mode, [900] * (frames + 5)) == [False] * (frames - 1) + [True] + [False] * 5
    assert mode.on


def test_a_link_that_keeps_up_now_and_then_or_is_not_known_is_left_alone() -> None:
    assert not any(after(SweepMode("auto"), [900, 900, 900, 0] * 20))
    assert not any(after(SweepMode("auto"), [None] * 40))
    assert not any(after(SweepMode("off"), [900] * 40))
    mode = SweepMode("auto")
    mode.choose(False)
    assert not any(after(mode, [900] * 40)), "the user's word counts"


@pytest.fixture(params=["127.0.0.1", "::1"])
def connection(request: pytest.FixtureRequest) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection on this host, the server's first."""
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    try:
        listener = socket.create_server((request.param, 0), family=family)
    except OSError as error:
        pytest.skip(f"no {request.param} here: {error}")
    with closing(listener), socket.create_connection(listener.getsockname()[:2]) as client:
        server, _ = listener.accept()
        with server:
            yield server, client


def environ(server: socket.socket) -> dict[str, str]:
    """What sshd tells its children."""
    (client, client_port), (own, own_port) = server.getpeername()[:2], server.getsockname()[:2]
    return {"SSH_CONNECTION": f"{client} {client_port} {own} {own_port}"}


def test_the_kernel_tells_what_a_connection_has_not_delivered(
    connection: tuple[socket.socket, socket.socket],
) -> None:
    server, client = connection
    seen = link.remote(environ(server))
    assert seen is not None
    if seen._queued() is None:
        pytest.skip("this kernel does not answer about sockets")
    assert seen._queued() == 0
    server.setblocking(False)
    sent = 0
    try:
        while True:
            sent += server.send(bytes(65536))
    except BlockingIOError:
        queued = seen._queued()
    assert queued is not None
    assert 0 < queued <= sent
    assert [seen.is_slow(t) for t in (0.0, PATIENCE / 2, PATIENCE)] == [False, False, True]
    server.setblocking(True)
    while sent > 0:
        sent -= len(client.recv(1 << 20))
    assert not seen.is_slow(PATIENCE + 1)


@pytest.mark.parametrize(
    "connection_says", ["", "10.0.0.1 5 10.0.0.2", "a b c d", "10.0.0.1 99999 10.0.0.2 22", "fe80::1%eth0 5 fe80::2 22"]
)
def test_what_is_no_connection_is_not_slow(connection_says: str) -> None:
    seen = link.remote({"SSH_CONNECTION": connection_says})
    assert seen is None or not any(seen.is_slow(t) for t in (0.0, PATIENCE, 2 * PATIENCE))


def test_a_listening_socket_is_not_taken_for_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        seen = link.remote({"SSH_CONNECTION": f"127.0.0.1 {port} 127.0.0.1 {port}"})
        assert seen is not None
        assert seen._queued() is None


def test_bytes_of_the_last_seconds_and_on_average() -> None:
    now = 100.0
    meter = Meter(lambda: now)
    meter.count(40_000)
    assert meter.says() == "400k bytes/s on average"
    for second in range(1, 21):
        now = 100.0 + second
        meter.count(600)
        meter.count(400)
    assert meter.says() == "1k bytes/s in the last 10 s, 3k bytes/s on average"
    now += 5.0
    assert meter.says() == "600 bytes/s in the last 10 s, 2.4k bytes/s on average"
    now += 500.0
    assert meter.says().startswith("0 bytes/s in the last 10 s")


def test_figures_that_always_move_are_made_once_a_second_unless_there_is_a_hurry() -> None:
    now, made = 0.0, 0

    def make() -> int:
        nonlocal made
        made += 1
        return made

    lines: Unhurried[int] = Unhurried(lambda: now)
    assert [lines.of("a", make, hurry=False) for _ in range(3)] == [1, 1, 1]
    assert lines.of("b", make, hurry=False) == 2
    assert lines.of("b", make, hurry=True) == 3
    now = 0.9
    assert lines.of("b", make, hurry=False) == 3
    now = 1.0
    assert lines.of("b", make, hurry=False) == 4


def test_a_changed_line_is_sent_up_to_its_last_change() -> None:
    plain = palette.PLAIN
    before: Row = row_of("abcdefgh", plain)
    assert changed_until(before, list(before)) == 0
    assert changed_until(before, row_of("abXdefgh", plain)) == 3
    assert changed_until(before, row_of("abcdefgX", plain)) == 8
    assert changed_until(before, row_of("abXdefgh", palette.BOLD)) == 8
    assert changed_until(before, row_of("defgh", plain)) == 5, "the screen became narrower"
    assert changed_until(before, row_of("0abcdefgh", plain)) == 9, "or wider"
    wide = row_of("ab語efgh", plain)
    assert changed_until(row_of("ab言efgh", plain), wide) == 4, "a wide character is not halved"
