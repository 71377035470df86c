"""What a sleeping thread waits for, told from the name of the kernel function it sleeps in."""

from __future__ import annotations

from typing import Final

from gaptop_collectors.host.thread_account import STOPPED
from gaptop_collectors.signals import WAITING_ON

_STOPS: Final = ("do_signal_stop", "ptrace_stop", "get_signal", "do_freezer_trap", "do_jobctl_trap")
_BY_WORD: Final = (
    ("futex", "futex"),
    ("nanosleep", "sleep"),
    ("schedule_hrtimeout", "sleep"),
    ("pipe", "pipe"),
    ("eventfd", "pipe"),
    ("ep_poll", "poll"),
    ("epoll", "poll"),
    ("poll_schedule", "poll"),
    ("do_poll", "poll"),
    ("do_select", "poll"),
    ("inet_csk_accept", "poll"),
    ("sk_wait", "poll"),
    ("wait_for_connect", "poll"),
    ("unix_stream", "poll"),
    ("unix_wait", "poll"),
    ("skb_wait", "poll"),
    ("skb_recv", "poll"),
    ("wait_woken", "poll"),
    ("io_cqring", "poll"),
    ("io_schedule", "disk"),
    ("folio", "disk"),
    ("filemap", "disk"),
    ("lock_page", "disk"),
    ("wait_on_page", "disk"),
    ("wait_on_buffer", "disk"),
    ("rq_qos", "disk"),
    ("blk_", "disk"),
    ("blkdev", "disk"),
    ("submit_bio", "disk"),
    ("iomap", "disk"),
    ("read_events", "disk"),
    ("jbd2", "disk"),
    ("xfs_", "disk"),
    ("btrfs", "disk"),
    ("nfs", "disk"),
    ("rpc_wait", "disk"),
    ("ceph", "disk"),
    ("fuse", "disk"),
)
"""Parts of the names (they vary with the kernel's version). The letter D alone proves no storage: a thread that waits
for a driver's or the memory map's lock has it too."""

_known: dict[bytes, str] = {}


def waits_on(channel: bytes) -> str:
    """One of :data:`gaptop_collectors.signals.WAITING_ON` for the text of a wchan file, or ``stopped``."""
    found = _known.get(channel)
    if found is None:
        text = channel.decode("ascii", "replace")
        found = (
            STOPPED if text.startswith(_STOPS) else next((label for word, label in _BY_WORD if word in text), "other")
        )
        assert found == STOPPED or found in WAITING_ON
        if len(_known) < 1000:
            _known[channel] = found
    return found
