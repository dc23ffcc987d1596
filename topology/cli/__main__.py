"""``python -m topology.cli`` is the command ``waterspout``."""

from topology.cli.app import main

if __name__ == "__main__":
    main()
