"""What a finding's advice hangs on, where its cause alone does not decide it. Words for people are no keys."""

from __future__ import annotations

from enum import StrEnum


class Remedy(StrEnum):
    """The sub-cause as far as it changes what to try. ``USUAL`` is what its cause (or the engine) says by itself."""

    USUAL = ""
    # no_demand
    CLIENT_LIMITED = "client limited"
    ASLEEP = "asleep"
    # admission_stall
    BATCH_BOUNDARY = "batch boundary"
    DEFERRED = "deferred"
    UNDER_LIMIT = "under the limit"
    STUCK = "stuck"
    STUCK_BRIEFLY = "stuck briefly"
    # prefill_interference
    PREFILL_ALONE = "prefill alone"
    # host_starvation
    STOPPED = "stopped"
    FRONT_STOPPED = "front end stopped"
    FRONT_END = "front end"
    THROTTLING = "throttling"
    CONTENTION = "contention"
    OVERSUBSCRIPTION = "oversubscription"
    AFFINITY = "affinity"
    STEAL = "steal"
    LOCK = "lock"
    OTHER_LOCK = "other lock"
    GC = "GC"
    GRAMMAR = "grammar"
    LOGGING = "logging"
    UNRECOGNISED = "unrecognised code"
    # synchronisation
    COLLECTIVE = "collective"
    TRANSFER = "transfer"
    # stalled_busy
    MAYBE_PREFILL = "maybe a prefill"
    # artefact
    STALE_GAUGE = "stale gauge"
    MAPPING = "device mapping"
    PHANTOM = "phantom busy"
