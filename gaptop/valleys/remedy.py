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
    HAND_OVER = "hand-over"
    # cache_pressure
    EVICTION = "eviction"
    # host_starvation
    OFFLOAD = "offload"
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
    MAYBE_GC = "maybe GC"
    GRAMMAR = "grammar"
    LOGGING = "logging"
    UNRECOGNISED = "unrecognised code"
    # synchronisation
    COLLECTIVE = "collective"
    STRAGGLER = "straggler"
    SLOW_COLLECTIVE = "slow collective"
    TRANSFER = "transfer"
    # external_wait
    REMOTE_KV = "remote KV"
    STORAGE = "storage"
    PAGING = "paging"
    ADAPTER = "adapter"
    # compiling
    GRAPH_CAPTURE = "graph capture"
    WARM_UP = "warm-up"
    START_UP = "start-up"
    WAKE_UP = "wake-up"
    # device_limit
    POWER = "power"
    THERMAL = "thermal"
    CLOCKS = "clocks"
    CO_TENANT = "co-tenant"
    # stalled_busy
    MAYBE_PREFILL = "maybe a prefill"
    # artefact
    STALE_GAUGE = "stale gauge"
    MAPPING = "device mapping"
    PHANTOM = "phantom busy"
    ALIASING = "window aliasing"
    OUR_CALL = "our own call"
