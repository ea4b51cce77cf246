from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.formats import toml_tables
from hilt.formats.jsonc import NotEditable
from hilt.formats.toml_tables import loads, with_table, without_table

PATH = ("mcp_servers", "hilt")
VALUES = {"command": "/bin/hilt", "args": ["mcp", "--lean"]}
TABLE = '[mcp_servers.hilt]\ncommand = "/bin/hilt"\nargs = ["mcp", "--lean"]\n'

SETTINGS = """\
# mine
model = "m" # the best

[mcp_servers.other]
command = "x"

[mcp_servers.hilt] # here
# why
command = "old"
args = [
  "a", # b
]
startup_timeout_sec = 5

[mcp_servers.hilt.env]
A = "1"

# about the screen
[tui]
notifications = true
"""


def test_a_table_is_replaced_with_its_comments_and_the_rest_stays():
    edited = with_table(SETTINGS, PATH, VALUES)

    start, end = SETTINGS.index("# why"), SETTINGS.index("\n# about")
    new = 'command = "/bin/hilt"\nargs = ["mcp", "--lean"]\n# why\n'
    assert edited == SETTINGS[:start] + new + SETTINGS[end:]


def test_a_table_is_removed_with_its_subtables():
    start, end = SETTINGS.index("[mcp_servers.hilt]"), SETTINGS.index("\n# about")

    assert without_table(SETTINGS, PATH) == SETTINGS[: start - 1] + SETTINGS[end:]


@pytest.mark.parametrize(
    "before, after",
    [
        ("", TABLE),
        ("a = 1", "a = 1\n\n" + TABLE),
        ("a = 1\n", "a = 1\n\n" + TABLE),
        ("[b]\nc = 1\r\n", "[b]\nc = 1\r\n\r\n" + TABLE.replace("\n", "\r\n")),
        ("[mcp_servers]\nx = { command = 'y' }\n", "[mcp_servers]\nx = { command = 'y' }\n\n" + TABLE),
        ("[ mcp_servers . 'hilt' ]\n", TABLE.replace("[mcp_servers.hilt]", "[ mcp_servers . 'hilt' ]")),
        ("[mcp_servers.hilt]", TABLE),
        ("[mcp_servers.hilt] # see [b]\nx = 1\n", TABLE.replace("t]\n", "t] # see [b]\n", 1)),
        ("[mcp_servers.'a[b']\nx = 1\n", "[mcp_servers.'a[b']\nx = 1\n\n" + TABLE),
        ("[mcp_servers.hilt-2]\nx = 1\n", "[mcp_servers.hilt-2]\nx = 1\n\n" + TABLE),
    ],
)
def test_a_table_is_added(before, after):
    assert with_table(before, PATH, VALUES) == after


@pytest.mark.parametrize(
    "text",
    [
        "[mcp_servers.hilt]\nargs = [\n  'mcp', # it\n  '--lean',\n]\ncommand = '/bin/hilt'\n",
        "mcp_servers.hilt = { command = '/bin/hilt', args = ['mcp', '--lean'] }\n",
    ],
)
def test_an_existing_equal_table_keeps_its_formatting(text):
    assert with_table(text, PATH, VALUES) == text


@pytest.mark.parametrize("text", ["", "a = 1\n", "[mcp_servers.other]\nx = 1\n"])
def test_removing_an_added_entry_restores_the_file(text):
    assert without_table(with_table(text, PATH, VALUES), PATH) == text
    assert without_table(text, PATH) == text


@pytest.mark.parametrize(
    "text",
    [
        "not toml",
        "mcp_servers = {}\n",
        "mcp_servers = 3\n",
        "mcp_servers.hilt.command = 'x'\n",
        "[mcp_servers]\nhilt = { command = 'x' }\n",
        "[[mcp_servers.hilt]]\nx = 1\n",
        'a = """\n[mcp_servers.hilt]\n"""\n',
        "a = '''\n[mcp_servers.hilt]\ncommand = 'x'\n'''\n[mcp_servers.hilt]\ncommand = 'y'\n",
    ],
)
def test_a_file_that_cannot_be_edited_safely_is_not_edited(text):
    with pytest.raises(NotEditable):
        with_table(text, PATH, VALUES)


@pytest.mark.parametrize("text", ["mcp_servers.hilt.command = 'x'\n", "[mcp_servers]\nhilt = { command = 'x' }\n"])
def test_an_inline_table_is_not_removed(text):
    with pytest.raises(NotEditable):
        without_table(text, PATH)


@given(st.text(), st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=3), st.text(min_size=1))
def test_any_text_survives_writing_and_reading(command, args, name):
    edited = with_table("a = 1\n", ("mcp_servers", name), {"command": command, "args": args})

    assert tomllib.loads(edited) == {"a": 1, "mcp_servers": {name: {"command": command, "args": args}}}
    assert without_table(edited, ("mcp_servers", name)) == "a = 1\n"


@pytest.mark.parametrize("key", ["a." * 50_000 + "a = 1", "[" + "'a' . " * 50_000 + "a]", '"a".' * 50_000 + "a = 1"])
def test_a_key_of_very_many_parts_is_rejected_without_parsing(key):
    with pytest.raises(ValueError, match="a key has more than 100 parts"):
        loads(f"x = 1\n{key}\n")


def test_long_texts_and_keys_are_accepted():
    text = f"version = '{'Some words. ' * 500}'\n{'a.' * 50}b = {'1' * 300}\nc = [{'1.5, ' * 500}]\n"

    assert loads(text)["version"] == "Some words. " * 500


def test_looking_for_long_keys_takes_linear_time():
    for text in ("a" * 2_000_000, "a" * 50 + ". " * 1_000_000, "'" * 1_000_001, '"a' * 500_000, "a.b.c\n" * 300_000):
        assert toml_tables._LONG_KEY.search(text) is None
