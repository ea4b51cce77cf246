"""Support for tests of tools that change files: the real git, and the bytes of a folder."""

from __future__ import annotations

import os
import shutil
import subprocess

from hilt.testing import Folder

# name, bytes before, text to replace, its replacement, bytes after
ENCODED = [
    ("lf", b"one\ntwo\nthree\n", "two", "TWO", b"one\nTWO\nthree\n"),
    ("crlf", b"one\r\ntwo\r\nthree\r\n", "two", "TWO", b"one\r\nTWO\r\nthree\r\n"),
    ("mixed", b"one\r\ntwo\nthree\r\nfour\n", "two", "TWO", b"one\r\nTWO\nthree\r\nfour\n"),
    ("mixed, mostly crlf", b"one\r\ntwo\nthree\r\n", "two", "TWO", b"one\r\nTWO\nthree\r\n"),
    ("mixed, mostly lf", b"one\ntwo\r\nthree\n", "two", "TWO", b"one\nTWO\r\nthree\n"),
    ("no final newline", b"one\ntwo", "two", "TWO", b"one\nTWO"),
    ("trailing blanks", b"one  \ntwo\t\nthree \n", "two", "TWO", b"one  \nTWO\t\nthree \n"),
    ("bom", b"\xef\xbb\xbfone\ntwo\n", "two", "TWO", b"\xef\xbb\xbfone\nTWO\n"),
    ("bom, first line", b"\xef\xbb\xbftwo\none\n", "two", "TWO", b"\xef\xbb\xbfTWO\none\n"),
    ("bom, crlf", b"\xef\xbb\xbfone\r\ntwo\r\n", "two", "TWO", b"\xef\xbb\xbfone\r\nTWO\r\n"),
    ("utf-16 le", "é\ntwo\n".encode("utf-16"), "two", "TWÖ", "é\nTWÖ\n".encode("utf-16")),
    (
        "utf-16 be",
        b"\xfe\xff" + "é\r\ntwo\r\n".encode("utf-16-be"),
        "two",
        "TWÖ",
        b"\xfe\xff" + "é\r\nTWÖ\r\n".encode("utf-16-be"),
    ),
    ("latin-1", "déjà vu, garçon\ntwo\n".encode("latin-1"), "two", "Ü", "déjà vu, garçon\nÜ\n".encode("latin-1")),
    (
        "shift-jis",
        "日本語のテキストです。\ntwo\n".encode("shift-jis"),
        "two",
        "漢字",
        "日本語のテキストです。\n漢字\n".encode("shift-jis"),
    ),
    ("damaged utf-8", "ééé".encode() + b"\xff\ntwo\n", "two", "TWO", "ééé".encode() + b"\xff\nTWO\n"),
    ("form feed", b"one\x0ctwo\x0bthree\n", "two", "TWO", b"one\x0cTWO\x0bthree\n"),
    ("lone returns", b"one\rtwo\rthree\n", "two", "TWO", b"one\rTWO\rthree\n"),
]

# those that a UTF-8 diff can represent
DIFFABLE = [
    case for case in ENCODED if case[0] not in ("utf-16 le", "utf-16 be", "latin-1", "shift-jis", "damaged utf-8")
]


def tree_bytes(folder: Folder) -> dict[str, bytes]:
    """Return the contents of every file, by path."""
    contents = {}
    for directory, folders, files in os.walk(folder.path):
        folders[:] = [name for name in folders if name != ".git"]
        for name in files:
            path = os.path.join(directory, name)
            inner = os.path.relpath(path, folder.path)
            if os.path.islink(path):
                contents[inner] = b"-> " + os.fsencode(os.readlink(path))
                continue
            with open(path, "rb") as file:
                contents[inner] = file.read()
    return contents


def git_apply(folder: Folder, diff: str) -> dict[str, bytes]:
    """Apply a diff with the real git to a copy of the folder and return the contents of the copy."""
    copy = Folder(folder.path + "-git")
    shutil.rmtree(copy.path, ignore_errors=True)
    shutil.copytree(folder.path, copy.path)
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    result = subprocess.run(
        ["git", "apply", "--whitespace=nowarn", "-"],
        input=diff.encode(),
        cwd=copy.path,
        env={**environ, "GIT_CEILING_DIRECTORIES": os.path.dirname(copy.path)},
        capture_output=True,
    )
    assert result.returncode == 0, result.stderr.decode()
    return tree_bytes(copy)
