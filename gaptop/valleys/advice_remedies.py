"""What to try for a sub-cause, and what will not help: in general, and in the flag names of vLLM and llama.cpp."""

from __future__ import annotations

from typing import Final

from gaptop.valleys.remedy import Remedy

_VLLM: Final = "vllm"
_LLAMA: Final = "llamacpp"

_FRONT_END: Final = (
    "Spread the front end over more {processes}, move image and tokeniser work to the clients, or shorten prompts."
    " The scheduler's flags will not help: the requests never reach it."
)
GRAMMAR: Final = (
    "Reuse schemas so that grammars are compiled once, or choose another {backend}. More GPU memory will not help."
)
_DEFERRED: Final = (
    "Look at what the deferred requests wait for: a KV connector (prefetch earlier), an adapter's {slot}, a grammar."
    " {cap} will not help: the scheduler passed them over."
)

BY_REMEDY: Final[dict[tuple[Remedy, str], str]] = {
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
    (Remedy.DEFERRED, ""): _DEFERRED.format(slot="slot", cap="A higher cap on sequences"),
    (Remedy.DEFERRED, _VLLM): _DEFERRED.format(slot="slot (--max-loras)", cap="Raising --max-num-seqs"),
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
    (Remedy.FRONT_END, ""): _FRONT_END.format(processes="processes"),
    (Remedy.FRONT_END, _VLLM): _FRONT_END.format(processes="processes (--api-server-count)"),
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
    (Remedy.MAYBE_GC, ""): (
        "If the frame that is named is the same each time, look at what its line does. If it differs, have long garbage"
        " collections logged (gc.callbacks) and freeze the heap after warm-up (gc.freeze()). A faster or less shared"
        " core helps in either case, a larger KV cache in none: it will not help."
    ),
    (Remedy.MAYBE_GC, _VLLM): (
        "Serve once with VLLM_GC_DEBUG=1: it logs each garbage collection, and how long it took. If it is one, freeze"
        " the heap after warm-up (gc.freeze()) or raise gc.set_threshold; if none is logged, look at the frame that is"
        " named. A larger KV cache will not help."
    ),
    (Remedy.GRAMMAR, ""): GRAMMAR.format(backend="grammar backend"),
    (Remedy.GRAMMAR, _VLLM): GRAMMAR.format(backend="--structured-outputs-config.backend"),
    (Remedy.LOGGING, ""): (
        "Lower the log level, switch off access logs, and let the log go to a file or a pipe that is read fast. More"
        " cores will not help."
    ),
    (Remedy.LOGGING, _VLLM): (
        "Lower the log level and switch off access logs (--disable-uvicorn-access-log). More cores will not help."
    ),
    (Remedy.HAND_OVER, ""): (
        "Decode waited for the KV of a prefill that had ended: look at the link between the two, overlap the transfer"
        " with the prefill (layer by layer), or run both on one device. A larger decode batch will not help."
    ),
    (Remedy.EVICTION, ""): (
        "Cached prefixes were thrown out and computed again: give the KV cache more memory, keep prompts that share a"
        " prefix together, or offload the cache to host memory. More concurrency will not help, it evicts more."
    ),
    (Remedy.OFFLOAD, ""): (
        "Keep all layers and weights on the device (a smaller quantisation, less context, another device), or give the"
        " host's part faster cores and memory. A larger batch will not help the part that the host computes."
    ),
    (Remedy.OFFLOAD, _LLAMA): (
        "Put all layers on the device (--n-gpu-layers, -ngl; a smaller quantisation or --ctx-size makes room), else set"
        " --threads to the physical cores. More slots will not help: the host computes its layers for each step."
    ),
    (Remedy.OFFLOAD, _VLLM): (
        "Serve without --cpu-offload-gb (a smaller quantisation, more tensor parallel ranks). A larger KV cache will"
        " not help: it leaves less room for the weights."
    ),
    (Remedy.REMOTE_KV, ""): (
        "Look at the KV connector and what it reads from: prefetch earlier, keep hot prefixes local, or recompute what"
        " takes longer to fetch. Scheduler limits will not help: the requests wait for their blocks."
    ),
    (Remedy.STORAGE, ""): (
        "Keep what the engine reads while serving (offloaded KV, weights, logs) off slow disks, or in memory. More"
        " cores will not help: the thread waits for the disk."
    ),
    (Remedy.PAGING, ""): (
        "Give the server's processes memory that stays (a higher cgroup memory limit, no swap, fewer neighbours,"
        " --mlock where the engine has it). More cores will not help: the pages come from storage."
    ),
    (Remedy.ADAPTER, ""): (
        "Load the adapters before they are asked for and keep them resident. More KV memory will not help."
    ),
    (Remedy.ADAPTER, _VLLM): (
        "Load the adapters at the start (--lora-modules) and keep more of them (--max-loras, --max-cpu-loras). More KV"
        " memory will not help."
    ),
    (Remedy.GRAPH_CAPTURE, ""): (
        "Capture the graphs of all batch sizes that are served before traffic comes, or fewer sizes. More memory or"
        " cores will not prevent it."
    ),
    (Remedy.GRAPH_CAPTURE, _VLLM): (
        "Capture the served batch sizes at the start (--compilation-config, cudagraph_capture_sizes); --enforce-eager"
        " avoids it for slower steps. More memory or cores will not prevent it."
    ),
    (Remedy.WARM_UP, ""): (
        "Send traffic only after the warm-up (a readiness probe that waits for it). Flags of the scheduler will not"
        " help."
    ),
    (Remedy.START_UP, ""): (
        "Send traffic only when the server is ready, and keep its weights on a fast local disk. Flags of the scheduler"
        " will not help."
    ),
    (Remedy.WAKE_UP, ""): (
        "Wake the engine up before its traffic comes, or let it sleep with its weights in host memory. Flags of the"
        " scheduler will not help."
    ),
    (Remedy.POWER, ""): (
        "Raise the power limit where the cooling allows it (nvidia-smi -pl WATTS), or spread the load over more"
        " devices. Server flags will not help."
    ),
    (Remedy.THERMAL, ""): (
        "Cool the device (fans, airflow, the neighbours in its chassis), or lower its power limit so that it holds a"
        " steady clock. Server flags will not help."
    ),
    (Remedy.CLOCKS, ""): (
        "Look for a fixed or stuck clock (nvidia-smi -q -d CLOCK,PERFORMANCE; nvidia-smi -rgc undoes a lock), then at"
        " power and cooling. Server flags will not help."
    ),
    (Remedy.CO_TENANT, ""): (
        "Move the other processes off the device (nvidia-smi lists them), or give each its slice (MIG). Server flags"
        " will not help while they share it."
    ),
    (Remedy.ALIASING, ""): (
        "Nothing to fix: the sampled duty cycle fell and the hardware's own counters did not. Believe the counters (GPM"
        " or DCGM)."
    ),
    (Remedy.OUR_CALL, ""): (
        "Nothing to fix in the server: gaptop's own call to the driver was slow. Lower its rates if it comes again."
    ),
    (Remedy.UNRECOGNISED, ""): (
        "Look at the frame that is named: code of a plugin, a patch or a newer version holds the engine's thread. Give"
        " it a rule in your own activities file to have it named. A larger batch or cache will not help."
    ),
    (Remedy.COLLECTIVE, ""): (
        "Look at the slowest rank: its host threads, its clocks, its link. Tuning the other ranks will not help."
    ),
    (Remedy.STRAGGLER, ""): (
        "Give the late rank's process the cores that its peers have, and look at what it does alone (driver work,"
        " logging, a plugin)."
    ),
    (Remedy.SLOW_COLLECTIVE, ""): (
        "Look at the links between the devices (nvidia-smi topo -m, nvidia-smi nvlink -e, the PCIe generation and width"
        " in nvidia-smi -q) and at what moves so much (experts that are rebalanced, weights or KV that are sent). More"
        " cores will not help: all ranks are in it."
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
