"""The folder with an agent's own files: state, plan, scratch, output of commands, checkpoints."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from msgspec import Struct

from sevenfold.ports import Folder, Store, StoredText
from sevenfold.stores.files import safe_name
from sevenfold.stores.jsonl.store import FileText
from sevenfold.stores.mirror import Mirror


class AgentHome(Struct, frozen=True):
    """The folder in which an agent keeps its files.

    Commands and tools need real files. A store that keeps them in a directory shares that directory with the agent;
    for any other store, the agent works in a mirror of them.
    """

    folder: Path
    results: Path | None
    """The folder for tool results that were too large for the context; None if they are not in files."""
    temporary: bool
    """Whether the folder is deleted when the agent is closed."""
    text: StoredText | None = None
    """Where the agent's state is saved, if not in the folder."""
    mirror: Mirror | None = None
    """Copies the folder's files to the store; None if the store keeps them there itself, or there is none."""
    files: Folder | None = None
    """The folder as the store keeps it; None if there is no store, or for a sub-agent."""
    name: str = ""
    """The safe name under which other processes find the agent."""

    @property
    def saved(self) -> StoredText | None:
        """Where the agent's state is saved; None if it is not saved."""
        if self.text is not None:
            return self.text
        survives = self.mirror is not None or not self.temporary
        return FileText(self.folder / "state.json") if survives else None

    @property
    def plan(self) -> Path:
        """The file with the plan."""
        return self.folder / "plan.md"

    @property
    def scratch(self) -> Path:
        """The folder for the model's temporary files."""
        return self.folder / "scratch"

    @property
    def problem(self) -> str:
        """Which of its files could not be saved, and why; empty if all were."""
        return self.mirror.problem if self.mirror is not None else ""

    @classmethod
    def for_session(cls, store: Store, session: str, branch: str | None = None) -> AgentHome:
        """The home of a session or of one of its branches."""
        files = store.agent_files(session, branch or "")
        results = store.results(session).directory
        results = results.resolve() if results is not None else None
        # Through the store the state is fenced: a writer that was overtaken replaces nothing.
        text = None if branch else store.agent_state(session)
        name = safe_name(branch or session)
        if files.directory is not None:
            folder = files.directory.resolve()
            return cls(folder, results, temporary=False, text=text, files=files, name=name)
        mirror = Mirror.open(files)
        return cls(
            mirror.directory, results, temporary=True, text=text, mirror=mirror, files=files, name=name
        )

    @classmethod
    def unsaved(cls) -> AgentHome:
        """A home that ends with its agent."""
        folder = Path(tempfile.mkdtemp(prefix="sevenfold-")).resolve()
        return cls(folder, folder / "tool-results", temporary=True)

    def of_subagent(self, agent: str) -> AgentHome:
        """The home of a sub-agent, inside this one."""
        return AgentHome(self.folder / "agents" / agent, self.results, temporary=False, mirror=self.mirror)

    def save(self) -> None:
        """Save the files that have changed, where the store does not keep them itself."""
        if self.mirror is not None:
            self.mirror.save()

    def remove(self) -> None:
        """Delete the folder, if it is temporary."""
        if self.temporary:
            shutil.rmtree(self.folder, ignore_errors=True)
