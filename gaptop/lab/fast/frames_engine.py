"""Stacks of vLLM's engine and worker threads: scheduling, and whatever runs the model.

0.32 has the V2 model runner on GPUs, with its events and CUDA graphs; 0.8 has the V1 runner.
"""

from __future__ import annotations

from typing import Final

from gaptop.lab.fast.frames_common import LOGGED, QUEUE, SPAWNED, Tails, Written, below
from gaptop.lab.fast.view import Dialect
from gaptop.lab.fast.waits import HELD, SPIN, WAIT

_CORE: Final = "vllm/v1/engine/core.py"
_LOOP: Final = (*SPAWNED, f"EngineCoreProc.run_engine_core {_CORE}", f"EngineCoreProc.run_busy_loop {_CORE}")
_STEPPING: Final = (*_LOOP, f"EngineCoreProc._process_engine_step {_CORE}")
_UNI: Final = "vllm/v1/executor/uniproc_executor.py"
_MULTI: Final = "vllm/v1/executor/multiproc_executor.py"
_SHM: Final = "vllm/distributed/device_communicators/shm_broadcast.py"
_SCHED: Final = "vllm/v1/core/sched/scheduler.py"
_V2: Final = "vllm/v1/worker/gpu/model_runner.py"
_V1: Final = "vllm/v1/worker/gpu_model_runner.py"
_CALL: Final = (
    "run_method vllm/v1/serial_utils.py",
    "WorkerWrapperBase.execute_model vllm/v1/worker/worker_base.py",
    "Worker.execute_model vllm/v1/worker/gpu_worker.py",
)
_RING: Final = (
    f"MessageQueue.dequeue {_SHM}",
    f"MessageQueue.acquire_read {_SHM}",
    f"SpinCondition.wait {_SHM}",
)


def of_engine(phase: str, dialect: Dialect, *, split: bool) -> list[Written] | None:
    if phase in (WAIT, "idle", "await_requests"):
        return [(*_LOOP, f"EngineCoreProc._process_input_queue {_CORE}", *QUEUE)]
    own = _engine_tails(dialect)
    if phase in own:
        return below(_STEPPING, own, phase)
    step = _step(dialect)
    if phase == "device_sync":
        if split:
            return below(_STEPPING, own, "worker_wait")
        future = f"AsyncOutputFuture.result {_UNI}" if dialect == "vllm" else f"UniProcExecutor.execute_model {_UNI}"
        return [(*_STEPPING, step, future, *_sync_tail(dialect))]
    base = (*_STEPPING, step, f"UniProcExecutor.execute_model {_UNI}", f"UniProcExecutor.collective_rpc {_UNI}", *_CALL)
    return below(base, _runner_tails(dialect), phase)


def of_worker(phase: str, dialect: Dialect) -> list[Written] | None:
    loop = (*SPAWNED, f"WorkerProc.worker_main {_MULTI}", f"WorkerProc.worker_busy_loop {_MULTI}")
    if phase in (WAIT, "idle"):
        return [(*loop, *_RING, "Poller.poll zmq/sugar/poll.py")]
    if phase in (SPIN, "poll"):
        return [(*loop, *_RING, "sched_yield vllm/distributed/utils.py")]
    if phase == "device_sync":
        return [(*loop, *_CALL[:1], *_sync_tail(dialect))]
    if phase == "serialize":
        return [(*loop, f"WorkerProc.handle_output {_MULTI}", f"MessageQueue.enqueue {_SHM}")]
    if phase == "gc":
        return below((*loop, *_CALL), _runner_tails(dialect), "prepare_batch")
    if phase == "log":
        return [(*loop, *_CALL, *LOGGED)]
    return below((*loop, *_CALL), _runner_tails(dialect), phase)


def _engine_tails(dialect: Dialect) -> Tails:
    """Under the engine's step, whatever runs the model."""
    step = _step(dialect)
    schedule = (step, f"Scheduler.schedule {_SCHED}")
    update = (step, f"Scheduler.update_from_output {_SCHED}")
    hands_on = (step, f"MultiprocExecutor.execute_model {_MULTI}", f"MessageQueue.enqueue {_SHM}")
    awaits = (
        step,
        f"FutureWrapper.result {_MULTI}",
        f"MultiprocExecutor.collective_rpc.<locals>.get_response {_MULTI}",
    )
    mask = (
        step,
        f"Scheduler.get_grammar_bitmask {_SCHED}",
        "StructuredOutputManager.grammar_bitmask vllm/v1/structured_output/__init__.py",
    )
    return {
        "schedule": (
            schedule,
            (*schedule, "KVCacheManager.allocate_slots vllm/v1/core/kv_cache_manager.py"),
            (*schedule, f"Scheduler._make_cached_request_data {_SCHED}"),
            update,
        ),
        "grammar": (
            (*mask, "XgrammarGrammar.fill_bitmask vllm/v1/structured_output/backend_xgrammar.py"),
            (*mask, "StructuredOutputManager._fill_bitmasks vllm/v1/structured_output/__init__.py"),
        ),
        "gc": ((*update, "Request.append_output_token_ids vllm/v1/request.py"),),
        "log": ((step, f"EngineCore.log_iteration_details {_CORE}", *LOGGED),),
        "serialize": (hands_on, (*hands_on, "Socket.send zmq/sugar/socket.py")),
        "worker_wait": ((*awaits, *_RING, "sched_yield vllm/distributed/utils.py"),),
        HELD: ((),),
        "poll": ((),),
    }


def _runner_tails(dialect: Dialect) -> Tails:
    """Under the call that reaches the model runner."""
    if dialect == "vllm":
        run, sampled = f"GPUModelRunner.execute_model {_V2}", f"GPUModelRunner.sample_tokens {_V2}"
        blocks = "vllm/v1/worker/gpu/block_table.py"
        prepare = (
            (run, f"GPUModelRunner.prepare_inputs {_V2}"),
            (run, f"GPUModelRunner.prepare_attn {_V2}"),
            (run, f"GPUModelRunner.prepare_inputs {_V2}", f"BlockTables.gather_block_tables {blocks}"),
        )
        launch = (run, "CudaGraphManager.run_fullgraph vllm/v1/worker/gpu/cudagraph_utils.py")
        sampler = (sampled, f"GPUModelRunner.sample {_V2}", "Sampler.__call__ vllm/v1/worker/gpu/sample/sampler.py")
        copied = (run, "UvaBufferPool.copy_to_gpu vllm/v1/worker/gpu/buffer_utils.py")
    else:
        run, sampled = f"GPUModelRunner.execute_model {_V1}", f"GPUModelRunner.execute_model {_V1}"
        batch = "vllm/v1/worker/gpu_input_batch.py"
        prepare = (
            (run, f"GPUModelRunner._prepare_inputs {_V1}"),
            (run, f"GPUModelRunner._update_states {_V1}"),
            (run, f"GPUModelRunner._update_states {_V1}", f"InputBatch.condense {batch}"),
        )
        launch = (run, "LlamaForCausalLM.forward vllm/model_executor/models/llama.py")
        sampler = (sampled, f"GPUModelRunner._sample {_V1}", "Sampler.forward vllm/v1/sample/sampler.py")
        copied = (run, "CpuGpuBuffer.copy_to_gpu vllm/v1/utils.py")
    jit = (*launch, "JITFunction.run triton/runtime/jit.py", "JITFunction._do_compile triton/runtime/jit.py")
    return {
        "prepare_batch": prepare,
        "launch": (launch, (*launch, "CUDAGraph.replay torch/cuda/graphs.py")),
        "sample": (sampler, (*sampler, "random_sample vllm/v1/sample/ops/topk_topp_sampler.py")),
        "compile": (
            (*jit, "compile triton/compiler/compiler.py"),
            (*jit, "compile triton/compiler/compiler.py", "CUDABackend.make_cubin triton/backends/nvidia/compiler.py"),
        ),
        "copy": (copied,),
        "collective": (
            (
                *launch,
                "GroupCoordinator.all_reduce vllm/distributed/parallel_state.py",
                "CudaCommunicator.all_reduce vllm/distributed/device_communicators/cuda_communicator.py",
            ),
        ),
        "kv_transfer": (
            (run, "NixlConnector.start_load_kv vllm/distributed/kv_transfer/kv_connector/v1/nixl_connector.py"),
        ),
        "load": (
            (run, "LRUCacheWorkerLoRAManager._load_adapter vllm/lora/worker_manager.py"),
            (
                run,
                "LRUCacheWorkerLoRAManager._load_adapter vllm/lora/worker_manager.py",
                "LoRAModel.from_local_checkpoint vllm/lora/lora_model.py",
            ),
        ),
        "multimodal": ((run, "GPUModelRunner._execute_mm_encoder vllm/v1/worker/gpu_model_runner.py"),),
    }


def _sync_tail(dialect: Dialect) -> tuple[str, ...]:
    waits = "AsyncOutput.get_output vllm/v1/worker/gpu/async_utils.py"
    if dialect != "vllm":
        waits = f"GPUModelRunner._to_list {_V1}"
    return (waits, "Event.synchronize torch/cuda/streams.py")


def _step(dialect: Dialect) -> str:
    return f"EngineCore.step_with_batch_queue {_CORE}" if dialect == "vllm" else f"EngineCore.step {_CORE}"
