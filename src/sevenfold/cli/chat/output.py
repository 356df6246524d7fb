"""The terminal the app draws on."""

from __future__ import annotations

import os
import sys

from prompt_toolkit.data_structures import Size
from prompt_toolkit.output import ColorDepth, Output, create_output


def terminal() -> Output:
    """Standard output, as a terminal that is never asked where its cursor is.

    The answer to that question would come in through the keyboard, late over slow lines, and be seen as typed.
    """
    if sys.platform == "win32":
        return create_output(sys.stdout)
    from prompt_toolkit.output.vt100 import Vt100_Output

    depth = ColorDepth.DEPTH_1_BIT if os.environ.get("NO_COLOR") else None
    return Vt100_Output(
        sys.stdout, _size, term=os.environ.get("TERM"), default_color_depth=depth, enable_cpr=False
    )


def _size() -> Size:
    try:
        columns, rows = os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        columns, rows = 80, 24
    return Size(rows=rows or 24, columns=columns or 80)
