"""Files that decide what runs later, and as whom: whoever writes them needs no permission any more.

Start-up files of shells and editors, hooks of version control, what servers build and deploy by, keys and passwords,
and the settings of agents, ours included. They are known by their names, in whatever folder they lie and in whatever
case they are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import PurePosixPath

from sevenfold.agent.tools.words import names

_GUARDED = (
    # agents
    names(".sevenfold .claude .agents .codex .cursor .mcp.json")
    # version control, and what it sets off
    | names(
        ".git .gitconfig .gitmodules .config/git .husky .pre-commit-config.yaml .pre-commit-config.yml lefthook.yml"
    )
    # where others build and deploy
    | names(".github/workflows .github/actions .gitlab-ci.yml .circleci .devcontainer .devcontainer.json")
    # shells and sessions
    | names(".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .inputrc .envrc")
    | names(".zshrc .zshenv .zprofile .zlogin .zlogout .kshrc .cshrc .tcshrc .login .config/fish")
    | names(
        ".xinitrc .xprofile .xsession .xsessionrc .config/autostart .config/systemd library/launchagents"
    )
    | names("crontab .crontab cron.d .local/bin")
    # editors and debuggers
    | names(".vscode .idea .vim .vimrc .exrc .config/nvim .emacs .emacs.d .gdbinit .lldbinit .pdbrc")
    # package managers
    | names(".npmrc .yarnrc .yarnrc.yml .pypirc pip.conf .config/pip .cargo .bundle .gemrc .m2")
    # keys and passwords
    | names(".ssh .gnupg .netrc _netrc .git-credentials .aws .azure .kube .docker .config/gcloud")
)


def guard_of(path: str, roots: Sequence[str], folders: Sequence[str] = ()) -> str:
    """The name by which a file is guarded, or the one of ``folders`` it lies in; empty if it is not guarded.

    Only what lies below the innermost of the roots counts: work may be done inside such a folder too.
    """
    file = PurePosixPath(path)
    around = max((root for root in roots if file.is_relative_to(root)), key=len, default="/")
    for folder in folders:
        if file.is_relative_to(folder) and not PurePosixPath(around).is_relative_to(folder):
            return folder
    beneath = [part.casefold() for part in file.parts[len(PurePosixPath(around).parts) :]]
    candidates = (*beneath, *map("/".join, pairwise(beneath)))
    return next((name for name in candidates if name in _GUARDED), "").partition("/")[0]
