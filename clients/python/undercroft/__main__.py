"""The undercroft command, which the package brings along; also ``python -m undercroft``."""

import signal
import sys


def main() -> int:
    """Run the command with the words that this process was called with, and return its status."""
    try:
        from undercroft._native import command
    except ImportError as error:
        print(f"undercroft: the command is in the native module: {error}", file=sys.stderr)
        return 1
    # Python's own handler would run only once the command has ended.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return command(["undercroft", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
