"""What gaptop costs and how fast it is, measured in one run on this machine; see ``__main__``."""
