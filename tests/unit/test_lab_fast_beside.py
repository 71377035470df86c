"""What the fast driver shows of a machine on which more goes on than the server."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from gaptop.lab.core.events import Condition
from gaptop.lab.core.faults import Fault
from gaptop.lab.core.scenario import Scenario
from gaptop.lab.fast.driver import stream
from gaptop.lab.scenarios import SCENARIOS
from gaptop.recording.lines import Batch

STEADY = SCENARIOS["steady"]
SECONDS = 12.0


def shown(scenario: Scenario) -> dict[str, list[float]]:
    """The numbers of each signal, whatever the process or the device."""
    found: dict[str, list[float]] = defaultdict(list)
    for line in stream(scenario, 1, SECONDS):
        if isinstance(line, Batch):
            for key, values in line.values.items():
                found[key].extend(value for value in values if value is not None)
    return found


def beside(*conditions: Condition, faults: tuple[Fault, ...] = (), quota: float = 0.0) -> dict[str, list[float]]:
    return shown(replace(STEADY, beside=conditions, faults=faults, quota=quota))


def test_a_quota_is_told_where_nothing_is_throttled() -> None:
    found = beside(quota=6.0)
    assert set(found["host.quota_cores"]) == {6.0}
    assert found["host.quota_periods"][-1] > 100
    assert set(found["host.throttled_periods"]) == {0.0}
    assert set(found["host.throttled"]) == {0.0}
    assert "host.quota_cores" not in beside()


def test_throttles_of_other_cores_count_and_cost_no_step() -> None:
    plain, found = beside(quota=3.0), beside(Condition(4.0, 4.5, "throttled", 0.3), quota=3.0)
    assert found["host.throttled_periods"][-1] == 5.0
    assert found["host.throttled"][-1] == 0.15
    assert found["tokens.decode"] == plain["tokens.decode"]
    assert found["device.busy"] == plain["device.busy"]


def test_an_idle_tenant_is_listed_and_holds_memory() -> None:
    plain, found = beside(), beside(Condition(5.0, SECONDS, "foreign_idle", 2.0))
    assert set(plain["device.foreign_processes"]) == {0.0}
    assert found["device.foreign_processes"][0] == 0.0
    assert found["device.foreign_processes"][-1] == 2.0
    assert found["device.memory_used"][-1] > plain["device.memory_used"][-1]
    assert found["device.busy"] == plain["device.busy"]


def test_neighbours_load_the_host_and_not_the_group() -> None:
    plain, found = beside(), beside(Condition(0.0, SECONDS, "neighbours", 4.0))
    assert min(found["host.busy"]) >= min(plain["host.busy"]) + 0.45
    assert found["host.group_pressure{resource=cpu}"] == plain["host.group_pressure{resource=cpu}"]
    assert found["host.pressure{resource=cpu}"][-1] > plain["host.pressure{resource=cpu}"][-1]


def test_connections_stay_open_without_a_request() -> None:
    plain, found = beside(), beside(Condition(0.0, SECONDS, "connections", 9.0))
    assert found["host.connections"] == [value + 9.0 for value in plain["host.connections"]]


def test_faults_and_compilers_that_nobody_waits_for_are_counted() -> None:
    found = beside(Condition(4.0, 6.0, "major_faults", 20.0), Condition(5.0, 8.0, "compilers", 2.0))
    faults = [values for key, values in found.items() if key.startswith("host.major_faults")]
    children = [values for key, values in found.items() if key.startswith("host.children_seconds")]
    assert max(values[-1] for values in faults) == 40.0
    assert max(found["host.compilers"]) == 2.0
    assert max(values[-1] for values in children) == 6.0


def test_two_power_limits_at_once_are_one_second_a_second() -> None:
    cap, deep = Fault("power", 0.0, 60.0, strength=0.92), Fault("power", 4.0, 3.0, strength=0.4)
    found = beside(faults=(cap, deep))
    assert found["device.limit_seconds{reason=sw_power_cap}"][-1] <= SECONDS
    assert found["device.limit_seconds{reason=sw_power_cap}"][-1] > SECONDS - 1.0
