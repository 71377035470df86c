"""The lab's model: a deterministic continuous-batching server on a virtual clock. Pure: no wall time, no I/O."""
