"""``python -m tui``: the same as the ``infertop`` command."""

import sys

from tui.cli import main

if __name__ == "__main__":
    sys.exit(main())
