"""The `sevenfold` command, also as `python -m sevenfold`."""

import sys


def main() -> int:
    """Run the command; returns the exit code."""
    try:
        # In a function, because loading takes a moment in which the user may press Ctrl-C.
        from sevenfold.cli.main import main as run

        return run()
    except KeyboardInterrupt:
        sys.stderr.write("sevenfold: interrupted\n")
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
