"""Our verdicts on skills equal those of the reference validator."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from skills_ref import validate  # type: ignore[import-untyped]

from hilt.skills.checking import check
from tests.formats.test_strict_yaml import TEXTS

GOOD = "---\nname: pdf\ndescription: Works with PDF files.\n---\nBody\n"


def reference(path: Path) -> bool:
    """Return whether the reference validator accepts a skill; a crash counts as rejection."""
    try:
        return not validate(path)
    except NotImplementedError:
        reject()  # a bug of the validator with comments that it generates itself
    except Exception:  # noqa: BLE001
        return False


def skill(base: Path, text: str | bytes, folder: str = "pdf", file: str = "SKILL.md") -> Path:
    path = base / folder
    path.mkdir(parents=True)
    (path / file).write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


FRONTS = {
    "good": (GOOD, True),
    "every field": (
        "---\nname: pdf\ndescription: d\nlicense: MIT\ncompatibility: c\nallowed-tools: Read\nmetadata:\n  a: b\n---\n",
        True,
    ),
    "unknown field": ("---\nname: pdf\ndescription: d\nversion: 1\n---\n", False),
    "no name": ("---\ndescription: d\n---\n", False),
    "no description": ("---\nname: pdf\n---\n", False),
    "empty name": ("---\nname:\ndescription: d\n---\n", False),
    "blank description": ("---\nname: pdf\ndescription: '  '\n---\n", False),
    "other name": ("---\nname: docx\ndescription: d\n---\n", False),
    "upper-case": ("---\nname: PDF\ndescription: d\n---\n", False),
    "quoted": ("---\nname: 'pdf'\ndescription: \"d\"\n---\n", True),
    "name in blanks": ("---\nname: ' pdf '\ndescription: d\n---\n", True),
    "list as name": ("---\nname:\n- pdf\ndescription: d\n---\n", False),
    "mapping as description": ("---\nname: pdf\ndescription:\n  a: b\n---\n", False),
    "long description": (f"---\nname: pdf\ndescription: {'d' * 1025}\n---\n", False),
    "longest description": (f"---\nname: pdf\ndescription: {'d' * 1024}\n---\n", True),
    "long compatibility": (f"---\nname: pdf\ndescription: d\ncompatibility: {'c' * 501}\n---\n", False),
    "compatibility is a list": ("---\nname: pdf\ndescription: d\ncompatibility:\n- c\n---\n", False),
    "flow style": ("---\nname: pdf\ndescription: d\nallowed-tools: [Read]\n---\n", False),
    "tools as a list": ("---\nname: pdf\ndescription: d\nallowed-tools:\n- Read\n---\n", True),
    "colon": ("---\nname: pdf\ndescription: Use when: asked\n---\n", False),
    "folded": ("---\nname: pdf\ndescription: >\n  one\n  two\n---\n", True),
    "dashes end it early": ("---\nname: pdf\ndescription: a---b\nversion: 1\n---\n", True),
    "no end": ("---\nname: pdf\ndescription: d\n", False),
    "no start": ("name: pdf\n", False),
    "empty": ("", False),
    "only a list": ("---\n- a\n---\n", False),
    "crlf": (GOOD.replace("\n", "\r\n"), True),
    "cr": (GOOD.replace("\n", "\r"), True),
    "byte order mark": ("\ufeff" + GOOD, False),
    "blank before": ("\n" + GOOD, False),
    "not utf-8": (b"---\nname: pdf\ndescription: \xff\n---\n", False),
    "control character": ("---\nname: pdf\ndescription: \x07\n---\n", False),
    "tab": ("---\nname: pdf\ndescription:\td\n---\n", False),
    "duplicate": ("---\nname: pdf\nname: pdf\ndescription: d\n---\n", False),
    "anchor": ("---\nname: &n pdf\ndescription: d\n---\n", False),
    "tag": ("---\nname: !!str pdf\ndescription: d\n---\n", False),
    "json": ('---json\n{"name": "pdf"}\n---\n', False),
    "opening with more": ("--- name: pdf\n---\n", False),
    "metadata of anything": ("---\nname: pdf\ndescription: d\nmetadata: text\n---\n", True),
    "plain equals sign": ("---\nname: pdf\ndescription: =\n---\n", False),
}


@pytest.mark.parametrize("text, is_valid", FRONTS.values(), ids=FRONTS)
def test_front_matter_gets_the_verdict_of_the_reference(tmp_path, text, is_valid):
    path = skill(tmp_path, text)

    assert (check(str(path)) == []) is reference(path) is is_valid


@pytest.mark.parametrize(
    "name",
    [
        *(
            "a",
            "a1",
            "1a",
            "a-b",
            "-a",
            "a-",
            "a--b",
            "a_b",
            "a.b",
            "a b",
            "é",
            "e\u0301",
            "ﬁle",
            "ß",
            "ſ",
            "日本",
            "а",
        ),
        *("x" * 64, "x" * 65, "ǆ", "ª", "²", "x\u200d", "İ"),
    ],
)
def test_a_name_gets_the_verdict_of_the_reference(tmp_path, name):
    path = skill(tmp_path, f"---\nname: {name}\ndescription: d\n---\n", folder=name)

    assert (check(str(path)) == []) is reference(path)


@given(TEXTS)
def test_generated_front_matter_gets_the_verdict_of_the_reference(text):
    with tempfile.TemporaryDirectory() as base:
        path = skill(Path(base), f"---\nname: pdf\ndescription: d\n{text}\n---\n")

        assert (check(str(path)) == []) is reference(path)


@given(st.binary(max_size=60))
def test_any_bytes_get_the_verdict_of_the_reference(data):
    with tempfile.TemporaryDirectory() as base:
        path = skill(Path(base), data)

        assert (check(str(path)) == []) is reference(path)


@given(st.text(max_size=8), st.text(st.characters(exclude_characters="/\0", codec="utf-8"), min_size=1, max_size=8))
def test_any_name_and_folder_get_the_verdict_of_the_reference(name, folder):
    if folder in (".", ".."):
        return
    with tempfile.TemporaryDirectory() as base:
        path = skill(Path(base), f"---\nname: {name}\ndescription: d\n---\n", folder=folder)

        assert (check(str(path)) == []) is reference(path)


def test_a_folder_gets_the_verdict_of_the_reference(tmp_path):
    lower = skill(tmp_path, GOOD.replace("pdf", "lower"), "lower", "skill.md")
    both = skill(tmp_path, GOOD.replace("pdf", "both"), "both")
    (both / "skill.md").write_text("nothing")
    linked = tmp_path / "linked"
    linked.symlink_to(skill(tmp_path, GOOD.replace("pdf", "linked"), "elsewhere"))
    folder = tmp_path / "folder"
    (folder / "SKILL.md").mkdir(parents=True)
    empty = tmp_path / "empty"
    empty.mkdir()
    for path in (lower, both, linked, folder, empty, tmp_path / "missing"):
        assert (check(str(path)) == []) is reference(path), path
    assert check(str(both)) == check(str(both / "SKILL.md")) == check(f"{both}/") == []


def test_a_pipe_and_a_huge_file_are_rejected_without_reading_them(tmp_path):
    pipe, huge = tmp_path / "pipe", tmp_path / "huge"
    for folder in (pipe, huge):
        folder.mkdir()
    os.mkfifo(pipe / "SKILL.md")
    with open(huge / "SKILL.md", "wb") as file:
        file.truncate(1 << 40)

    assert "not a regular file" in check(str(pipe))[0]
    assert "more than" in check(str(huge))[0]
