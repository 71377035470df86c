"""``gaptop web`` in a real browser: the same screen, its keys, its end, and nobody else who may look."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Browser, ConsoleMessage, Request, sync_playwright

from gaptop.lab.launch import LabInfo
from tests.e2e.browser import FLAGS, Served, Shown, chromium
from tests.e2e.processes import alive, family, wait_for, with_words
from tests.e2e.terminal import GAPTOP
from tests.fakes import vllm_process

SOON = 8.0
STRANGE = "a 'b' $(touch pwned);&<i>c.gaptop"
"""Whoever made a recording chose its name: neither a shell nor the page may take it for anything else."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS, timeout=60_000)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("made") / "run.gaptop"
    command = [GAPTOP, "lab", "run", "cache_pressure", "--seconds", "15s", "-o", str(path)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return path.read_bytes()


@pytest.fixture
def recording(made: bytes, tmp_path: Path) -> Path:
    path = tmp_path / STRANGE
    path.write_bytes(made)
    return path


def pages(served: Served) -> list[int]:
    return with_words(family(served.process.pid), "gaptop.cli.page")


def test_a_recording_on_a_page(browser: Browser, recording: Path, tmp_path: Path) -> None:
    with Served(tmp_path, [recording.name]) as served, browser.new_context() as context:
        page = context.new_page()
        asked: list[Request] = []
        errors: list[ConsoleMessage] = []
        page.on("request", lambda request: asked.append(request))
        page.on("console", lambda told: errors.append(told) if told.type == "error" else None)
        shown = Shown(page, served.address)
        assert page.locator(".intro-dialog .intro div").text_content() == f"gaptop {STRANGE}"
        shown.until("SIMULATED", "vLLM", "busy", "KV used", "valleys", "LEDGER", "CACHE PRESSURE", "? help", "q quit")
        colours = shown.colours()
        assert len(colours) > 30, "a picture in colours"
        assert colours[0] < 0.95, "more than its background"
        loaded = [one.url for one in asked if one.failure is None]
        assert all(url.startswith(served.address) for url in loaded), loaded
        assert {one.failure for one in asked if one.url not in loaded} <= {"csp"}
        refused = [told.location["url"] for told in errors if "403" in told.text]
        assert set(refused) <= {f"{served.origin}/favicon.ico"}, "a browser asks for that by itself"
        others = [told.text for told in errors if told.location["url"] not in refused]
        assert not [text for text in others if "fonts.googleapis" not in text and "404" not in text]

        shown.press("?")
        shown.until("Keys", "read-only")
        shown.press("Escape")
        wide = len(max(shown.until("LEDGER").splitlines(), key=len))
        page.set_viewport_size({"width": 1000, "height": 700})
        wait_for(
            lambda: len(max(shown.until("LEDGER").splitlines(), key=len)) < 0.85 * wide, "the screen is drawn anew"
        )

        shown.press("s")
        shown.until("Snapshot written")
        assert list(tmp_path.glob("gaptop-*.gaptop")), "on the machine that serves, in the folder it was started in"
        shown.press("q")
        page.get_by_text("Session ended.").wait_for()
        wait_for(lambda: not pages(served), "its gaptop has ended")
        page.get_by_role("button", name="Restart").filter(visible=True).click()
        shown.until("LEDGER", "q quit")
    assert not (tmp_path / "pwned").exists()


def test_a_page_ends_with_its_tab(browser: Browser, steady_lab: LabInfo, tmp_path: Path) -> None:
    with Served(tmp_path, [steady_lab.url]) as served, browser.new_context() as context:
        shown = Shown(context.new_page(), served.address)
        shown.until("LIVE", "20 run")
        wait_for(lambda: with_words(family(served.process.pid), "py-spy record"), "threads are recorded")
        running = family(served.process.pid)
        assert with_words(running, "gaptop.probe")
        shown.page.close()
        wait_for(lambda: not any(alive(process.pid) for process in running), "all of the page has ended", SOON)
        assert served.process.poll() is None
        again = Shown(context.new_page(), served.address)
        again.until("LIVE", "20 run")
    assert all(alive(process.pid) for process in steady_lab.processes)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_the_end_of_the_server_ends_its_pages(
    browser: Browser, steady_lab: LabInfo, tmp_path: Path, number: signal.Signals
) -> None:
    with Served(tmp_path, [steady_lab.url]) as served, browser.new_context() as context:
        Shown(context.new_page(), served.address).until("LIVE")
        running = family(served.process.pid)
        assert with_words(running, "gaptop.probe")
        os.kill(served.process.pid, number)
        if number is signal.SIGINT:
            time.sleep(0.2)
            os.kill(served.process.pid, number)  # by somebody who does not want to wait
        code = served.process.wait(SOON)
        if number in (signal.SIGINT, signal.SIGTERM):
            assert code == 0
            assert served.process.communicate() == ("", "")
            assert not any(alive(process.pid) for process in running), "whoever waits for the server may rely on it"
        wait_for(lambda: not any(alive(process.pid) for process in running), "all of the page has ended", SOON)


def test_only_this_machine_is_listened_to(recording: Path, tmp_path: Path) -> None:
    with Served(tmp_path, [recording.name]) as served:
        own = psutil.Process(served.process.pid).net_connections("inet")
        listening = [connection.laddr for connection in own if connection.status == psutil.CONN_LISTEN]
        assert [f"http://{address.ip}:{address.port}" for address in listening] == [served.origin]
        assert served.origin.startswith("http://127.0.0.1:")


def test_another_site_cannot_open_a_screen(browser: Browser, recording: Path, tmp_path: Path) -> None:
    """Without the check a page from anywhere could, and press the keys that write files."""
    with ThreadingHTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        try:
            with Served(tmp_path, [recording.name]) as served, browser.new_context() as context:
                page = context.new_page()
                page.goto(f"http://127.0.0.1:{other.server_port}/")
                opens = """(url) => new Promise((done) => {
                    const socket = new WebSocket(url);
                    socket.onopen = () => done("open");
                    socket.onerror = () => done("refused");
                })"""
                assert page.evaluate(opens, served.address.replace("http", "ws") + "ws") == "refused"
                assert not pages(served)
                page.goto(served.address)
                assert page.evaluate(opens, served.address.replace("http", "ws") + "ws") == "open"
        finally:
            other.shutdown()


def test_what_cannot_be_shown_is_told_on_the_page(browser: Browser, recording: Path, tmp_path: Path) -> None:
    with Served(tmp_path, [recording.name]) as served, browser.new_context() as context:
        away = recording.rename(tmp_path / "away")
        shown = Shown(context.new_page(), served.address)
        shown.until("there is no such file", "Load this page again")
        away.rename(recording)
        shown.page.reload()
        shown.until("CACHE PRESSURE", "q quit")


def test_a_page_without_a_server_waits_and_goes_on_when_one_answers(browser: Browser, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with Served(tmp_path, [url]) as served, browser.new_context() as context:
        shown = Shown(context.new_page(), served.address)
        shown.until("looking for an LLM server", url, "What to do", "q quit")
        shown.page.set_viewport_size({"width": 900, "height": 600})
        shown.until("What to do")
        [page] = pages(served)
        program = tmp_path / "vllm"
        program.symlink_to(vllm_process.__file__)
        command = [sys.executable, str(program), "serve", "tiny", "--port", str(port)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
            try:
                drawn = shown.until("LIVE", "tok/s", "LEDGER", "q quit")
                assert max(map(len, drawn.splitlines())) < 110, "as wide as the page has become"
                shown.press("?")
                shown.until("Keys", "read-only")
                shown.press("Escape")
                wait_for(lambda: "read-only" not in shown.screen(), "the help is closed")
                assert pages(served) == [page]
                assert shown.page.get_by_text("Session ended.").is_hidden()
                shown.press("q")
                shown.page.get_by_text("Session ended.").wait_for()
                wait_for(lambda: not pages(served), "its gaptop has ended")
            finally:
                server.kill()


def test_a_page_that_waits_ends_with_its_tab_and_with_q(browser: Browser, tmp_path: Path) -> None:
    with Served(tmp_path, ["http://127.0.0.1:9"]) as served, browser.new_context() as context:
        shown = Shown(context.new_page(), served.address)
        shown.until("looking for an LLM server", "q quit")
        shown.page.close()
        wait_for(lambda: not pages(served), "its gaptop has ended", SOON)
        again = Shown(context.new_page(), served.address)
        again.until("looking for an LLM server", "q quit")
        again.press("q")
        again.page.get_by_text("Session ended.").wait_for()
        wait_for(lambda: not pages(served), "its gaptop has ended", SOON)


def test_without_the_secret_nothing_is_shown(browser: Browser, recording: Path, tmp_path: Path) -> None:
    with Served(tmp_path, [recording.name]) as served, browser.new_context() as context:
        page = context.new_page()
        answer = page.goto(served.origin)
        assert answer is not None
        assert answer.status == 403
        assert "the address that it printed" in answer.text()
        assert not pages(served)
