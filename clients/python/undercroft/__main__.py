"""Runs the undercroft command that the package includes, as ``python -m undercroft``."""

import signal
import sys


def main() -> int:
    """Run the command with this process's arguments and return its exit status."""
    try:
        from undercroft._native import command
    except ImportError as error:
        print(
            f"undercroft: the command needs the native module, which cannot be imported: {error}",
            file=sys.stderr,
        )
        return 1
    # Restore the default SIGINT action: Python's handler would run only after the native command
    # returns.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return command(["undercroft", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
