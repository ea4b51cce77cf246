from __future__ import annotations

import subprocess

import pytest


def diff(runtime, a="a.txt", b="b.txt", **args):
    return runtime.call("diff_files", path_a=a, path_b=b, **args)


def test_two_files_are_compared(runtime, workspace):
    workspace.write("a.txt", "one\ntwo\nthree\n")
    workspace.write("sub/b.txt", "one\n2\nthree\n")

    result = diff(runtime, b="sub/b.txt")

    assert result.text == "--- a/a.txt\n+++ b/sub/b.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    assert (result.meta["is_identical"], result.meta["first_changed_line"]) == (False, 2)
    assert result.view["type"] == "diff"


def test_equal_files_have_an_empty_diff(runtime, workspace):
    workspace.write("a.txt", "one\n")
    workspace.write("b.txt", "one\n")

    result = diff(runtime)

    assert (result.text, result.meta["is_identical"]) == ("", True)


@pytest.mark.parametrize("context, hunks", [(0, 2), (1, 2), (3, 1), (10**9, 1), (None, 1)])
def test_the_context_has_the_requested_width(runtime, workspace, context, hunks):
    workspace.write("a.txt", "".join(f"{number}\n" for number in range(8)))
    workspace.write("b.txt", "".join(f"{'x' if number in (1, 6) else number}\n" for number in range(8)))

    text = diff(runtime, context_lines=context).text

    assert text.count("@@ -") == hunks


@pytest.mark.starts_processes
@pytest.mark.parametrize(
    "a, b",
    [
        ("a\nb\n", "a\nb"),
        ("", "a\n"),
        ("a\r\nb\n", "a\nb\n"),
        ("x\n" * 50, "x\n" * 20 + "y\n" + "x\n" * 29),
        ("é\n", "è\n"),
    ],
)
@pytest.mark.parametrize("context", [0, 1, 3])
def test_applying_the_diff_turns_the_first_file_into_the_second(runtime, workspace, tmp_path, a, b, context):
    workspace.write("a.txt", a)
    workspace.write("b.txt", b)

    text = diff(runtime, context_lines=context).text

    target = tmp_path / "target"
    target.write_bytes(a.encode())
    command = ["git", "apply", "--unidiff-zero", "-p1", "--whitespace=nowarn", "-"]
    patch = text.replace("b/b.txt", "b/target").replace("a/a.txt", "a/target")
    result = subprocess.run(command, input=patch.encode(), cwd=tmp_path, capture_output=True)
    assert result.returncode == 0, result.stderr
    assert target.read_bytes() == b.encode()


def test_binary_files_are_compared_by_checksum(runtime, workspace):
    workspace.write("a.txt", b"a\0b")
    workspace.write("b.txt", b"a\0c")

    result = diff(runtime)

    assert result.text.startswith("Binary files differ.\na.txt: 3 bytes, SHA-256 ")
    assert result.meta["is_identical"] is False


def test_the_same_text_in_two_encodings_is_reported(runtime, workspace):
    workspace.write("a.txt", "é\n".encode("utf-16"))
    workspace.write("b.txt", "é\n")

    result = diff(runtime)

    assert "encodings differ" in result.text
    assert result.meta["is_identical"] is False


@pytest.mark.parametrize(
    "a, b, args, code",
    [
        ("nothing", "a.txt", {}, "file_not_found"),
        ("a.txt", "nothing", {}, "file_not_found"),
        ("a.txt", ".env", {}, "sensitive_path"),
        ("../x", "a.txt", {}, "path_outside_workspace"),
        ("folder", "a.txt", {}, "not_a_file"),
        ("a.txt", "a.txt", {"context_lines": -1}, "invalid_args"),
        ("a.txt", "a.txt", {"context": 1}, "invalid_args"),
    ],
)
def test_files_that_cannot_be_compared_are_an_error(runtime, workspace, a, b, args, code):
    workspace.write("a.txt", "a\n")
    workspace.write("folder/x", "")
    workspace.write(".env", "")

    error = diff(runtime, a, b, **args).error

    assert (error.code, bool(error.suggestion)) == (code, True)


def test_a_long_diff_overflows_to_a_file_that_can_be_read(runtime, workspace):
    workspace.write("a.txt", "".join(f"a {number}\n" for number in range(10_000)))
    workspace.write("b.txt", "".join(f"b {number}\n" for number in range(10_000)))

    result = diff(runtime)

    assert result.meta["_persisted"] is True
    assert result.meta["_originalSize"] > 50_000
    assert len(result.text) < 13_000
    assert result.meta["_filePath"] in result.text
    assert runtime.call("read_file", path=result.meta["_filePath"]).text.startswith("   1\t--- a/a.txt\n")
