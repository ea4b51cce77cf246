"""Binary files in patches, compared with git."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.errors import ToolError
from hilt.text.binary_patch import blob_id, literal
from hilt.text.patching import parse_patch


def git(folder, *arguments: str, data: bytes = b"") -> bytes:
    return subprocess.run(["git", *arguments], cwd=folder, input=data, check=True, capture_output=True).stdout


@given(st.binary(max_size=500), st.binary(max_size=500))
def test_a_literal_round_trips(old, new):
    (operation,) = parse_patch("diff --git a/f b/f\n" + literal(old, new))

    assert operation.whole is not None
    assert (operation.kind, operation.whole.before, operation.whole.data) == ("update", blob_id(old), new)


@pytest.mark.starts_processes
def test_git_and_hilt_read_each_others_patches(tmp_path):
    contents = {"a": bytes(range(256)) * 9, "b": b"\0"}
    git(tmp_path, "init", "-q")
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
    git(tmp_path, "add", "-A")
    patch = git(tmp_path, "diff", "--cached", "--binary").decode()
    assert {operation.path: operation.whole.data for operation in parse_patch(patch) if operation.whole} == contents
    assert git(tmp_path, "hash-object", "a").decode().strip() == blob_id(contents["a"])

    changes = "diff --git a/a b/a\n" + literal(contents["a"], b"\0new") + "diff --git a/c b/c\nnew file mode 100644\n"
    git(tmp_path, "apply", data=(changes + literal(None, b"\0c")).encode())

    assert ((tmp_path / "a").read_bytes(), (tmp_path / "c").read_bytes()) == (b"\0new", b"\0c")


@pytest.mark.parametrize(
    "body",
    [
        literal(b"a", b"b").replace("literal 1", "literal 2"),
        literal(b"a", b"b").replace("literal 1", "delta 1"),
        literal(b"a", b"b").replace("index", "indec"),
        "index 1..2\nGIT binary patch\nliteral 1\nAx\n",
    ],
)
def test_a_damaged_binary_file_is_invalid(body):
    with pytest.raises(ToolError) as caught:
        parse_patch("diff --git a/f b/f\n" + body)

    assert caught.value.code == "patch_invalid"


def test_the_error_names_an_invalid_length_byte():
    with pytest.raises(ToolError) as caught:
        parse_patch("diff --git a/f b/f\n" + literal(b"a", b"b").replace("literal 1\n", "literal 1\n!"))

    assert (caught.value.code, "'!'" in caught.value.message) == ("patch_invalid", True)


@pytest.mark.parametrize("line", ["new file mode 120000", "old mode 120000\nnew mode 100644", "index 1..2 160000"])
def test_links_and_submodules_are_rejected(line):
    with pytest.raises(ToolError) as caught:
        parse_patch(f"diff --git a/f b/f\n{line}\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+target\n")

    assert caught.value.code == "patch_invalid"


def test_a_binary_file_that_has_changed_conflicts(runtime, workspace):
    workspace.write("f", b"\0mine")
    patch = "diff --git a/f b/f\n" + literal(b"\0before", b"\0after")

    result = runtime.call("apply_patch", patch=patch)

    assert result.error.code == "patch_conflict"
    with open(workspace.join("f"), "rb") as file:
        assert file.read() == b"\0mine"
    workspace.write("f", b"\0before")
    assert runtime.call("apply_patch", patch=patch).ok
