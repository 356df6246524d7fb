"""The texts beside a message: files and folders the user mentions in it."""

from __future__ import annotations

from sevenfold.prompts.text import KB, Text


class MentionedFile(Text, frozen=True):
    """A file the user mentions, as it is now."""

    file = "mentioned_file"
    role = "user"
    tag = "mentioned-file"
    body = "text"
    source = "path"
    cap = 256 * KB

    path: str
    text: str


class MentionedFolder(Text, frozen=True):
    """A folder the user mentions, and what is in it now."""

    file = "mentioned_folder"
    role = "user"
    tag = "mentioned-folder"
    body = "entries"
    source = "path"
    cap = 64 * KB

    path: str
    entries: str
