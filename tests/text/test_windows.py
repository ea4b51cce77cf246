from __future__ import annotations

import pytest

from hilt.text.windows import block_end

DECORATED = "@first\n@second\ndef f(a):\n    if a:\n        return [\n            1,\n        ]\n    return 2\n"
CALLED = '@route(\n    "/x",\n)\nasync def f():\n    return 1\n'
QUERY = 'Q = """\nselect *\nfrom a\nwhere b\nand c\nand d\nand e\nand f\nand g\nand h\nand i\nand j\n"""\n'
ALLMAN = "int f(void)\n{\n  if (a)\n  {\n    b();\n  }\n}\n"


@pytest.mark.parametrize(
    "extension, block", [("py", DECORATED), ("py", CALLED), ("py", QUERY), ("c", ALLMAN), ("java", ALLMAN)]
)
def test_the_last_block_is_complete_wherever_the_cut_is(extension, block):
    size = block.count("\n")
    lines = (block * 20).splitlines()

    assert [block_end(lines, limit, extension) for limit in range(10 * size, 11 * size)] == [10 * size] * size
