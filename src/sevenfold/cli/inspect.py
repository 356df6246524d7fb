"""`sevenfold inspect`: opens a page over the recorded sessions of this machine."""

from __future__ import annotations

import argparse
import os
import sys
import webbrowser

from sevenfold.archive import stores
from sevenfold.cli import transcripts
from sevenfold.cli.text import not_installed, number, write
from sevenfold.stores import token_file
from sevenfold.stores.home import user_home

TOKEN_FILE = "inspector-token"


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    port = number(int, 1, "a whole number from 1 to 65535", high=65_536)
    command.add_argument("session", nargs="?", metavar="SESSION")
    transcripts.add_store(command)
    command.add_argument("--port", type=port)
    command.add_argument("--no-open", action="store_true")


def run(options: argparse.Namespace) -> int:
    """Serve until interrupted; returns the exit code."""
    try:
        # The server comes with an extra.
        from sevenfold.doors.inspector.server import InspectorServer
    except ModuleNotFoundError as error:
        raise not_installed("inspector", "inspect", error) from error
    from sevenfold.archive.summaries import SummaryShelf
    from sevenfold.doors.inspector.shelf import InspectorShelf

    copies = transcripts.copies(options.store) if options.store and not options.session else []
    shelf = InspectorShelf(SummaryShelf(user_home().root / "cache" / "inspector"), copies)
    name = options.session
    if name and options.store:
        name = stores.name_in(options.store, name)
    page_path = f"/s/{shelf.named(name)}" if name else "/"
    # The same after a restart, so that an open page keeps working.
    token = token_file.token(user_home().root / TOKEN_FILE)
    server = InspectorServer(shelf, token, options.port or 0)
    # The token is after the #, a part of the address that browsers do not send.
    address = f"{server.url}#{page_path}?token={token}"
    write(
        f"The inspector is at\n  {address}\n"
        "Only this machine reaches it, and only with this address. Ctrl-C stops it.\n"
    )
    sys.stdout.flush()
    if not options.no_open and (
        sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    ):
        webbrowser.open(address)
    try:
        server.run()
    except KeyboardInterrupt:
        write("\n")
    return 0
