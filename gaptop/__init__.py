"""gaptop: where did the GPU's time go, and why? A live terminal dashboard for LLM servers."""

__version__ = "0.1.0"
