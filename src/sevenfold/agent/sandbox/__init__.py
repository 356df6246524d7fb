"""Confines the commands of an agent by means of the operating system.

policy.py       what a command may read, write and reach, independent of how that is enforced
machine.py      which mechanism works on this machine, and why others do not
bubblewrap.py   Linux: a file system of its own, in which nothing else exists
landlock.py     Linux without bubblewrap: access rules of the kernel, applied by `confine.py`
seatbelt.py     macOS: a profile for sandbox-exec, written to its documentation and untested
proxy.py        the way out to allowed hosts, with `forward.py` at its inner end
newcomers.py    files that decide what runs later, and that a command created
sandbox.py      the sandbox of one agent
"""
