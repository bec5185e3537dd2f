"""The entry point of the command `nnghmc`: Ctrl-C is quiet even while the package is loading."""

import sys

EXIT_INTERRUPTED = 130


def main() -> None:
    """Load the package, which takes seconds, and run the command line."""
    try:
        from nnghmc.cli.main import main as run

        run()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
