"""The next step after an error is said to the user as to somebody who has nobody to ask."""

import re
from pathlib import Path

import pytest

import hilt
from hilt.errors import CODES, ToolError
from hilt.output.advice import for_user, next_step

# the beginnings of suggestions, up to a value or the end of the string
_WRITTEN = sorted(
    {
        found
        for path in Path(hilt.__file__).parent.rglob("*.py")
        for found in re.findall(
            r"""(?:suggestion|advice|_FIX|_ADVICE|_DAMAGED)\s*=\s*\(?\s*f?["'](.+?)["'],?\)?$""",
            path.read_text(),
            re.MULTILINE,
        )
    }
)


@pytest.mark.parametrize("code", CODES)
def test_the_default_advice_of_a_code_speaks_to_the_user(code):
    assert not re.search(r"the user|\btheir\b|list_tools|action", next_step(ToolError(code, "It failed.")))


@pytest.mark.parametrize("suggestion", _WRITTEN)
def test_written_advice_speaks_to_the_user(suggestion):
    assert not re.search(r"(ask|have|tell) the user", for_user(suggestion), re.IGNORECASE)


def test_the_advice_is_what_the_user_does():
    assert for_user("Ask the user to run: hilt trust a. Then repeat the call with approval: '4c1e'.") == (
        "Run: hilt trust a. Then repeat the call."
    )
    assert for_user("Use search_files, or ask the user to check it. Then go on.") == (
        "Use search_files, or check it. Then go on."
    )
    assert for_user("[undo: 1 file changed; undo restore 1b9d7e1495f9 reverts it]") == (
        "[undo: 1 file changed; hilt undo restore 1b9d7e1495f9 reverts it]"
    )
    assert for_user("Ask the user whether to convert the file to UTF-8, then write the whole file.") == (
        "Decide whether to convert the file to UTF-8, then write the whole file."
    )
