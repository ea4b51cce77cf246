from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hilt.errors import ToolError
from hilt.text.diffing import compare, stripped, unified_diff
from hilt.text.encodings import Encoding, decode, splice
from hilt.text.patching import Operation, PatchHunk, PatchLine, apply_hunks, parse_patch
from tests.text.work import count_steps


def codex(*lines):
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def update(*lines):
    return codex("*** Update File: f", *lines)


def apply(text, patch, *, path=None, as_codex=False):
    (operation,) = parse_patch(patch, path=path)
    result, position = "", 0
    for span in apply_hunks(text, operation, as_codex=as_codex):
        result += text[position : span.start] + span.new
        position = span.end
    return result + text[position:]


def refusal(call, *arguments, **options):
    with pytest.raises(ToolError) as caught:
        call(*arguments, **options)
    return caught.value


# --- parsing the Codex format


def test_every_kind_of_codex_section_is_parsed():
    patch = codex(
        "*** Add File: new.txt", "+one", "+", "+two",
        "*** Delete File: old.txt",
        "*** Update File: a b.py", "*** Move to: c/d.py",
        "@@ class A:", "@@     def f(self):", " keep", "-out", "+in", "", "+more",
        "@@", "-last", "*** End of File",
    )  # fmt: skip

    assert parse_patch(patch) == [
        Operation("add", "new.txt", content="one\n\ntwo\n"),
        Operation("delete", "old.txt"),
        Operation("update", "a b.py", move_to="c/d.py", hunks=(
            PatchHunk(
                (
                    PatchLine("context", "keep"), PatchLine("removed", "out"), PatchLine("added", "in"),
                    PatchLine("context", ""), PatchLine("added", "more"),
                ),
                anchors=("class A:", "    def f(self):"),
            ),
            PatchHunk((PatchLine("removed", "last"),), at_end=True),
        )),
    ]  # fmt: skip


PLAIN = update("@@", "-old", "+new")


@pytest.mark.parametrize(
    "patch",
    [
        PLAIN + "\n",
        "\n\n" + PLAIN + "\n\n",
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace("*** Begin Patch", "  *** Begin Patch \t"),
        PLAIN.replace("*** End Patch", " *** End Patch  "),
        PLAIN.replace("*** Update", "   *** Update"),
        PLAIN.replace("@@\n", ""),
        PLAIN.replace("*** Update", "\n*** Update").replace("*** End Patch", "\n*** End Patch"),
        PLAIN.replace("@@\n", "\n@@  \n"),
        PLAIN.replace("@@", "@@ ... @@").replace("... ", ""),
        f"<<'EOF'\n{PLAIN}\nEOF\n",
        f"<<EOF\n{PLAIN}\nEOF",
        f'apply_patch <<"PATCH"\n{PLAIN}\nPATCH\n',
    ],
)
def test_markers_may_be_padded_and_the_patch_wrapped(patch):
    assert parse_patch(patch) == parse_patch(PLAIN)


@pytest.mark.parametrize(
    "patch, line, expected",
    [
        ("*** Begin Patch\n*** End Patch", 2, "Add File"),
        ("*** Begin Patch\n*** Delete File: f", 2, "'*** End Patch' as the last line"),
        ("*** Begin Patch", 1, "'*** End Patch' as the last line"),
        (codex("*** Frobnicate File: f"), 2, "Update File"),
        (codex("*** Update File: "), 2, "Update File: PATH"),
        (codex("*** Update File: f"), 2, "hunks"),
        (codex("*** Update File: f", "@@"), 3, "lines that start with"),
        (update("@@", "-a", "*b"), 5, "starts with a space"),
        (update("-a", "*** End of File", "-b"), 5, "'@@'"),
        (codex("*** Add File: f", "+a", "b"), 4, "'+' before each line"),
        (codex("*** Delete File: f", "+a"), 3, "Update File"),
        (codex("*** Delete File: f", "*** End Patch", "x"), 4, "nothing after"),
        ("hello\n", 1, "unified diff"),
        ("\n\n{}", 3, "'*** Begin Patch'"),
    ],
)
def test_an_invalid_codex_patch_is_rejected_with_its_line(patch, line, expected):
    error = refusal(parse_patch, patch)

    assert (error.code, error.details["line"]) == ("patch_invalid", line)
    assert expected in error.message


@pytest.mark.parametrize("patch", ["", "\n \n"])
def test_an_empty_patch_is_rejected(patch):
    assert refusal(parse_patch, patch).code == "patch_invalid"


# --- parsing unified diffs

HUNK = "@@ -1,2 +1,2 @@ heading\n keep\n-old\n+new\n"


def test_every_kind_of_git_section_is_parsed():
    patch = (
        "From 0123 Mon Sep 17 00:00:00 2001\nSubject: x\n\n- a list\n---\n f | 2 +-\n\n"
        "diff --git a/new.sh b/new.sh\nnew file mode 100755\nindex 0..1\n--- /dev/null\n+++ b/new.sh\n@@ -0,0 +1,2 @@\n"
        "+one\n+two\n\\ No newline at end of file\n"
        "diff --git a/empty b/empty\nnew file mode 100644\nindex 0..0\n"
        "diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n"
        "diff --git a/from b/to\nsimilarity index 100%\nrename from from\nrename to to\n"
        "diff --git a/my tool b/my tool\nold mode 100644\nnew mode 100755\n"
        f"diff --git a/f b/f\nindex 0..1 100644\n--- a/f\n+++ b/f\n{HUNK}"
        "-- \n2.39.0\n"
    )

    assert parse_patch(patch) == [
        Operation("add", "new.sh", content="one\ntwo", unified=True, mode="100755"),
        Operation("add", "empty", content="", unified=True, mode="100644"),
        Operation("delete", "gone", hunks=(PatchHunk((PatchLine("removed", "one"),), (), False, 1, 1),), unified=True),
        Operation("update", "from", move_to="to", unified=True),
        Operation("update", "my tool", unified=True, mode="100755"),
        Operation("update", "f", unified=True, hunks=(
            PatchHunk(
                (PatchLine("context", "keep"), PatchLine("removed", "old"), PatchLine("added", "new")), (), False, 1, 2
            ),
        )),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "names, path",
    [
        ("--- a/f.py\n+++ b/f.py", "f.py"),
        ("--- f.py\n+++ f.py", "f.py"),
        ("--- a/f.py\n+++ a/f.py", "a/f.py"),
        ("--- f.py.orig\t2024-01-01 00:00:00\n+++ f.py\t2024-01-01 00:00:01", "f.py"),
        ("--- a/my file.py\t\n+++ b/my file.py\t", "my file.py"),
        ("--- a/blank \t\n+++ b/blank \t", "blank "),
        ("--- a/f.py \n+++ b/f.py ", "f.py"),
        ("diff --git a/blank  b/blank \nold mode 100644\nnew mode 100755\n--- a/blank \t\n+++ b/blank \t", "blank "),
        (" f.py | 2 +-\n 1 file changed\n\ndiff --git a/f.py b/f.py\n--- a/f.py\n+++ b/f.py", "f.py"),
        (":100644 100644 12 34 M\tf.py\n\ndiff --git a/f.py b/f.py\n--- a/f.py\n+++ b/f.py", "f.py"),
        ("Here is the change:\n- one line\n--- a/f.py\n+++ b/f.py", "f.py"),
        ("From 12 Mon Sep\nSubject: x\n\n--- a\n+++ b\n\n---\n--- a/f.py\n+++ b/f.py", "f.py"),
        ('--- "a/q\\"\\t\\303\\251"\n+++ "b/q\\"\\t\\303\\251"', 'q"\té'),
        ("Index: f.py\n=====\n--- f.py\n+++ f.py", "f.py"),
        ("diff --git i/f.py w/f.py\n--- i/f.py\n+++ w/f.py", "f.py"),
        ("--- c/d/f.py\n+++ i/d/f.py", "d/f.py"),
        (
            "diff -ru old/d/f new/d/f\n--- old/d/f\t2024-01-01 00:00:00.5 +0000\n+++ new/d/f\t2024-01-01 00:01 +0000",
            "d/f",
        ),
        ("Only in new: g.py\n--- old/f.py\n+++ new/f.py", "f.py"),
        ("--- src/f.py.orig\n+++ src/f.py", "src/f.py"),
        ("--- backup/src/f.py\n+++ src/f.py", "src/f.py"),
        ("diff -u f.py f.py\n--- f.py\n+++ f.py", "f.py"),
    ],
)
def test_the_name_of_a_file_is_parsed(names, path):
    assert [operation.path for operation in parse_patch(f"{names}\n{HUNK}")] == [path]


@pytest.mark.parametrize(
    "header, kind, path",
    [
        ("diff --git i/d/f w/d/f\nnew file mode 100644\n--- /dev/null\n+++ w/d/f\n@@ -0,0 +1 @@\n+a\n", "add", "d/f"),
        ("diff --git c/d/f w/d/f\ndeleted file mode 100644\n--- c/d/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", "delete", "d/f"),  # noqa: E501
        ("diff --git w/d/f w/d/f\nnew file mode 100644\n--- /dev/null\n+++ w/d/f\n@@ -0,0 +1 @@\n+a\n", "add", "w/d/f"),
        ("diff --git old/my f new/my f\nnew file mode 100644\n", "add", "my f"),
        ("diff --git i/f w/f\nold mode 100644\nnew mode 100755\n", "update", "f"),
        ("--- old/f\t1970-01-01 00:00:00.000000000 +0000\n+++ new/f\t2024-01-01 00:00:00.5 +0000\n@@ -0,0 +1 @@\n+a\n", "add", "f"),  # noqa: E501
        ("--- old/f\t1969-12-31 19:00:00 -0500\n+++ new/f\t2024-01-01 00:00:00 -0500\n@@ -0,0 +1 @@\n+a\n", "add", "f"),
        ("--- old/f\t2024-01-01 00:00:00.5 +0000\n+++ new/f\t1970-01-01 01:00:00.0 +0100\n@@ -1 +0,0 @@\n-a\n", "delete", "f"),  # noqa: E501
        ("--- old/f\t1970-01-02 00:00:00 +0000\n+++ new/f\t(revision 2)\n@@ -1 +1 @@\n-a\n+b\n", "update", "f"),
    ],
)  # fmt: skip
def test_a_missing_side_is_parsed(header, kind, path):
    assert [operation[:2] for operation in parse_patch(header)] == [(kind, path)]


def test_several_mails_are_parsed():
    body = "- a list\n+ more\n---\n"
    mail = f"From 12 Mon Sep\nSubject: x\n\n{body}diff --git a/f b/f\n--- a/f\n+++ b/f\n{HUNK}-- \n2.39\n\n"

    assert [operation.path for operation in parse_patch(mail + mail.replace("/f", "/g"))] == ["f", "g"]


def test_a_binary_file_without_contents_is_rejected_outside_git_headers():
    error = refusal(parse_patch, f"--- old/f\n+++ new/f\n{HUNK}Binary files old/b.png and new/b.png differ\n")

    assert (error.code, error.details) == ("patch_invalid", {"line": 7})


def test_a_quoted_rename_is_parsed():
    patch = 'diff --git "a/o\\tld" b/new \nrename from "o\\tld"\nrename to new \n'

    assert parse_patch(patch) == [Operation("update", "o\tld", move_to="new ", unified=True)]


@pytest.mark.parametrize("patch", [HUNK, "@@\n keep\n-old\n+new", f"--- a/other\n+++ b/other\n{HUNK}"])
def test_a_path_argument_replaces_the_headers(patch):
    assert [operation.path for operation in parse_patch(patch, path="f")] == ["f"]
    assert apply("keep\nold\n", patch, path="f") == "keep\nnew\n"


def test_a_path_allows_one_file_only():
    patch = f"--- a/f\n+++ b/f\n{HUNK}--- a/g\n+++ b/g\n{HUNK}"

    assert [operation.path for operation in parse_patch(patch)] == ["f", "g"]
    assert refusal(parse_patch, patch, path="f").code == "patch_invalid"


@pytest.mark.parametrize(
    "patch, line",
    [
        (HUNK, 1),
        ("--- a/f\n" + HUNK, 1),
        ("--- a/f\n+++ b/f\n", 1),
        ("--- a/f\n+++ b/f\n@@ -1 +1 @@\n", 3),
        ("--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\nb\n", 5),
        ("--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n", 1),
        ("--- /dev/null\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n", 1),
        ("diff --git a/f b/f\nindex 0..1\n", 1),
        ("diff --git a/f b/f\nindex 0..1\nGIT binary patch\nliteral 1\n", 3),
        ("diff --git a/f b/f\nindex 0..1\nBinary files a/f and b/f differ\n", 3),
        ("diff --git a/f b/g\ncopy from f\ncopy to g\n", 2),
        ("diff --git a/f b/g\nrename from f\n", 1),
        ("commit 1234\n\n    message\n", 3),
    ],
)
def test_an_invalid_unified_diff_is_rejected_with_its_line(patch, line):
    error = refusal(parse_patch, patch)

    assert (error.code, error.details["line"]) == ("patch_invalid", line)


@pytest.mark.parametrize("counts", ["-1,3 +1,3", "-1,9 +1,9", "-1 +1", "-1,1 +1,1", "-1,2 +1,2"])
def test_wrong_hunk_counts_are_tolerated(counts):
    patch = f"--- a/f\n+++ b/f\n@@ {counts} @@\n keep\n-old\n+new\n"

    assert apply("keep\nold\nrest\n", patch) == "keep\nnew\nrest\n"
    assert len(parse_patch(patch + patch)) == 2
    assert len(parse_patch(patch + "\n" + patch)) == 2


def test_removed_and_added_lines_that_look_like_headers_are_content():
    old, new = "x\n-- a\ny\n", "x\n++ b\ny\n"

    assert apply(old, unified_diff(old, new, "f", context=0)) == new
    assert apply(old, unified_diff(old, new, "f")) == new


# --- placing hunks


@pytest.mark.parametrize(
    "text, lines, result",
    [
        ("a\nb\nc\n", ["@@", " a", "-b", "+B"], "a\nB\nc\n"),
        ("a\nb\nc\nd\n", ["@@", "-b", "+B", "@@", "-d", "+D"], "a\nB\nc\nD\n"),
        ("a\nb\na\n", ["@@", "-b", "@@", "-a", "+A"], "a\nA\n"),
        ("a\nb\n", ["@@", "+c"], "a\nb\nc\n"),
        ("a\nb", ["@@", "+c", "@@", "+d"], "a\nb\nc\nd\n"),
        ("a\nb\nc\n", ["@@", "+x", "@@", " a", "-b", "+B"], "a\nB\nc\nx\n"),
        ("a\nb", ["@@", "+x", "@@", "-b", "+B", "@@", "+y"], "a\nB\nx\ny\n"),
        ("", ["@@", "+c"], "c\n"),
        ("a\nb", ["@@", "-b", "+B"], "a\nB\n"),
        ("a\nb", ["@@", " b", "+c"], "a\nb\nc\n"),
        ("a\nb", ["@@", "-a", "+A"], "A\nb"),
        ("a\nb", ["@@", "-b", "@@", "+c"], "a\nc\n"),
        ("a\nb\n", ["@@ a", "+x"], "a\nx\nb\n"),
        ("a\nx\nb\nx\n", ["@@ b", "-x", "+y"], "a\nx\nb\ny\n"),
        (
            "A:\n f\n  x\n g\n  x\nB:\n f\n  x\n",
            ["@@ B:", "@@  f", "-  x", "+  y"],
            "A:\n f\n  x\n g\n  x\nB:\n f\n  y\n",
        ),
        ("A:\n  f:\n    x\n", ["@@ f:", "-    x", "+    y"], "A:\n  f:\n    y\n"),
        ("f:\n x\n", ["@@ f:", " f:", "- x", "+ y"], "f:\n y\n"),
        ("f:\n a\n b\ng:\n b\n", ["@@ f:", "- a", "+ A", "@@ f:", "- b", "+ B"], "f:\n A\n B\ng:\n b\n"),
        ("x\na\nx\n", ["@@", "-x", "+y", "*** End of File"], "x\na\ny\n"),
        ("x\na\nx\n\n\n", ["@@", "-x", "+y", "*** End of File"], "x\na\ny\n\n\n"),
        ("a\nb\n", ["@@", "+c", "*** End of File"], "a\nb\nc\n"),
        ("x\na\nx\nb\n", ["@@ -3,1 +3,1 @@", "-x", "+y"], "x\na\ny\nb\n"),
        ("a\nb\n", ["@@", " a", "-b", "+B", "", "*** End of File"], "a\nB\n"),
        ("a\n\nb\n", ["@@", " a", "", "-b", "+B"], "a\n\nB\n"),
        ("a\r\nb\r\nc\r\n", ["@@", " a", "-b", "+B", "+x"], "a\r\nB\r\nx\r\nc\r\n"),
        ("a\rb\rc\r", ["@@", " a", "-b", "+B"], "a\rB\rc\r"),
        ("a\r\nb\rc\nd\r\n", ["@@", " b", "-c", "+C"], "a\r\nb\rC\nd\r\n"),
        ("a\r\nb\nc\r\n", ["@@", " a", "+x", " b"], "a\r\nx\r\nb\nc\r\n"),
        ("a  \nb\t\nc\n", ["@@", " a", "-b", "+B", " c"], "a  \nB\nc\n"),
        ("\tif  x :\n\t\ty\n", ["@@", " if x:", "-    y", "+\t\tz"], "\tif  x :\n\t\tz\n"),
        ("“a” – b\u00a0c\nd\n", ["@@", ' "a" - b c', "-d", "+D"], "“a” – b\u00a0c\nD\n"),
        ("cafe\u0301\nd\n", ["@@", " caf\u00e9", "-d", "+D"], "cafe\u0301\nD\n"),
    ],
)
def test_a_codex_hunk_is_located(text, lines, result):
    assert apply(text, update(*lines)) == result


@pytest.mark.parametrize(
    "text, hunk, result",
    [
        ("a\nb\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", "a\nB\nc\n"),
        ("x\na\nb\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", "x\na\nB\nc\n"),
        ("b\nc\n", "@@ -9,2 +9,2 @@\n-b\n+B\n c\n", "B\nc\n"),
        ("x\nx\nx\n", "@@ -2 +2 @@\n-x\n+y\n", "x\ny\nx\n"),
        ("0\nx\nm\nx\nx\n", "@@ -2 +2 @@\n-m\n+M\n@@ -3 +3 @@\n-x\n+y\n", "0\nx\nM\ny\nx\n"),
        ("a\nb\n", "@@ -1,0 +2 @@\n+x\n", "a\nx\nb\n"),
        ("a\nb\n", "@@ -0,0 +1 @@\n+x\n", "x\na\nb\n"),
        ("a\nx\nx\nx\n", "@@ -1,0 +2 @@\n+b\n@@ -3 +4 @@\n-x\n+y\n", "a\nb\nx\ny\nx\n"),
        ("a\nb\n", "@@ -2,2 +2,3 @@\n+x\n", "a\nx\nb\n"),
        ("a\nb\n", "@@ -2,0 +3 @@\n+x\n", "a\nb\nx\n"),
        ("a\nb", "@@ -2,0 +3 @@\n+x\n", "a\nb\nx\n"),
        ("a\r\nb\r\n", "@@ -2,0 +3 @@\n+x\n", "a\r\nb\r\nx\r\n"),
        ("a\nb", "@@ -2 +2 @@\n-b\n\\ No newline at end of file\n+b\n", "a\nb\n"),
        ("a\nb\n", "@@ -2 +2 @@\n-b\n+b\n\\ No newline at end of file\n", "a\nb"),
        ("b\na\nb", "@@ -9 +9 @@\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n", "b\na\nc"),
        ("a\nb", "@@ -2 +2 @@\n-b\n+c\n", "a\nc\n"),
        ("a\r\nb\r\n", "@@ -2 +2 @@\n-b\n+c\n", "a\r\nc\r\n"),
        ("a\r\nb\n", "@@ -1,2 +1,3 @@\n a\r\n b\n+c\n", "a\r\nb\nc\n"),
        ("a\nb\n", "@@ -1,2 +1,3 @@\r\n a\r\n b\r\n+c\r\n", "a\nb\nc\n"),
        ("a\nb\nc\nd\n", "@@ -3 +3 @@\n-d\n+D\n@@ -1 +1 @@\n-a\n+A\n", "A\nb\nc\nD\n"),
        ("f:\n x\ng:\n x\n", "@@ g:\n- x\n+ y\n", "f:\n x\ng:\n y\n"),
        ("a\n\nb\n", "@@ -1,3 +1,3 @@\n a\n\n-b\n+B\n", "a\n\nB\n"),
        ("a\n\nb\n", "@@ -1 +1 @@\n a\n\n-b\n+B\n", "a\n\nB\n"),
        ("a\nb\nc\n", "@@ -1,9 +1,9 @@\n-a\n+A\n\n@@ -3 +3 @@\n-c\n+C\n", "A\nb\nC\n"),
    ],
)
def test_a_unified_hunk_is_located(text, hunk, result):
    assert apply(text, "--- a/f\n+++ b/f\n" + hunk) == result


def test_only_removed_and_added_lines_are_in_the_spans():
    data = "“keep”  \r\nold\nkeep \udcff\n".encode("utf-8", "surrogateescape")
    text, encoding = decode(data)
    (operation,) = parse_patch(update("@@", ' "keep"', "-old", "+new", " keep \ufffd"))

    assert encoding == Encoding("utf-8")
    assert splice(data, text, encoding, apply_hunks(text, operation)) == data.replace(b"old\n", b"new\n")


@pytest.mark.parametrize(
    "text, patch, places",
    [
        ("x\na\nx\n", update("@@", "-x", "+y"), [1, 3]),
        ("f\nx\nf\nx\n", update("@@ f", "-x", "+y"), [2, 4]),
        ("f\nx\nf\n", update("@@ f", "+y"), [2, 4]),
        ("a\nx\nx\n", "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+y\n", [2, 3]),
    ],
)
def test_a_hunk_that_matches_several_places_is_rejected(text, patch, places):
    error = refusal(apply, text, patch)

    assert (error.code, error.details) == ("patch_conflict", {"path": "f", "hunk": 1, "lines": places})


@pytest.mark.parametrize(
    "text, patch, result",
    [
        ("x\na\nx\n", update("@@", "-x", "+y"), "y\na\nx\n"),
        ("x\na\nx\nx\n", update("@@", "-a", "+b", "@@", "-x", "+y"), "x\nb\ny\nx\n"),
        ("f\nx\nf\nx\n", update("@@ f", "-x", "+y", "@@ f", "-x", "+y"), "f\ny\nf\ny\n"),
        ("a\r\nb\nc\r\n", update("@@", " a", "-b", "+B", "+C"), "a\r\nB\r\nC\r\nc\r\n"),
        ("a\nb\r\nc\r\n", update("@@", "-b", "+B"), "a\nB\nc\r\n"),
        ("a\r\nb\rc\nd\r\n", update("@@", " a", " b", "-c", "+C"), "a\r\nb\rC\r\nd\r\n"),
        ("x\na\nx\n", "--- a/f\n+++ b/f\n@@ -3 +3 @@\n-x\n+y\n", "x\na\ny\n"),
    ],
)
def test_a_hunk_is_placed_as_codex_places_it(text, patch, result):
    assert apply(text, patch, as_codex=True) == result


@pytest.mark.parametrize(
    "text, patch, hunk, missing",
    [
        ("alpha\nbeta\n", update("@@", " alpha", "-betta", "+x"), 1, "betta"),
        ("alpha\nbeta\n", update("@@", "-beta", "@@", "-alpha"), 2, "alpha"),
        ("alpha\nbeta\n", update("@@ gamma", "-beta"), 1, "gamma"),
        ("alpha\nbeta\n", update("@@ alpha", "@@ gamma", "-beta"), 1, "gamma"),
        ("alpha\nbeta\n", update("@@", " alpha", "-beta", "@@ alpha", "+x"), 2, "alpha"),
        ("alpha\rbeta\n", update("@@", "-gamma"), 1, "gamma"),
        ("alpha\nbeta\n", update("@@", "-alpha", "+x", "*** End of File"), 1, "alpha"),
        ("alpha\nbeta\n", update("@@", " beta", "-alpha"), 1, "beta"),
        ("alpha\nbeta\n", "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-alfa\n+x\n", 1, "alfa"),
        ("alpha\nbeta\n", "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-alpha\n\\ No newline\n+x\n", 1, "alpha"),
        ("alpha\n", "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-alpha\n+x\n@@ -1 +1 @@\n-alpha\n+y\n", 2, "alpha"),
    ],
)
def test_a_hunk_that_matches_nowhere_is_rejected_with_the_missing_line(text, patch, hunk, missing):
    error = refusal(apply, text, patch)

    assert (error.code, error.details["path"], error.details["hunk"]) == ("patch_conflict", "f", hunk)
    assert repr(missing) in error.message


@pytest.mark.parametrize(
    "patch, reason",
    [
        (update("@@", " beta", "-alpha"), "not in this order"),
        (update("@@", "-beta", "@@", "-alpha"), "not below its anchor or the previous hunk"),
        (update("@@ beta", "-alpha"), "not below its anchor or the previous hunk"),
        (update("@@", "-alpha", "*** End of File"), "not at its end"),
    ],
)
def test_the_reason_for_a_mismatch_is_reported(patch, reason):
    error = refusal(apply, "alpha\nbeta\ngamma\n", patch)

    assert f"in the file, but {reason}." in error.message


def test_the_nearest_line_to_a_missing_one_is_named():
    error = refusal(apply, "one\ndef compute(a):\n", update("@@", "-def compute(b):", "+x"))

    assert error.details == {"path": "f", "hunk": 1, "nearest_line": 2, "nearest_text": "def compute(a):"}


# --- properties

LINES = st.lists(
    st.sampled_from(["a\n", "b\n", "c\n", "\n", "a\r\n", "-- x\n", "++ y\n", "@@ z\n", "é\n"]), max_size=25
)
TEXTS = st.builds(lambda lines, end: "".join(lines) + end, LINES, st.sampled_from(["", "end", "a", "x\r"]))


@given(TEXTS, TEXTS, st.integers(1, 4))
def test_applying_a_diff_gives_the_new_text(old, new, context):
    patch = unified_diff(old, new, "f", context=context)

    assert (apply(old, patch) if patch else old) == new


@settings(deadline=None)
@given(TEXTS)
def test_a_diff_that_adds_or_deletes_a_file_holds_its_whole_text(text):
    (added,) = parse_patch(unified_diff(None, text, "f"))
    (deleted,) = parse_patch(unified_diff(text, None, "f"))

    assert (added.kind, added.content, deleted.kind) == ("add", text, "delete")
    assert "".join(span.new for span in apply_hunks(text, deleted)) == ""
    assert sum(span.end - span.start for span in apply_hunks(text, deleted)) == len(text)


@given(st.data())
def test_a_diff_still_applies_when_lines_were_inserted_above(data):
    lines = [f"line {n}\n" for n in range(40)]
    new = list(lines)
    for at in data.draw(st.lists(st.integers(0, 39), min_size=1, max_size=6)):
        new[at] = data.draw(st.sampled_from(["changed\n", "", "two\nlines\n"]))
    above = "".join(f"above {n}\n" for n in range(data.draw(st.integers(0, 9))))
    patch = unified_diff("".join(lines), "".join(new), "f")

    assert not patch or apply(above + "".join(lines), patch) == above + "".join(new)


@given(st.data(), st.sampled_from(["\n", "\r\n"]))
def test_a_codex_patch_made_of_a_diff_gives_the_new_text(data, ending):
    lines = [f"line {n}" for n in range(30)]
    new = list(lines)
    for at in data.draw(st.sets(st.integers(0, 29), min_size=1, max_size=6)):
        new[at] = data.draw(st.sampled_from(["changed", "  indented", "“quoted”"]))
    signs = {"context": " ", "removed": "-", "added": "+"}
    hunks = stripped(compare("\n".join(lines), "\n".join(new)))
    body = [line for hunk in hunks for line in ("@@", *(signs[kind] + text for kind, text in hunk.changes))]

    result = apply("".join(line + ending for line in lines), update(*body))

    assert result == "".join(line + ending for line in new)


@given(
    st.text('*@+- \nBeginPatchEdFl:/ab\\\r\t"0,'), st.sampled_from(["", "*** Begin Patch\n", "--- a\n+++ b\n", "@@ "])
)
def test_any_text_is_parsed_or_rejected(text, head):
    try:
        outcome = [operation.path for operation in parse_patch(head + text, path="f")]
    except ToolError as error:
        outcome = [error.code]

    assert outcome in (["f"], ["patch_invalid"])


@pytest.mark.parametrize(
    "make",
    [
        lambda n: ("x\n" * n, update("@@", *["-x"] * (n // 2), "+y")),
        lambda n: ("x\n" * n, update("@@", *["-x"] * (n // 4), "-z")),
        lambda n: ("x\n" * n, "--- a/f\n+++ b/f\n@@ -1 +1 @@\n" + "-x\n" * (n // 2) + "-z\n"),
        lambda n: ("x\n" * n, update("@@ x", *["-x"] * (n // 2), "+y")),
        lambda n: ("x\n" * n, update("@@", "-x", *[""] * n, "-y")),
        lambda n: ("\n" * n, update("@@", "-y", *[""] * n, "*** End of File")),
    ],
)
def test_work_is_linear_in_the_file(make):
    small, large = (count_steps(refusal, apply, *make(n)) for n in (500, 4_000))

    assert large < 10 * small + 1_000


def test_a_patch_of_many_hunks_is_applied():
    lines = [f"{n} {random.Random(n).random()}\n" for n in range(2_000)]
    new = [f"changed {n}\n" if n % 20 == 0 else line for n, line in enumerate(lines)]

    assert apply("".join(lines), unified_diff("".join(lines), "".join(new), "f")) == "".join(new)
