from __future__ import annotations

import ast
import base64
import io
import os
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from hilt import wire
from hilt.files.reading import image_type

KB50 = 50 * 1024


def numbered(*lines: str, first: int = 1) -> str:
    last = first + len(lines) - 1
    width = len(str(last))
    return "\n".join(f"{number:>{width}}\t{line}" for number, line in enumerate(lines, first))


def lines(count: int) -> str:
    return "".join(f"line {number}\n" for number in range(1, count + 1))


# --- windows ----------------------------------------------------------------------------------------------------


def test_lines_have_right_justified_numbers(runtime, workspace):
    workspace.write("a.txt", lines(10))

    assert runtime.call("read_file", path="a.txt").text == numbered(*lines(10).splitlines())


def test_an_empty_file_is_an_empty_result(runtime, workspace):
    workspace.write("empty.txt")

    result = runtime.call("read_file", path="empty.txt")

    assert (result.ok, result.text) == (True, "")
    assert wire.envelope(result)["result"] == ""


@pytest.mark.parametrize(
    "window", [{"start_line": 2}, {"start_line": 5, "end_line": 9}, {"start_line": 3, "truncate": "tail"}]
)
def test_an_empty_file_has_no_second_line(runtime, workspace, window):
    workspace.write("empty.txt")

    error = runtime.call("read_file", path="empty.txt", **window).error

    assert (error.code, error.details["total_lines"]) == ("past_end", 0)
    assert error.suggestion == "Use a start_line from 1 to 1."


@pytest.mark.parametrize(
    "args, expected",
    [
        ({"start_line": 3, "end_line": 5}, numbered("line 3", "line 4", "line 5", first=3)),
        ({"start_line": 9}, numbered("line 9", "line 10", first=9)),
        ({"end_line": 2}, numbered("line 1", "line 2")),
        ({"start_line": 10, "end_line": 10}, numbered("line 10", first=10)),
        ({"start_line": 8, "end_line": 999}, numbered("line 8", "line 9", "line 10", first=8)),
        ({"tail": 2}, numbered("line 9", "line 10", first=9)),
        ({"tail": 99}, numbered(*lines(10).splitlines())),
        ({"tail": 1, "start_line": 2, "end_line": 3}, numbered("line 10", first=10)),
        ({"tail": 1, "start_line": 99}, numbered("line 10", first=10)),
        ({"tail": 0, "end_line": 1}, numbered("line 1")),
        ({"line_numbers": False, "start_line": 2, "end_line": 3}, "line 2\nline 3"),
        ({"start_line": 2.0, "end_line": 2.0}, numbered("line 2", first=2)),
        ({"start_line": None, "end_line": None, "tail": None, "truncate": None, "line_numbers": None}, None),
    ],
)
def test_the_requested_window_is_returned(runtime, workspace, args, expected):
    workspace.write("a.txt", lines(10))

    text = runtime.call("read_file", path="a.txt", **args).text

    assert text.partition("\n[Showing")[0] == (expected or numbered(*lines(10).splitlines()))


@pytest.mark.parametrize("end, next_line", [(3, 4), (9, 10)])
def test_a_window_before_the_end_has_the_next_call_and_saves_nothing(runtime, workspace, end, next_line):
    workspace.write("a.txt", lines(10))

    result = runtime.call("read_file", path="a.txt", end_line=end)

    assert result.text.endswith(f"\n[Showing lines 1-{end} of 10. Use start_line={next_line} to continue.]")
    assert result.meta["truncation"] == {
        "truncated": True,
        "total_lines": 10,
        "output_lines": end,
        "next": {"tool": "read_file", "args": {"path": "a.txt", "start_line": next_line}},
    }


def test_the_next_call_also_omits_line_numbers(runtime, workspace):
    workspace.write("a.txt", lines(10))

    result = runtime.call("read_file", path="a.txt", end_line=3, line_numbers=False)
    next_args = result.meta["truncation"]["next"]["args"]

    assert runtime.call("read_file", **next_args).text == "\n".join(lines(10).splitlines()[3:])


@pytest.mark.parametrize(
    "args, code, fragment",
    [
        ({"start_line": 11}, "past_end", "has 10 lines; start_line 11 is past the end"),
        ({"start_line": 10**400}, "past_end", "has 10 lines"),
        ({"start_line": 5, "end_line": 4}, "invalid_args", "end_line 4 is before start_line 5"),
        ({"tail": -1}, "invalid_args", "tail must be at least 0"),
        ({"start_line": "2"}, "invalid_args", 'start_line must be an integer, not a string ("2")'),
        ({"start_line": True}, "invalid_args", "start_line must be an integer, not a boolean"),
        ({"start_line": 1.5}, "invalid_args", "start_line must be an integer, not a number (1.5)"),
        ({"line_numbers": "yes"}, "invalid_args", "line_numbers must be a boolean"),
        ({"line_numbers": 1}, "invalid_args", "line_numbers must be a boolean"),
        ({"truncate": "heads"}, "invalid_args", "truncate must be one of head, tail, middle, none, smart"),
        ({"truncate": ""}, "invalid_args", "truncate must be one of"),
        ({"startline": 2}, "invalid_args", "did you mean start_line?"),
        ({"offset": 2}, "invalid_args", "offset is not an argument"),
    ],
)
def test_an_invalid_argument_is_rejected_with_the_facts(runtime, workspace, args, code, fragment):
    workspace.write("a.txt", lines(10))

    error = runtime.call("read_file", path="a.txt", **args).error

    assert error.code == code
    assert fragment in error.message
    assert error.suggestion


def test_all_invalid_arguments_are_reported_at_once(runtime, workspace):
    error = runtime.call("read_file", start_line="x", tail=-1, nothing=1).error

    assert [violation["path"] for violation in error.details["violations"]] == ["start_line", "tail", "nothing", "path"]


@pytest.mark.parametrize("start, end", [(5, 4), (1, 0), (1, -3)])
def test_an_end_before_the_start_suggests_a_valid_end(runtime, workspace, start, end):
    workspace.write("a.txt", lines(9))

    error = runtime.call("read_file", path="a.txt", start_line=start, end_line=end).error

    assert (error.code, error.suggestion) == ("invalid_args", f"Use an end_line of {start} or more.")


def test_a_start_below_one_is_clamped_with_a_note(runtime, workspace):
    workspace.write("a.txt", "a\n")

    result = runtime.call("read_file", path="a.txt", start_line=0)

    assert (result.text, result.meta["notes"]) == ("1\ta", ["start_line 0 was changed to 1, its minimum"])


# --- limits -----------------------------------------------------------------------------------------------------


def test_two_thousand_lines_are_returned_in_full_and_one_more_is_truncated(runtime, workspace):
    workspace.write("exact.txt", lines(2000))
    workspace.write("more.txt", lines(2001))

    whole, truncated = (runtime.call("read_file", path=path) for path in ("exact.txt", "more.txt"))

    assert "truncation" not in whole.meta
    assert whole.text == numbered(*lines(2000).splitlines())
    remainder = truncated.meta["truncation"]["remainder"]
    note = f"\n[Showing lines 1-2000 of 2001. Use start_line=2001 to continue. Remainder saved to {remainder}.]"
    assert truncated.text == whole.text + note
    assert os.stat(remainder).st_mode & 0o777 == 0o600


def test_two_thousand_lines_without_a_final_newline_are_returned_in_full(runtime, workspace):
    workspace.write("exact.txt", lines(2000)[:-1])

    assert "truncation" not in runtime.call("read_file", path="exact.txt").meta


@pytest.mark.parametrize(
    "truncate, expected, removed",
    [
        ("head", [(1, 2000)], (2001, 5000)),
        ("smart", [(1, 2000)], (2001, 5000)),
        ("tail", [(3001, 5000)], (1, 3000)),
        ("middle", [(1, 1000), (4001, 5000)], (1001, 4000)),
    ],
)
def test_each_strategy_keeps_its_part_and_saves_the_rest(runtime, workspace, truncate, expected, removed):
    workspace.write("a.txt", lines(5000))

    result = runtime.call("read_file", path="a.txt", truncate=truncate, line_numbers=False)

    body, _, note = result.text.rpartition("\n[Showing lines ")
    lines_shown = [line for line in body.split("\n") if not line.startswith("[... ")]
    assert lines_shown == [f"line {number}" for first, last in expected for number in range(first, last + 1)]
    assert note.startswith(" and ".join(f"{first}-{last}" for first, last in expected) + " of 5000.")
    rest = runtime.call("read_file", path=result.meta["truncation"]["remainder"], line_numbers=False, end_line=2)
    assert rest.text.startswith(f"line {removed[0]}\nline {removed[0] + 1}")
    with open(result.meta["truncation"]["remainder"], encoding="utf-8") as file:
        assert file.read() == "".join(f"line {number}\n" for number in range(removed[0], removed[1] + 1))


def test_the_strategy_none_has_no_line_limit(runtime, workspace):
    workspace.write("a.txt", "x\n" * 5000)

    result = runtime.call("read_file", path="a.txt", truncate="none")

    assert "truncation" not in result.meta
    assert result.text.count("\n") == 4999


@pytest.mark.parametrize("truncate", ["head", "tail", "middle", "none", "smart"])
@pytest.mark.parametrize("line_numbers", [True, False])
def test_fifty_kilobytes_are_the_limit_for_every_strategy(runtime, workspace, truncate, line_numbers):
    text = "".join(f"{number:05d} {'é' * 60}\n" for number in range(1, 1001))
    workspace.write("a.txt", text)

    result = runtime.call("read_file", path="a.txt", truncate=truncate, line_numbers=line_numbers)

    body = result.text.rpartition("\n[Showing lines ")[0]
    assert KB50 - 600 < len(body.encode()) <= KB50 + 100
    truncation = result.meta["truncation"]
    with open(truncation["remainder"], encoding="utf-8") as file:
        remainder = file.read()
    prefixes = {line.rpartition("\t")[2][:5] for line in body.split("\n")} - {"[... "}
    assert prefixes.isdisjoint(line[:5] for line in remainder.splitlines())
    assert len(prefixes) == truncation["output_lines"]
    assert len(prefixes) + len(remainder.splitlines()) == 1000


@pytest.mark.parametrize("truncate", ["head", "tail", "middle", "none", "smart"])
@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_a_line_too_long_to_show_is_continued_exactly_where_it_was_cut(runtime, workspace, truncate, ending):
    line = "".join(f"{number:06d}" for number in range(20_000))
    workspace.write("one.txt", line + ending)

    result = runtime.call("read_file", path="one.txt", truncate=truncate)

    body, _, note = result.text.removeprefix("1\t").rpartition("\n[Showing lines ")
    assert note.startswith("1-1 of 1. Line 1 is too long to show in full.")
    assert KB50 - 100 < len(body) <= KB50
    with open(result.meta["truncation"]["remainder"], encoding="utf-8", newline="") as file:
        remainder = file.read().rstrip("\r\n").replace("\n", "")
    assert (remainder + body if truncate == "tail" else body + remainder) == line


def test_the_remainder_of_one_long_line_can_itself_be_read_to_its_end(runtime, workspace):
    workspace.write("one.txt", "x" * 300_000)

    remainder = runtime.call("read_file", path="one.txt").meta["truncation"]["remainder"]
    count, args = 0, {"path": remainder, "line_numbers": False}
    while args:
        result = runtime.call("read_file", **args)
        count += result.text.partition("\n[Showing")[0].count("x")
        args = result.meta.get("truncation", {}).get("next", {}).get("args")

    assert count == 300_000 - (KB50 - 3)


def test_the_middle_strategy_moves_a_long_first_line_to_the_remainder(runtime, workspace):
    workspace.write("a.txt", "y" * 60_000 + "\n" + lines(10))

    result = runtime.call("read_file", path="a.txt", truncate="middle", line_numbers=False)

    assert result.text.startswith("line 5\n")
    with open(result.meta["truncation"]["remainder"], encoding="utf-8") as file:
        assert file.read().replace("\n", "") == "y" * 60_000 + "line 1line 2line 3line 4"


@given(
    st.lists(st.integers(0, 400), min_size=1, max_size=400),
    st.sampled_from(["head", "tail", "middle", "none", "smart"]),
    st.booleans(),
)
def test_the_shown_part_and_the_remainder_are_the_whole_file(lengths, truncate, numbers):
    """Shown lines and remainder together are the lines of the file, none lost and none repeated."""
    from hilt.text import windows

    text = [f"{index}:".ljust(length, "ü") for index, length in enumerate(lengths)]
    window = windows.select(text, 1, truncate, "go", numbered=numbers)

    assert sum(len(line.encode()) + 1 for part in window.parts for line in part.lines) <= KB50
    for part in window.parts:
        assert part.lines == text[part.first - 1 : part.last]
    assert window.cut == (window.shown < len(text))


def test_nothing_is_saved_when_nothing_was_truncated(runtime, workspace, base):
    workspace.write("a.txt", lines(100))

    runtime.call("read_file", path="a.txt")
    runtime.call("read_file", path="a.txt", start_line=5, end_line=6)
    runtime.call("read_file", path="a.txt", tail=3)

    assert not os.path.exists(os.path.join(base, "state", "overflow"))


def test_the_remainder_is_read_only(runtime, workspace):
    workspace.write("a.txt", lines(2001))
    remainder = runtime.call("read_file", path="a.txt").meta["truncation"]["remainder"]

    error = runtime.call("write_file", path=remainder, content="x").error

    assert error.code in ("protected_path", "path_outside_workspace")
    with open(remainder, encoding="utf-8") as file:
        assert file.read() == "line 2001\n"


def test_files_over_fifty_megabytes_are_rejected_even_for_a_window(runtime, workspace):
    with open(workspace.join("big.txt"), "wb") as file:
        file.truncate(50 * 1024 * 1024 + 1)

    for args in ({}, {"start_line": 1, "end_line": 2}, {"tail": 1}, {"max_bytes": 10}):
        error = runtime.call("read_file", path="big.txt", **args).error
        assert error.code == "file_too_large"
        assert "search_files" in error.suggestion


def test_a_file_of_exactly_fifty_megabytes_is_read(runtime, workspace):
    with open(workspace.join("big.txt"), "wb") as file:
        file.write(b"x\n" * 25 * 1024 * 1024)

    assert runtime.call("read_file", path="big.txt", tail=1).text == f"{25 * 1024 * 1024}\tx"


# --- smart ------------------------------------------------------------------------------------------------------

GO = 'func f%d() {\n\tif x { // }\n\t\ty("{")\n\t}\n}\n\n'
PYTHON = 'def f%d():\n    if x:\n        return \'{\'\n    return """\n"""\n\n\n'
SHELL = "f%d() {\n  if true; then\n    echo '}'\n  fi\n}\n\n"
RUBY = "def f%d\n  if x\n    y\n  end\nend\n\n"


@pytest.mark.parametrize(
    "name, block, last",
    [
        ("a.go", GO, "}"),
        ("a.rs", GO, "}"),
        ("a.ts", GO, "}"),
        ("a.js", GO, "}"),
        ("a.java", GO, "}"),
        ("a.c", GO, "}"),
        ("a.cpp", GO, "}"),
        ("a.h", GO, "}"),
        ("a.hpp", GO, "}"),
        ("a.tsx", GO, "}"),
        ("a.jsx", GO, "}"),
        ("a.py", PYTHON, '"""'),
        ("a.sh", SHELL, "}"),
        ("a.rb", RUBY, "end"),
    ],
)
def test_smart_ends_with_a_complete_block(runtime, workspace, name, block, last):
    workspace.write(name, "".join(block % number for number in range(700)))

    result = runtime.call("read_file", path=name, truncate="smart", line_numbers=False)

    body = result.text.rpartition("\n[Showing lines ")[0]
    assert body.rstrip().endswith(f"\n{last}")
    assert 1990 <= result.meta["truncation"]["output_lines"] <= 2000
    next_line = result.meta["truncation"]["next"]["args"]["start_line"]
    rest = runtime.call("read_file", path=name, start_line=next_line, line_numbers=False).text.lstrip("\n")
    assert rest.startswith((block % 0).split("0")[0])


def test_smart_ends_with_a_complete_block_at_the_byte_limit(runtime, workspace):
    workspace.write("a.go", "".join(GO.replace("y(", f"y({'1' * 200}, ") % number for number in range(300)))

    body = runtime.call("read_file", path="a.go", truncate="smart", line_numbers=False).text

    assert body.rpartition("\n[Showing lines ")[0].rstrip().endswith("\n}")


def test_smart_falls_back_to_the_head_for_other_files(runtime, workspace):
    workspace.write("a.log", lines(2500))

    assert runtime.call("read_file", path="a.log", truncate="smart").meta["truncation"]["output_lines"] == 2000


def test_smart_is_the_head_when_one_block_fills_the_window(runtime, workspace):
    workspace.write("a.go", "func f() {\n" + "\tx()\n" * 3000 + "}\n")

    assert runtime.call("read_file", path="a.go", truncate="smart").meta["truncation"]["output_lines"] == 2000


def test_smart_accepts_python_that_does_not_parse_or_warns(runtime, workspace):
    workspace.write("a.py", "x = '\\d'\n" * 1999 + "def broken(\n" * 1000)

    assert runtime.call("read_file", path="a.py", truncate="smart").ok


def test_smart_does_not_parse_the_expressions_in_strings(runtime, workspace, monkeypatch):
    parsed: list[str] = []
    parse = ast.parse

    def record(source: str, *rest: Any, **named: Any) -> Any:
        parsed.append(source)
        return parse(source, *rest, **named)

    monkeypatch.setattr(ast, "parse", record)
    strings = "f'" + "{x}" * 1000 + "'; f\"\\\"{x}\"; f'''\n{y}'''  # it's {z}\n"
    workspace.write("a.py", strings + "x = {1: 'a'}\n" * 2500 + "f'" + "{x}" * 100_000 + "'\n")

    assert runtime.call("read_file", path="a.py", truncate="smart").ok
    assert [source.count("{") for source in parsed] == [1999]


# --- encodings --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data, text, encoding",
    [
        ("é\nb\n".encode(), "1\té\n2\tb", None),
        (b"\xef\xbb\xbf" + "é\n".encode(), "1\té", None),
        ("é\nb\n".encode("utf-16"), "1\té\n2\tb", "utf-16-le"),
        (b"\xfe\xff" + "é\nb\n".encode("utf-16-be"), "1\té\n2\tb", "utf-16-be"),
        ("déjà vu, français\n".encode("latin-1"), "1\tdéjà vu, français", "cp1252"),
        ("日本語のテキストです。漢字とカナ\n".encode("shift-jis"), "1\t日本語のテキストです。漢字とカナ", "cp932"),
        (b"a\r\nb\r\n", "1\ta\n2\tb", None),
        (b"a\rb\n", "1\ta\rb", None),
        (b"a\x0cb\x0b\n", "1\ta\x0cb\x0b", None),
        ("a\u2028b\x85c\n".encode(), "1\ta\u2028b\x85c", None),
        (b"\xc3\xa9\xc3\xa9 \xff a\n", "1\téé \ufffd a", None),
        (b"\xff\xfe\x00\xd8a\x00\n\x00", "1\t\ufffda", "utf-16-le"),
        (b"\xff\xfe", "", "utf-16-le"),
        (b"\xef\xbb\xbf", "", None),
    ],
)
def test_a_file_in_another_encoding_is_shown_decoded(runtime, workspace, data, text, encoding):
    workspace.write("a.txt", data)

    result = runtime.call("read_file", path="a.txt")

    assert (result.text, result.meta.get("encoding")) == (text, encoding)


def test_raw_reading_keeps_carriage_returns(runtime, workspace):
    workspace.write("a.txt", b"a\r\nb\r\n")

    assert runtime.call("read_file", path="a.txt", line_numbers=False).text == "a\r\nb\r"


def test_a_large_utf16_file_is_decoded_like_a_small_one(runtime, workspace):
    workspace.write("a.txt", ("line é\n" * 400_000).encode("utf-16"))

    result = runtime.call("read_file", path="a.txt", start_line=399_999)

    assert result.text == "399999\tline é\n400000\tline é"


# --- binary files -----------------------------------------------------------------------------------------------


def picture(kind: str, size: tuple[int, int] = (3, 2), **options) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, (200, 10, 30)).save(buffer, kind, **options)
    return buffer.getvalue()


@pytest.mark.starts_processes
@pytest.mark.parametrize(
    "kind, mime",
    [
        ("PNG", "image/png"),
        ("JPEG", "image/jpeg"),
        ("GIF", "image/gif"),
        ("WEBP", "image/webp"),
        ("BMP", "image/bmp"),
        ("TIFF", "image/tiff"),
        ("ICO", "image/x-icon"),
    ],
)
@pytest.mark.parametrize("name", ["picture", "picture.txt"])
def test_an_image_is_recognised_by_its_content(runtime, workspace, kind, mime, name):
    data = picture(kind)
    workspace.write(name, data)

    result = runtime.call("read_file", path=name)

    assert result.content == ({"type": "image", "data": base64.b64encode(data).decode(), "mimeType": mime},)
    assert (result.text, result.meta["size"]) == ("", len(data))
    assert "data" not in wire.envelope(result)["result"]


def test_an_animated_png_is_still_a_png(runtime, workspace):
    buffer = io.BytesIO()
    frames = [Image.new("RGB", (4, 4), (shade, 0, 0)) for shade in (0, 100, 200)]
    frames[0].save(buffer, "PNG", save_all=True, append_images=frames[1:])
    workspace.write("a.png", buffer.getvalue())

    assert runtime.call("read_file", path="a.png").content[0]["mimeType"] == "image/png"


SVG = '<svg xmlns="http://www.w3.org/2000/svg"><rect/></svg>\n'


@pytest.mark.parametrize(
    "text",
    [
        SVG,
        "\ufeff" + SVG,
        "\n  \t" + SVG,
        '<?xml version="1.0"?>\n' + SVG,
        '<?xml version="1.0"?><?xml-stylesheet href="a.css"?>\n<!-- a > b --><!-- c -->' + SVG,
        '<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/svg11.dtd">\n' + SVG,
        '<!DOCTYPE svg [\n<!ENTITY ns "http://x">\n]>\n<!-- c -->\n' + SVG,
        "<!-- " + "licence " * 2000 + "-->\n" + SVG,
        SVG.replace("svg", "s:svg"),
        SVG.rstrip(),
        SVG + "\n<!-- made by hand -->\n",
        '<svg xmlns="http://www.w3.org/2000/svg"/>',
    ],
)
def test_svg_is_recognised_by_its_content(runtime, workspace, text):
    workspace.write("drawing", text)

    assert runtime.call("read_file", path="drawing").content[0]["mimeType"] == "image/svg+xml"


@pytest.mark.parametrize(
    "text",
    [
        "BM\n",
        "BMW is a company\n",
        "II. Chapter two\n",
        "MM: minutes\n",
        "GIF8 is the beginning of a picture\n",
        "GIF89a is the beginning of a picture\n",
        "RIFFxxxxWEBP is how it begins\n",
        "<html><svg></svg></html>\n",
        "svg <svg>\n",
        "<!-- <svg> -->\n<p>\n",
        "<svgfoo>\n",
        SVG + "# A page that begins with its emblem\n",
        SVG + "<style>\n</style>\n",
        "<!-- open " + "<!---->" * 2000 + "\n",
        "%!PS\n",
    ],
)
def test_text_that_begins_like_an_image_is_text(runtime, workspace, text):
    workspace.write("a.txt", text)

    result = runtime.call("read_file", path="a.txt", line_numbers=False)

    assert (result.content, result.text) == ((), text[:-1])


@given(st.binary(max_size=80))
def test_any_bytes_have_an_image_type_or_none(data):
    assert image_type(data) in (None, "image/svg+xml", *(f"image/{k}" for k in ("png", "jpeg", "gif", "webp", "bmp", "tiff", "x-icon")))  # fmt: skip  # noqa: E501


@pytest.mark.starts_processes
@pytest.mark.parametrize("size", [(9000, 10), (10, 9000)])
def test_an_image_with_too_many_pixels_is_scaled_down(runtime, workspace, size):
    workspace.write("wide.png", picture("PNG", size))

    result = runtime.call("read_file", path="wide.png")

    with Image.open(io.BytesIO(base64.b64decode(result.content[0]["data"]))) as image:
        assert max(image.size) <= 8000
    assert f"scaled down from {size[0]} x {size[1]} pixels" in result.meta["notes"][0]


@pytest.mark.starts_processes
def test_an_image_of_too_many_bytes_is_scaled_down(runtime, workspace):
    noise = Image.frombytes("RGB", (1500, 1500), os.urandom(1500 * 1500 * 3))
    buffer = io.BytesIO()
    noise.save(buffer, "BMP")
    workspace.write("noise.bmp", buffer.getvalue())

    block = runtime.call("read_file", path="noise.bmp").content[0]

    assert block["mimeType"] == "image/jpeg"
    assert len(block["data"]) * 3 / 4 < 5 * 1024 * 1024


@pytest.mark.starts_processes
@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_an_image_of_few_bytes_and_very_many_pixels_is_not_decoded(runtime, workspace, kind):
    buffer = io.BytesIO()
    Image.new("1", (12_000, 12_000)).save(buffer, kind, **({"compression": "group4"} if kind == "TIFF" else {}))
    workspace.write("bomb", buffer.getvalue())

    error = runtime.call("read_file", path="bomb").error

    assert len(buffer.getvalue()) < 20_000
    assert error.code == "file_too_large"
    assert "12000 x 12000 pixels" in error.message


def test_a_small_broken_image_is_returned_unchanged(runtime, workspace):
    workspace.write("broken.png", picture("PNG")[:40])

    assert runtime.call("read_file", path="broken.png").content[0]["mimeType"] == "image/png"


def test_a_large_svg_is_rejected_with_its_size(runtime, workspace):
    workspace.write("a.svg", SVG + "<!--" + "x" * 5 * 1024 * 1024 + "-->")

    error = runtime.call("read_file", path="a.svg").error

    assert error.code == "file_too_large"
    assert "bytes" in error.message


@pytest.mark.parametrize("data", [b"a\0b", b"x" * 511 + b"\0", b"\0", b"\x7fELF\x02\x01\x01\0\0\0"])
def test_a_binary_file_is_described_instead_of_shown(runtime, workspace, data):
    workspace.write("a.bin", data)

    result = runtime.call("read_file", path="a.bin")

    size = len(data)
    assert result.text == f"[binary file: {size} bytes — use checksum_tree for integrity or skip content reads]"


def test_a_nul_after_512_bytes_does_not_make_a_file_binary(runtime, workspace):
    workspace.write("a.txt", b"x" * 512 + b"\0\n")

    assert runtime.call("read_file", path="a.txt").text == "1\t" + "x" * 512 + "\0"


def pdf(text: str) -> bytes:
    stream = f"BT /F1 24 Tf 20 100 Td ({text}) Tj ET".encode()
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 200]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(stream), stream),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    out, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    return out + b"xref\n0 6\n0000000000 65535 f \n%strailer\n<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (
        table,
        len(out),
    )


@pytest.mark.starts_processes
def test_a_pdf_is_read_as_text_by_page(runtime, workspace):
    workspace.write("a.pdf", pdf("Hello from page one"))

    assert runtime.call("read_file", path="a.pdf").text == "1\t[page 1 of 1]\n2\tHello from page one"


@pytest.mark.starts_processes
@pytest.mark.parametrize("name", ["broken.pdf", "broken"])
def test_a_pdf_that_cannot_be_read_is_an_error_with_advice(runtime, workspace, name):
    workspace.write(name, b"%PDF-1.7\nnot a document")

    error = runtime.call("read_file", path=name).error

    assert error.code == "unsupported_file"
    assert error.suggestion == (
        "convert the PDF to text first (pdftotext, pdftk, or a cloud OCR service) and read the text file"
    )


@pytest.mark.starts_processes
def test_many_threads_may_read_pdfs_at_once(runtime, workspace):
    for number in range(8):
        workspace.write(f"{number}.pdf", pdf(f"number {number}"))
    texts = {}

    def read(number: int) -> None:
        texts[number] = runtime.call("read_file", path=f"{number}.pdf", line_numbers=False).text

    threads = [threading.Thread(target=read, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert texts == {number: f"[page 1 of 1]\nnumber {number}" for number in range(8)}


# --- unreadable files -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path, code",
    [
        ("nothing.txt", "file_not_found"),
        ("folder", "not_a_file"),
        ("", "not_a_file"),
        (".", "not_a_file"),
        ("a.txt/b", "file_not_found"),
        ("../outside.txt", "path_outside_workspace"),
        ("/etc/passwd", "path_outside_workspace"),
        ("~/secret", "path_outside_workspace"),
        ("a\0b", "invalid_args"),
        (".env", "sensitive_path"),
        (".git/config", "sensitive_path"),
        ("sub/.ssh/id_rsa", "sensitive_path"),
        ("pipe", "not_a_file"),
        ("x" * 300, "invalid_args"),
    ],
)
def test_an_unreadable_path_has_an_error_code_and_a_next_step(runtime, workspace, path, code):
    workspace.write("a.txt", "a\n")
    workspace.write("folder/x", "")
    workspace.write(".env", "KEY=1\n")
    os.mkfifo(workspace.join("pipe"))

    error = runtime.call("read_file", path=path).error

    assert error.code == code
    assert error.suggestion
    assert workspace.path not in error.message


def test_an_example_file_with_a_sensitive_name_can_be_read(runtime, workspace):
    workspace.write(".env.example", "KEY=\n")

    assert runtime.call("read_file", path=".env.example").text == "1\tKEY="


@pytest.mark.parametrize("spelling", ["a.txt", "./a.txt", "sub/../a.txt", "//a.txt"])
def test_spellings_of_one_path_are_one_file(runtime, workspace, spelling):
    workspace.write("a.txt", "a\n")
    workspace.write("sub/b.txt", "b\n")
    path = workspace.join("a.txt") if spelling.startswith("//") else spelling

    assert runtime.call("read_file", path=path).meta["path"] == "a.txt"


def test_a_link_to_a_name_that_is_not_utf8_is_read(runtime, workspace):
    folder = os.fsencode(workspace.path)
    with open(os.path.join(folder, b"caf\xe9.txt"), "wb") as file:
        file.write(b"x\n")
    os.symlink(b"caf\xe9.txt", os.path.join(folder, b"link"))

    result = runtime.call("read_file", path="link")

    assert result.text == "1\tx"
    wire.decode_value(wire.encode_result(result))  # no lone surrogates in the envelope


# --- checksums and exact contents -------------------------------------------------------------------------------


def test_a_matching_checksum_says_that_the_file_is_unchanged(runtime, workspace):
    workspace.write("a.txt", "a\n")
    checksum = runtime.call("read_file", path="a.txt", include_checksum=True).meta["sha256"]

    same = runtime.call("read_file", path="a.txt", if_checksum=checksum.upper())
    workspace.write("a.txt", "b\n")
    other = runtime.call("read_file", path="a.txt", if_checksum=checksum)

    assert same.data == {"unchanged": True, "path": "a.txt", "checksum": checksum}
    assert other.text == "1\tb"


@pytest.mark.parametrize(
    "data, limit, text, truncated",
    [
        (b"abc\n", 2, "ab", True),
        (b"abc\n", 4, "abc\n", False),
        (b"abc\n", 0, "", True),
        ("äöü".encode(), 3, "ä", True),
        (b"a\r\nb", 100, "a\r\nb", False),
    ],
)
def test_exact_contents_end_at_a_whole_character(runtime, workspace, data, limit, text, truncated):
    workspace.write("a.txt", data)

    result = runtime.call("read_file", path="a.txt", max_bytes=limit)

    assert (result.text, result.meta["truncated"], result.meta["size"]) == (text, truncated, len(data))


def test_the_tail_of_a_file_keeps_its_end_when_it_is_too_long(runtime, workspace):
    workspace.write("log.txt", "".join(f"{number}\n" for number in range(1, 5001)))

    result = runtime.call("read_file", path="log.txt", tail=3000, line_numbers=False)

    lines = result.text.split("\n")
    assert lines[0] == "3001"
    assert lines[1999] == "5000"
    assert "[Showing lines 3001-5000 of 5000." in lines[2000]
