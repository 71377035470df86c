"""A CPU quota on a real llama-server's own cgroup is told as that, and not as other work on its core."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pytest

from tests.real import servers
from tests.real.cgroups import cpu_group
from tests.real.conftest import Watched, installed, quiet, warm_up, watched
from tests.real.load import Client, drive
from tests.real.test_vllm import series
from tests.real.watch import recording

pytestmark = [pytest.mark.real, pytest.mark.timeout(200)]

QUOTA: Final = 0.08
"""Cores: as little as a twelfth, so that it holds the server back on a crowded machine as well."""
HELD_S: Final = 6.0
OUTPUT: Final = 32
"""Tokens a request: few, so that those in flight end soon after the quota on a crowded machine as well."""
SLOWEST: Final = 8.0
"""Tokens a second without a quota, about a fifth of the usual: under that the machine holds the server back more than
the quota does."""
EDGE_S: Final = 1.2
"""What is said is looked up this far inside of a phase: counters of the cgroup are read once a second."""


@dataclass(frozen=True, slots=True)
class Held:
    """What gaptop told, and the share of the phase that the kernel says the group was held back."""

    watched: Watched
    share: float


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Held]:
    """Steady load, and in its middle some seconds of a small quota on the group that holds the server alone."""
    installed(servers.LLAMA)
    folder = tmp_path_factory.mktemp("llama-throttled")
    with cpu_group() as group, servers.llama(folder, "--metrics") as server:
        rate = warm_up(server.url, "llamacpp")
        if rate < SLOWEST:
            pytest.skip(f"this machine was too slow: {rate:.1f} tokens/s without a quota")
        group.add(server.pid)
        shares = []

        async def throttled() -> None:
            before = group.throttled()
            group.limit(QUOTA)
            try:
                await quiet(HELD_S)
            finally:
                group.limit(None)
            shares.append((group.throttled() - before) / HELD_S)

        async def script(client: Client) -> None:
            load = asyncio.create_task(client.closed_loop(3, 10 + HELD_S, 40, OUTPUT))
            await client.phase("steady", lambda: quiet(6))
            await client.phase("throttled", throttled)
            await client.phase("after", lambda: quiet(4))
            await load

        path = folder / "llama-throttled.gaptop"
        with recording(path, server.url):
            seen = asyncio.run(drive(server.url, "llamacpp", script, limit=60))
        assert seen.failed == 0
        yield Held(watched(path, seen, server.get("/metrics"), (server.pid,)), shares[0])


def test_the_quota_of_the_server_s_own_group_is_read(held: Held) -> None:
    assert min(series(held.watched.path, "host.quota_cores")) == pytest.approx(QUOTA)
    counted = series(held.watched.path, "host.throttled")
    assert counted[-1] - counted[0] == pytest.approx(held.share * HELD_S, rel=0.2)


def test_a_quota_is_cgroup_throttling(held: Held) -> None:
    if held.share < 0.4:
        pytest.skip(f"this machine was crowded: the quota held the server back only {held.share:.0%} of the time")
    found = [valley for valley in held.watched.during("throttled") if valley["cause"] == "host_starvation"]
    assert found
    assert {valley["detail"] for valley in found} == {"cgroup throttling"}
    for valley in found:
        (fact,) = [fact for fact in valley["evidence"] if fact["signal"] == "host.throttled"]
        assert 0.2 <= fact["value"] <= 1.0  # the valley may be longer than the quota lasted, on a crowded machine
        assert f"{QUOTA:.3g} cores" in fact["says"]


def test_nothing_is_throttled_without_a_quota(held: Held) -> None:
    for phase in ("steady", "after"):
        assert "cgroup throttling" not in {valley["detail"] for valley in held.watched.during(phase)}
    assert held.watched.mean("steady", "host.throttled", EDGE_S) == 0
