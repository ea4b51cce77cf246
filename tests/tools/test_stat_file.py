from __future__ import annotations

import os
import socket
from datetime import UTC, datetime

import pytest


def stat(runtime, path: str):
    return runtime.call("stat_file", path=path).data


def test_a_file_is_described(runtime, workspace):
    path = workspace.write("sub/a.txt", "one\ntwo\n")
    os.chmod(path, 0o640)
    os.utime(path, ns=(0, 1_700_000_000_123_456_789))

    assert stat(runtime, "./sub/a.txt") == {
        "path": "sub/a.txt",
        "type": "file",
        "size": 8,
        "lines": 2,
        "encoding": "utf-8",
        "bom": False,
        "line_ending": "lf",
        "modified": "2023-11-14T22:13:20.123456789Z",
        "mode": "0640",
    }
    assert datetime.fromisoformat(stat(runtime, "sub/a.txt")["modified"]).tzinfo == UTC


@pytest.mark.parametrize(
    "data, lines, encoding, ending",
    [
        (b"", 0, "utf-8", "none"),
        (b"a", 1, "utf-8", "none"),
        (b"a\nb", 2, "utf-8", "lf"),
        (b"a\r\nb\r\n", 2, "utf-8", "crlf"),
        (b"a\r\nb\n", 2, "utf-8", "mixed"),
        (b"a\rb", 1, "utf-8", "mixed"),
        (b"\n\n\n", 3, "utf-8", "lf"),
        (b"\xef\xbb\xbfa\n", 1, "utf-8", "lf"),
        ("a\nb\n".encode("utf-16"), 2, "utf-16-le", "lf"),
        ("a\nb".encode("utf-16"), 2, "utf-16-le", "lf"),
        (b"\xfe\xff" + "a\r\nb\r\n".encode("utf-16-be"), 2, "utf-16-be", "crlf"),
        ("\u0a0a\u010a\n".encode("utf-16"), 1, "utf-16-le", "lf"),
        ("déjà vu, garçon\n".encode("latin-1"), 1, "cp1252", "lf"),
        (b"a\0b\n", 1, "binary", None),
        (b"x\r\n" * 1_000_000, 1_000_000, "utf-8", "crlf"),
        (b"x" * (1024 * 1024 - 1) + "é\n".encode(), 1, "utf-8", "lf"),
        (b"x\n" * 524_287 + b"x" + "é\n".encode(), 524_288, "utf-8", "lf"),
    ],
)
def test_lines_encoding_and_endings_are_reported(runtime, workspace, data, lines, encoding, ending):
    workspace.write("a.txt", data)

    facts = stat(runtime, "a.txt")

    assert (facts["size"], facts["lines"]) == (len(data), lines)
    assert (facts["encoding"], facts.get("line_ending")) == (encoding, ending)


def test_folders_and_special_files_have_their_type(runtime, workspace, base, monkeypatch):
    workspace.write("folder/a", "")
    os.mkfifo(workspace.join("pipe"))
    server = socket.socket(socket.AF_UNIX)
    monkeypatch.chdir(workspace.path)  # the path of a socket must be short
    server.bind("socket")
    server.close()

    assert [stat(runtime, path)["type"] for path in ("folder", ".", "pipe", "socket")] == [
        "directory",
        "directory",
        "special",
        "special",
    ]
    assert "lines" not in stat(runtime, "folder")
    assert stat(runtime, ".")["path"] == "."


def test_lines_of_a_file_over_fifty_megabytes_are_not_counted(runtime, workspace):
    with open(workspace.join("big"), "wb") as file:
        file.truncate(50 * 1024 * 1024 + 1)

    facts = stat(runtime, "big")

    assert (facts["size"], "lines" in facts) == (50 * 1024 * 1024 + 1, False)


def test_the_metadata_of_an_unreadable_file_is_returned(runtime, workspace):
    path = workspace.write("a.txt", "one\n")
    os.chmod(path, 0)
    if os.access(path, os.R_OK):
        pytest.skip("root can read everything")

    facts = stat(runtime, "a.txt")

    assert (facts["type"], facts["size"], facts["mode"], "lines" in facts) == ("file", 4, "0000", False)


def test_inspecting_does_not_count_as_reading(runtime, workspace):
    workspace.write("a.txt", "a\n")
    stat(runtime, "a.txt")
    workspace.write("a.txt", "b\n")

    assert runtime.call("write_file", path="a.txt", content="c\n").ok


@pytest.mark.parametrize(
    "path, code",
    [
        ("nothing", "file_not_found"),
        ("../x", "path_outside_workspace"),
        ("/etc/passwd", "path_outside_workspace"),
        (".env", "sensitive_path"),
        ("a\0", "invalid_args"),
        ("out", "path_outside_workspace"),
    ],
)
def test_a_path_that_cannot_be_inspected_is_an_error(runtime, workspace, path, code):
    workspace.write(".env", "x")
    os.symlink("/etc/passwd", workspace.join("out"))

    assert runtime.call("stat_file", path=path).error.code == code
