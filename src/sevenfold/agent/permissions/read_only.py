"""Commands that only look, each with the options that let it do no more.

An option that is not listed is not known to be harmless: it might write a file, run a program, take further paths from
a file, or follow links that lead elsewhere. So a command counts only with options that are listed, in full. None of
those listed takes a path; what a command looks at are its other words. The letters mean the same, or as little,
wherever these programs come from.
"""

from __future__ import annotations

from msgspec import Struct

from sevenfold.agent.tools.words import names

_DIGITS = "0123456789"


class _Options(Struct, frozen=True):
    """What may stand behind a dash."""

    flags: str = ""
    valued: str = ""
    """Letters that take the rest of the word, or the next one, as their value."""
    long: frozenset[str] = frozenset()
    anything: bool = False
    """The command opens nothing, whatever it is told."""

    def fit(self, word: str) -> bool:
        """Is all of this word known to be harmless?"""
        if self.anything or not word.startswith("-"):
            return True
        if word.startswith("--"):
            return word == "--" or word[2:].partition("=")[0] in self.long
        for letter in word[1:]:
            if letter in self.valued:
                return True
            if letter not in self.flags:
                return False
        return True


_ANYTHING = _Options(anything=True)
_KNOWN = {
    "basename": _ANYTHING,
    "cat": _Options("AbeEnstTuv", long=names("number number-nonblank show-all show-ends squeeze-blank")),
    "cd": _Options("LP"),
    "cmp": _Options("bls", "in", names("bytes print-bytes quiet silent verbose")),
    "cut": _Options("nsz", "bcdf", names("bytes characters complement delimiter fields only-delimited")),
    "df": _Options("ahHiklmPT", long=names("all human-readable inodes local portability print-type si")),
    "dirname": _ANYTHING,
    "du": _Options(
        "abchkmsx", "d", names("all apparent-size bytes human-readable max-depth summarize total")
    ),
    "echo": _ANYTHING,
    "false": _ANYTHING,
    "grep": _Options(
        "EFGPabchHilLnoqrsTUvwxyz" + _DIGITS,
        "ABCem",
        names(
            "after-context before-context byte-offset color colour context count exclude exclude-dir extended-regexp "
            "files-with-matches files-without-match fixed-strings ignore-case include invert-match line-number "
            "line-regexp max-count no-filename no-messages null only-matching perl-regexp quiet recursive regexp "
            "silent text with-filename word-regexp"
        ),
    ),
    "head": _Options("qvz" + _DIGITS, "cn", names("bytes lines quiet silent verbose")),
    "ls": _Options(
        "1aAbBcCdfFgGhiklmnNopqQrRsStuUvxXZ",
        long=names(
            "all almost-all author classify color directory full-time group-directories-first human-readable inode "
            "no-group numeric-uid-gid recursive reverse size sort time time-style"
        ),
    ),
    "nl": _Options("p", "bdfhilnsvw"),
    "pwd": _ANYTHING,
    "stat": _Options("flnqrstx", "c", names("file-system format printf terse")),
    "tail": _Options("fFqrvz" + _DIGITS, "cn", names("bytes follow lines quiet retry silent verbose")),
    "true": _ANYTHING,
    "uname": _Options("aimnoprsv"),
    "wc": _Options("cLlmw", long=names("bytes chars lines max-line-length words")),
    "whoami": _ANYTHING,
}
_SHOW_FILES = names("cat cmp cut grep head nl tail wc")


def only_looks(words: tuple[str, ...]) -> bool:
    """Does a command change nothing, and open nothing but what its words name?"""
    known = _KNOWN.get(words[0])
    # Behind "--" too: it may be the value of the option before it.
    return known is not None and all(map(known.fit, words[1:]))


def shows_files(words: tuple[str, ...]) -> bool:
    """Is it one of those that show what is in files?"""
    return words[0] in _SHOW_FILES
