"""``python -m probprop``: the command."""

from probprop.cli import main

if __name__ == "__main__":
    main()
