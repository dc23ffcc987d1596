"""``python -m waterspout`` is the command ``waterspout``."""

from waterspout.command_line import main

if __name__ == "__main__":
    main()
