"""What to try, in the engine's own flag names, and what will not help. One sentence or two a cause and sub-cause."""

from __future__ import annotations

from typing import Final

from gaptop.valleys.model import Cause
from gaptop.valleys.remedy import Remedy

_VLLM: Final = "vllm"
_LLAMA: Final = "llamacpp"

_BY_REMEDY: Final[dict[tuple[Remedy, str], str]] = {
    (Remedy.CLIENT_LIMITED, ""): (
        "Raise the clients' concurrency (more connections or processes, a faster load tool)."
        " Server flags will not help while each request runs at full speed."
    ),
    (Remedy.ASLEEP, ""): "Wake the engine up when it shall serve again; nothing else is wrong.",
    (Remedy.BATCH_BOUNDARY, ""): (
        "Requests joined only when the batch before them had ended: use the engine's continuous batching (its online"
        " server, not one call a batch), or smaller batches of like lengths. A higher cap on sequences will not help:"
        " it was not reached."
    ),
    (Remedy.BATCH_BOUNDARY, _LLAMA): (
        "Requests joined only when the batch before them had ended: switch continuous batching on (--cont-batching)."
        " More slots will not help: they were free."
    ),
    (Remedy.DEFERRED, ""): (
        "Look at what the deferred requests wait for: a KV connector, an adapter's slot, a grammar. A higher cap on"
        " sequences will not help: the scheduler passed them over."
    ),
    (Remedy.DEFERRED, _VLLM): (
        "Look at what the deferred requests wait for: the KV connector (prefetch earlier), an adapter's slot (raise"
        " --max-loras), a grammar. Raising --max-num-seqs will not help: the scheduler passed them over."
    ),
    (Remedy.UNDER_LIMIT, ""): (
        "Look in the server's log for what keeps requests out (lengths, adapters, grammars). A higher cap on sequences"
        " will not help: it was not reached."
    ),
    (Remedy.UNDER_LIMIT, _VLLM): (
        "Raise --max-num-batched-tokens if long prompts use up each step's budget, else look in the server's log for"
        " what keeps requests out. Raising --max-num-seqs will not help: it was not reached."
    ),
    (Remedy.STUCK, ""): (
        "Look at the server's log for deferred or rejected requests and restart it if nothing moves;"
        " compare prompt lengths with the KV capacity. More memory will not help: it is free."
    ),
    (Remedy.STUCK_BRIEFLY, ""): (
        "Look in the server's log for what held admission up at that time (an adapter, a KV connector, a pause) and"
        " whether it comes again. More memory will not help: it is free."
    ),
    (Remedy.PREFILL_ALONE, ""): (
        "Nothing was held up but the request itself: a faster prefill (prefix caching, shorter prompts) is what helps."
    ),
    (Remedy.FRONT_END, ""): (
        "Spread the front end over more processes (--api-server-count), move image and tokeniser work to the clients,"
        " or shorten prompts. The scheduler's flags will not help: the requests never reach it."
    ),
    (Remedy.STOPPED, ""): (
        "Let the process run on (kill -CONT PID) or find the debugger that holds it. No flag of the server will help."
    ),
    (Remedy.THROTTLING, ""): (
        "Raise the container's CPU quota, or lower the thread pools to it (OMP_NUM_THREADS, grammar workers)."
        " More GPU memory will not help."
    ),
    (Remedy.CONTENTION, ""): (
        "Keep other work off the engine's cores (taskset, cgroup cpuset, fewer threads). Server flags will not help."
    ),
    (Remedy.OVERSUBSCRIPTION, ""): (
        "Let the server start no more threads than it has cores (OMP_NUM_THREADS, MKL_NUM_THREADS, tokeniser and"
        " grammar pools), or give it more cores. Raising their priority will not help: they wait for each other."
    ),
    (Remedy.OVERSUBSCRIPTION, _LLAMA): (
        "Lower --threads and --threads-batch to the cores that the server really has, or give it more."
        " More slots will not help: its threads wait for each other."
    ),
    (Remedy.AFFINITY, ""): (
        "Let the engine run on more cores (taskset -cp, the cgroup's cpuset, --cpuset-cpus, NUMA binding): others are"
        " idle. A faster machine will not help while it may use only these."
    ),
    (Remedy.STEAL, ""): (
        "Move the virtual machine, or give it dedicated cores: its host gives them to others. Nothing inside the"
        " machine will help, more virtual cores neither."
    ),
    (Remedy.LOCK, ""): (
        "Keep other Python work out of the engine's process (front end, detokenising and plug-ins in processes of"
        " their own, fewer threads). More cores will not help: one thread holds the interpreter's lock at a time."
    ),
    (Remedy.OTHER_LOCK, ""): (
        "Look at the frame that waits and at who holds its lock (py-spy dump --pid PID --native, once). More cores"
        " will not help: the thread sleeps until the lock is free."
    ),
    (Remedy.GC, ""): (
        "Freeze the heap after warm-up (gc.freeze()) or raise gc.set_threshold. More cores will not help: GC holds the"
        " interpreter lock."
    ),
    (Remedy.GRAMMAR, ""): (
        "Reuse schemas so that grammars are compiled once, or choose another --structured-outputs-config.backend."
        " More GPU memory will not help."
    ),
    (Remedy.LOGGING, ""): (
        "Lower the log level and switch off access logs (--disable-uvicorn-access-log). More cores will not help."
    ),
    (Remedy.UNRECOGNISED, ""): (
        "Look at the frame that is named: code of a plugin, a patch or a newer version holds the engine's thread. Give"
        " it a rule in your own activities file to have it named. A larger batch or cache will not help."
    ),
    (Remedy.COLLECTIVE, ""): (
        "Look at the slowest rank: its host threads, its clocks, its link. Tuning the other ranks will not help."
    ),
    (Remedy.MAYBE_PREFILL, ""): (
        "Wait for it to end: the engine tells of a long prefill only then. If nothing comes for minutes, dump the"
        " stacks (py-spy dump --pid PID --native). Lower load will not help."
    ),
    (Remedy.TRANSFER, ""): (
        "Look at what is moved: swapped or offloaded KV blocks, weights, a hand-over between servers; keep it on the"
        " device or start it earlier. More threads or a larger batch will not help."
    ),
    (Remedy.MAPPING, ""): (
        "Find the device that this server works on (its process in nvidia-smi, CUDA_VISIBLE_DEVICES, the container's"
        " devices) and watch that one. Server flags will not help: nothing was held up."
    ),
    (Remedy.PHANTOM, ""): (
        "Nothing to fix in the server. If the device keeps reading busy, look for a process that another user or an"
        " ended job left on it. Lower load will not help: there is none."
    ),
    (Remedy.STALE_GAUGE, ""): (
        "Nothing to fix: the engine holds no request, its gauges are as old as its last step. Compare with the clients"
        " before acting on them."
    ),
}

_BY_CAUSE: Final[dict[tuple[Cause, str], str]] = {
    ("no_demand", ""): (
        "Nothing to fix in the server: send more requests, or share the device with other work."
        " A larger batch cannot fill an empty queue."
    ),
    ("admission_stall", _VLLM): (
        "Raise --max-num-seqs (and --max-num-batched-tokens) while KV memory is free."
        " More KV memory will not help: it was not the limit."
    ),
    ("admission_stall", _LLAMA): (
        "Raise --parallel (-np) and --ctx-size with it, as context is split between slots."
        " More threads will not help: requests wait for a slot."
    ),
    ("prefill_interference", _VLLM): (
        "Lower --max-num-batched-tokens so that a prefill chunk takes less of each step, keep --enable-chunked-prefill"
        " on, or cap long prompts' share with --long-prefill-token-threshold. More KV memory will not help."
    ),
    ("prefill_interference", _LLAMA): (
        "Lower --batch-size (-b) and --ubatch-size (-ub) so that a prompt batch ends sooner."
        " More slots will not help: they all wait for the same batch."
    ),
    ("cache_pressure", _VLLM): (
        "Raise --gpu-memory-utilization, use --kv-cache-dtype fp8, or lower --max-num-seqs so that fewer requests are"
        " thrown back. A larger batch will not help."
    ),
    ("cache_pressure", _LLAMA): (
        "Raise --ctx-size, quantise the cache (--cache-type-k q8_0 --cache-type-v q8_0), or lower --parallel."
        " More slots will not help."
    ),
    ("host_starvation", _VLLM): (
        "Give the engine a faster or less shared core (check the cgroup's CPU limit), and let asynchronous scheduling"
        " on. A larger KV cache will not help."
    ),
    ("host_starvation", _LLAMA): (
        "Give the server its cores (--threads no larger than what it really has). A larger context will not help."
    ),
    ("synchronisation", ""): (
        "Let the engine overlap (asynchronous scheduling in vLLM), and avoid per-step reads of device values"
        " (logprobs, penalties). A larger batch hides it at best."
    ),
    ("external_wait", ""): (
        "Look at the KV connector, the storage and the adapters: prefetch earlier or keep them local."
        " More GPU memory helps only if it makes the fetch unnecessary."
    ),
    ("compiling", ""): (
        "Warm up with the shapes and options that are served (logprobs, LoRA, schemas), and keep the compile cache on"
        " a persistent disk. More memory or cores will not prevent it."
    ),
    ("device_limit", ""): (
        "Look at power limit, cooling and clocks (nvidia-smi -q -d PERFORMANCE), and at foreign processes on it."
        " Server flags will not help."
    ),
    ("stalled_busy", ""): (
        "Dump the stacks now (py-spy dump --pid PID --native) and look for one rank that is missing; a restart may be"
        " the only way on. Lower load will not help."
    ),
    ("artefact", ""): "Nothing to fix: the reading is at fault. Compare with another source before acting on it.",
    ("unknown", ""): "Record with threads (sudo gaptop record -o FILE) over the next one; the exclusions above stand.",
}


def advice(cause: Cause, remedy: Remedy, engine: str) -> str:
    """The sub-cause's own advice, else the engine's, else the cause's (that of vLLM where only engines have one)."""
    if remedy is Remedy.FRONT_STOPPED:
        remedy = Remedy.STOPPED
    for kind in ((remedy, engine), (remedy, "")):
        if kind in _BY_REMEDY:
            return _BY_REMEDY[kind]
    for key in ((cause, engine), (cause, ""), (cause, _VLLM)):
        if key in _BY_CAUSE:
            return _BY_CAUSE[key]
    return ""
