from __future__ import annotations

import pytest


def read(runtime, *files):
    return runtime.call("multi_read", files=[file if isinstance(file, dict) else {"path": file} for file in files])


def test_the_result_maps_paths_to_texts_errors_and_truncations(runtime, workspace):
    workspace.write("a.txt", "a\n")
    workspace.write("long.txt", "x\n" * 2001)
    workspace.write("empty.txt", "")

    data = read(runtime, "a.txt", "long.txt", "empty.txt", "nothing.txt").data

    assert list(data) == ["files", "errors", "truncation"]
    assert data["files"]["a.txt"] == "1\ta"
    assert data["files"]["empty.txt"] == ""
    assert data["errors"]["nothing.txt"]["error_code"] == "file_not_found"
    assert data["errors"]["nothing.txt"]["suggestion"]
    assert data["truncation"]["long.txt"]["total_lines"] == 2001
    assert list(data["truncation"]) == ["long.txt"]


def test_each_file_has_its_own_window(runtime, workspace):
    workspace.write("a.txt", "1\n2\n3\n4\n")

    data = read(
        runtime,
        {"path": "a.txt", "start_line": 2, "end_line": 3, "line_numbers": False},
        {"path": "./a.txt", "tail": 1, "truncate": "tail"},
    ).data

    assert data["files"]["a.txt"].startswith("2\n3\n[Showing lines 2-3 of 4.")
    assert data["files"]["./a.txt"] == "4\t4"


def test_the_last_of_duplicate_paths_wins(runtime, workspace):
    workspace.write("a.txt", "1\n2\n")

    data = read(runtime, {"path": "a.txt", "tail": 1}, {"path": "a.txt"}).data

    assert data["files"] == {"a.txt": "1\t1\n2\t2"}


@pytest.mark.starts_processes
@pytest.mark.parametrize("contents", [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"a\0b"])
def test_images_and_binary_files_are_errors(runtime, workspace, contents):
    workspace.write("a.txt", "a\n")
    workspace.write("file", contents)

    error = read(runtime, "a.txt", "file").data["errors"]["file"]

    assert error["error_code"] == "binary_file"
    assert "read_file" in error["suggestion"]


@pytest.mark.parametrize(
    "path, code",
    [
        (".env", "sensitive_path"),
        ("../x", "path_outside_workspace"),
        ("folder", "not_a_file"),
        ("a\0b", "invalid_args"),
        ("late.txt", "past_end"),
    ],
)
def test_one_refused_file_does_not_affect_the_others(runtime, workspace, path, code):
    workspace.write("a.txt", "a\n")
    workspace.write("late.txt", "a\n")
    workspace.write("folder/b", "")
    workspace.write(".env", "KEY=1")

    data = read(runtime, {"path": path, "start_line": 2}, "a.txt").data

    assert data["files"] == {"a.txt": "1\ta"}
    assert data["errors"][path]["error_code"] == code


def test_a_read_fails_only_when_all_files_fail(runtime, workspace):
    error = read(runtime, "nothing.txt", ".env").error

    assert error.code == "file_not_found"
    assert "nothing.txt" in error.message
    assert ".env" in error.message
    assert set(error.details["errors"]) == {"nothing.txt", ".env"}


@pytest.mark.parametrize(
    "files, fragment",
    [
        ([], "files must have at least 1 item"),
        ([{"path": "a.txt"}] * 21, "files must have at most 20 items, not 21"),
        ([{}], "argument: files[0].path"),
        (["a.txt"], "files[0] must be an object"),
        ([{"path": "a.txt", "tial": 1}], "files[0].tial is not an argument (did you mean tail?)"),
        ([{"path": "a.txt"}, {"path": 1, "tail": "x"}], "files[1].path must be a string"),
        ("a.txt", "files must be an array"),
        (None, "files must be an array"),
    ],
)
def test_invalid_requests_are_rejected(runtime, workspace, files, fragment):
    workspace.write("a.txt", "a\n")

    error = runtime.call("multi_read", files=files).error

    assert error.code == "invalid_args"
    assert fragment in error.message


def test_twenty_files_are_allowed_and_a_json_string_is_decoded(runtime, workspace):
    for number in range(20):
        workspace.write(f"{number}.txt", f"{number}\n")
    text = "[" + ",".join(f'{{"path":"{number}.txt"}}' for number in range(20)) + "]"

    assert len(runtime.call("multi_read", files=text).data["files"]) == 20


def test_files_beyond_512_kilobytes_are_returned_by_the_next_call(runtime, workspace):
    for number in range(20):
        workspace.write(f"{number}.txt", f"{number:02d}{'x' * 90}\n" * 500)
    args = {"files": [{"path": f"{number}.txt", "line_numbers": False} for number in range(20)]}
    texts = {}
    calls = 0
    while args:
        data = runtime.call("multi_read", **args).data
        texts.update(data["files"])
        assert sum(len(text.encode()) for text in data["files"].values()) <= 512 * 1024
        args = data.get("next", {}).get("args")
        calls += 1

    assert calls == 2
    assert list(texts) == [f"{number}.txt" for number in range(20)]


def test_a_stale_file_is_detected_after_a_multi_read(runtime, workspace):
    workspace.write("a.txt", "a\n")
    read(runtime, "a.txt")
    workspace.write("a.txt", "changed\n")

    error = runtime.call("write_file", path="a.txt", content="mine\n").error

    assert error.code == "stale_file"
    assert workspace.read("a.txt") == "changed\n"
