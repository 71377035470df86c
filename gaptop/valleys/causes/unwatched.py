"""A wedge on a device that nobody sees: its host waits for it, and nothing comes."""

from __future__ import annotations

from typing import Final

from gaptop.valleys.causes.rule import FEW, HINTED, ONE_STEP, nothing, prompts_outweigh, rate_fact
from gaptop.valleys.evidence import Evidence
from gaptop.valleys.host_view import critical
from gaptop.valleys.model import Fact, Finding

WHOLLY: Final = 0.9
"""The thread did nothing but wait for its device."""

UNSEEN: Final = "device not seen: one that idled meanwhile would make it a synchronisation"


def unwatched(evidence: Evidence) -> Finding:
    """A sync ends when the device has done what it was given. One that lasts longer than any step waits for work that
    does not end, or hangs; a prompt would be booked when its prefill is over."""
    main, running = critical(evidence), evidence.running
    if running is None or running.high <= FEW or evidence.still < ONE_STEP or not evidence.frozen:
        return nothing("stalled_busy", unseen=("device not seen",))
    if main.sync is None or main.sync < WHOLLY or main.sync_activity != "device_sync":
        return nothing("stalled_busy", unseen=("device not seen",))
    if prompts_outweigh(evidence) or (evidence.prompt_late and not evidence.prompt_settled) or evidence.prefilling:
        return nothing("stalled_busy", unseen=("device not seen",))
    says = f"the critical thread waited for its device {main.sync:.0%} of the time, and no step ended"
    fact = Fact("host.thread_activity", round(main.sync, 4), "ratio", says)
    rate = rate_fact("tokens.decode", evidence.decode_rate, evidence.decode_before, "decode tokens", "tokens/s")
    return Finding("stalled_busy", HINTED, "wedge", (fact, *rate), unseen=(UNSEEN,))
