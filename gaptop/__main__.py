"""``python -m gaptop``."""

from gaptop.cli.main import main

if __name__ == "__main__":
    main()
