"""The live driver: plays a scenario in real time, as a server of two processes with real HTTP, threads and stacks."""
