"""The fast driver: what gaptop's own probe would write beside the simulated server, without waiting for it."""
