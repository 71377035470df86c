"""Host work of the lab's live server, in files and functions named after vLLM's, so that real stacks can be told apart.

Nothing here is vLLM's code: each function works (or sleeps) until the moment that the simulation gives it. Names follow
what py-spy shows of a vLLM 0.32 with its model in the engine process.
"""
