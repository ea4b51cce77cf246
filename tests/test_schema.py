from __future__ import annotations

import json
import resource
import sys
from types import FrameType
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.call import Call
from hilt.errors import ToolError
from hilt.params import Bounds, Count, Items, Line, ReadPath, TouchMark, WritePath
from hilt.schema import (
    INTEGER,
    STRING,
    TEXT,
    Schema,
    array,
    check,
    check_any,
    compact,
    cost,
    from_annotation,
    from_function,
    lean,
    mapping,
    numbered_groups,
    public,
    record,
    structured,
    structured_schema,
)


class Point(NamedTuple):
    """A point.

    Args:
        x: Across.
        name: What it is called.
    """

    x: int
    name: str = "origin"


@pytest.mark.parametrize(
    "annotation, schema",
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (Any, {}),
        (str | None, {"type": "string"}),
        (str | int, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        (str | int | None, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        (list[str], {"type": "array", "items": {"type": "string"}}),
        (list[list[int]], {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (dict[str, Any], {"type": "object", "additionalProperties": True}),
        (dict, {"type": "object", "additionalProperties": True}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (ReadPath, {"type": "string", "x-touch": "read"}),
        (WritePath, {"type": "string", "x-touch": "write"}),
        (Annotated[list[str], TouchMark("read"), Items(1, 20)],
         {"type": "array", "items": {"type": "string"}, "x-touch": "read", "minItems": 1, "maxItems": 20}),
        (Line, {"type": "integer", "minimum": 1}),
        (Count, {"type": "integer", "minimum": 0}),
        (Annotated[float, Bounds(0.5, 2, clamp=True)],
         {"type": "number", "minimum": 0.5, "maximum": 2, "x-clamp": True}),
        (Annotated[int, Bounds(maximum=9)] | None, {"type": "integer", "maximum": 9}),
        (Point, {
            "type": "object",
            "properties": {
                "x": {"type": "integer", "description": "Across."},
                "name": {"type": "string", "description": "What it is called.", "default": "origin"},
            },
            "required": ["x"],
            "additionalProperties": False,
        }),
    ],
)  # fmt: skip
def test_a_type_has_one_schema(annotation, schema):
    assert from_annotation(annotation) == schema


@pytest.mark.parametrize("annotation", [bytes, set, tuple[int, int], object, complex])
def test_a_type_without_a_json_equivalent_is_rejected_at_declaration(annotation):
    with pytest.raises(TypeError):
        from_annotation(annotation)


def example(ctx, path: ReadPath, limit: Annotated[int, Bounds(1, 10, clamp=True)] = 5, *, deep: bool = False) -> str:
    """Do something.

    At length: with a colon.

    Args:
        path: Where:
            on two lines.
        limit: How many.
    """
    return path


def test_a_signature_and_its_docstring_give_description_and_schema():
    description, schema, annotations = from_function(example, skip=1)

    assert description == "Do something.\n\nAt length: with a colon."
    assert schema["required"] == ["path"]
    assert schema["properties"]["path"]["description"] == "Where: on two lines."
    assert schema["properties"]["limit"]["default"] == 5
    assert schema["properties"]["deep"] == {"type": "boolean", "default": False}
    assert list(annotations) == ["path", "limit", "deep"]
    assert "x-" not in json.dumps(public(schema))


# --- checking ---------------------------------------------------------------------------------------------------------

SCHEMA = from_function(example, skip=1)[1]


def refusal(args: Any, schema: Schema = SCHEMA) -> ToolError:
    with pytest.raises(ToolError) as caught:
        check(schema, args)
    assert caught.value.code == "invalid_args"
    return caught.value


def violations(error: ToolError) -> list[str]:
    details: Any = error.details["violations"]
    return [violation["path"] for violation in details]


@pytest.mark.parametrize(
    "args, filled",
    [
        ({"path": "a"}, {"path": "a", "limit": 5, "deep": False}),
        ({"path": "a", "limit": None}, {"path": "a", "limit": 5, "deep": False}),
        ({"path": "a", "limit": 7.0}, {"path": "a", "limit": 7, "deep": False}),
        ('{"path": "a", "deep": true}', {"path": "a", "limit": 5, "deep": True}),
    ],
)
def test_defaults_are_filled_in_valid_arguments(args, filled):
    checked = check(SCHEMA, args)

    assert (checked.args, checked.notes) == (filled, [])
    assert all(type(checked.args[name]) is type(value) for name, value in filled.items())


@pytest.mark.parametrize(
    "value, limit, note",
    [
        (11, 10, "limit 11 was changed to 10, its maximum"),
        (10**400, 10, None),
        (-(10**400), 1, None),
        (0, 1, "limit 0 was changed to 1, its minimum"),
        (1e300, 10, None),
    ],
)
def test_a_number_beyond_a_soft_limit_is_clamped_with_a_note(value, limit, note):
    args, notes = check(SCHEMA, {"path": "a", "limit": value})

    assert args["limit"] == limit
    assert len(notes) == 1
    assert note is None or notes == [note]


@pytest.mark.parametrize(
    "args, paths",
    [
        ({}, ["path"]),
        (None, [""]),
        ([], [""]),
        ("text", [""]),
        ({"path": 1}, ["path"]),
        ({"path": None}, ["path"]),
        ({"path": "a", "limit": "5"}, ["limit"]),
        ({"path": "a", "limit": True}, ["limit"]),
        ({"path": "a", "limit": 1.5}, ["limit"]),
        ({"path": "a", "deep": 1}, ["deep"]),
        ({"path": "a", "deep": "true"}, ["deep"]),
        ({"Path": "a"}, ["Path", "path"]),
        ({"limit": "x", "deep": 0, "more": 1}, ["limit", "deep", "more", "path"]),
    ],
)
def test_every_violation_is_reported_with_its_path(args, paths):
    assert violations(refusal(args)) == paths


@pytest.mark.parametrize(
    "name, suggested",
    [("pth", "path"), ("PATH", "path"), ("file_path", "path"), ("limits", "limit"), ("Deep", "deep")],
)
def test_a_misspelt_argument_is_rejected_with_the_likely_name(name, suggested):
    error = refusal({name: "a"})

    assert f"did you mean {suggested}?" in error.message


def test_an_unknown_argument_with_no_near_match_gets_the_list_of_arguments():
    assert "the arguments are: path, limit, deep" in refusal({"path": "a", "zzzz": 1}).message


def test_a_value_outside_an_enumeration_suggests_the_nearest():
    schema = {"type": "object", "properties": {"kind": from_annotation(Literal["head", "tail"])}}

    error = refusal({"kind": "heads"}, schema)

    assert error.suggestion == 'Use kind "head".'


@pytest.mark.parametrize(
    "text",
    [
        '{"path": "a", "path": "b"}',
        '{"path": "\\ud800"}',
        '{"path": NaN}',
        '{"path": ' + "[" * 200 + "]" * 200 + "}",
        "[" * 100_000,
        '"{}"',
        "{",
    ],
)
def test_a_json_string_is_decoded_once_and_as_strictly_as_a_request(text):
    with pytest.raises(ToolError) as caught:
        check(SCHEMA, text)

    assert caught.value.code in ("invalid_args", "invalid_request")


def test_a_json_string_inside_a_json_string_stays_a_string():
    schema = from_function(nested_lists, skip=0)[1]

    assert check(schema, {"rows": '[["a"]]'}).args == {"rows": [["a"]]}
    assert violations(refusal({"rows": ['["a"]']}, schema)) == ["rows[0]"]


def nested_lists(rows: list[list[str]]) -> str:
    return ""


def test_many_unknown_arguments_are_rejected_with_little_work():
    """Suggesting names is expensive: it is done only for the reported arguments, not for all in a request."""
    args = {f"path{number:06d}": 1 for number in range(100_000)}
    compared = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal compared
        compared += event == "call" and frame.f_code.co_name == "get_close_matches"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        error = refusal(args)
    finally:
        sys.setprofile(before)

    assert compared <= 20
    assert len(error.message) < 10_000
    assert "and at least 80 more" in error.message
    assert len(violations(error)) == 100


@pytest.mark.parametrize(
    "schema, value",
    [
        ({"type": "array", "items": {"type": "string"}}, list(range(50_000))),
        ({"type": "array", "items": {"type": "object", "additionalProperties": False}}, [{"x": 1}] * 50_000),
        ({"type": "array", "items": {"type": "integer", "minimum": 1}}, [0] * 50_000),
        ({"type": "array", "items": {"type": "string", "enum": ["head", "tail"]}}, ["heed"] * 50_000),
        ({"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "boolean"}]}}, list(range(50_000))),
        ({"type": "object", "additionalProperties": {"type": "string"}}, dict.fromkeys(map(str, range(50_000)), 1)),
        ({"type": "object", "additionalProperties": False}, dict.fromkeys(map(str, range(50_000)), 1)),
    ],
)
def test_checking_stops_after_a_hundred_violations(schema, value):
    """By the counts of calls: a stopped check does not visit the other values."""
    visited = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal visited
        visited += event == "call" and frame.f_code.co_name in ("_check", "quoted", "_unknown")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        error = refusal({"a": value}, {"type": "object", "properties": {"a": schema}})
    finally:
        sys.setprofile(before)

    assert visited < 1000
    assert len(violations(error)) == 100
    assert len(error.message) < 10_000


def test_many_violations_of_any_schema_take_little_memory():
    """The library copies the whole object into the error of each of its keys."""
    schema = {"type": "object", "propertyNames": {"maxLength": 1}}
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, before[1]))
    try:
        with pytest.raises(ToolError) as caught:
            check_any(schema, {f"key{number}": 1 for number in range(100_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)

    assert (caught.value.code, len(violations(caught.value))) == ("invalid_args", 1)


def test_all_violations_of_a_small_value_are_reported_for_any_schema():
    schema = {"type": "array", "items": {"type": "string"}}

    with pytest.raises(ToolError) as caught:
        check_any(schema, list(range(50)))

    assert len(violations(caught.value)) == 50


def test_a_number_of_thousands_of_digits_is_an_invalid_argument():
    schema = {"type": "object", "properties": {"a": {"type": "integer", "maximum": 1}}}

    assert violations(refusal({"a": 10**5000}, schema)) == ["a"]


def test_a_request_with_misspelt_arguments_is_rejected_by_the_runtime(runtime):
    result = runtime.request(Call("read_file", {"file": "a.txt", "start": 1}, id=3))

    assert (result.error.code, result.id) == ("invalid_args", 3)
    assert "argument: path" in result.error.message


# --- the two checkers agree -------------------------------------------------------------------------------------------

names = st.sampled_from(["a", "b", "c_d", "path"])
numbers = st.integers(-3, 3)


def with_bounds(kind: str) -> st.SearchStrategy[Schema]:
    limits = st.fixed_dictionaries({}, optional={"minimum": numbers, "maximum": numbers})
    return limits.map(lambda bounds: {"type": kind, **bounds})


leaves: st.SearchStrategy[Schema] = st.one_of(
    st.just({"type": "string"}),
    st.just({"type": "boolean"}),
    st.just({"type": "string", "enum": ["x", "y"]}),
    with_bounds("integer"),
    with_bounds("number"),
    st.just({}),
    st.just({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
    st.just({"anyOf": [{"type": "number"}, {"type": "array", "items": {"type": "string"}}]}),
)


def arrays(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    limits = st.fixed_dictionaries({}, optional={"minItems": st.integers(0, 2), "maxItems": st.integers(0, 3)})
    return st.tuples(inner, limits).map(lambda pair: {"type": "array", "items": pair[0], **pair[1]})


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[Schema]) -> Schema:
    properties = draw(st.dictionaries(names, inner, max_size=3))
    required = [name for name in properties if draw(st.booleans())]
    for name, member in properties.items():
        if name not in required and draw(st.booleans()) and member.get("type") == "string" and "enum" not in member:
            properties[name] = {**member, "default": "filled"}
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": required} if required else schema


def maps(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    return st.one_of(st.just(True), inner).map(lambda extra: {"type": "object", "additionalProperties": extra})


some_schemas = st.recursive(leaves, lambda inner: st.one_of(arrays(inner), objects(inner), maps(inner)), max_leaves=5)
signatures = objects(some_schemas)

values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), numbers, st.sampled_from([0.0, 1.0, 1.5, -2.0]), st.sampled_from(["x", "y", "z", ""])
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=3)),
    max_leaves=6,
)


@st.composite
def mostly_valid(draw: st.DrawFn, schema: Schema) -> Any:
    """Draw a value that usually matches a schema, and sometimes does not."""
    if draw(st.integers(0, 9)) == 0:
        return draw(values)
    if "anyOf" in schema:
        return draw(mostly_valid(draw(st.sampled_from(schema["anyOf"]))))
    match schema.get("type"):
        case "string":
            value = draw(st.sampled_from(schema.get("enum", ["x", "text", ""])))
        case "boolean":
            value = draw(st.booleans())
        case "integer":
            value = draw(st.one_of(numbers, numbers.map(float)))
        case "number":
            value = draw(st.one_of(numbers, st.sampled_from([0.5, 1.0])))
        case "array":
            value = draw(st.lists(mostly_valid(schema["items"]), max_size=3))
        case "object":
            value = {
                name: draw(mostly_valid(subschema))
                for name, subschema in schema.get("properties", {}).items()
                if draw(st.booleans())
            }
            extra = schema["additionalProperties"]
            if extra is not False and draw(st.booleans()):
                value[draw(names)] = draw(values if extra is True else mostly_valid(extra))
        case _:
            value = draw(values)
    if isinstance(value, dict | list) and draw(st.integers(0, 4)) == 0:
        return json.dumps(value)
    return value


def outcome(checker: Any, schema: Schema, args: Any) -> Any:
    try:
        return json.dumps(checker(schema, args).args, sort_keys=True)
    except ToolError:
        return "rejected"


@given(st.data())
def test_the_two_validators_agree_on_every_schema_of_a_signature(data):
    """For every schema that a signature can express and every value: both reject it, or both return the same
    arguments, with defaults filled in, 1.0 as 1, and null and JSON strings handled alike."""
    schema = data.draw(signatures)
    args = data.draw(mostly_valid(schema))

    assert outcome(check, schema, args) == outcome(check_any, schema, args)


CLOSED = {"type": "object", "properties": {"path": {}, "x": {}}, "additionalProperties": False}


@pytest.mark.parametrize(
    "schema, args, messages",
    [
        (CLOSED, {"pth": 1}, ["did you mean path?"]),
        (CLOSED, {"pth": 1, "y": 2}, ["did you mean path?", "y is not an argument"]),
        ({"type": "object", "properties": {"n": {"multipleOf": 3}}}, {"n": 4}, ["n: "]),
        ({"type": "object", "required": ["a", "b"]}, {}, ['"a"', '"b"']),
        ({"type": "object", "properties": {"l": {"items": CLOSED}}}, {"l": [{"y": 1}]}, ["l[0].y"]),
        ({"$defs": {"p": CLOSED}, "properties": {"p": {"$ref": "#/$defs/p"}}}, {"p": {"y": 1}}, ["p.y"]),
    ],
)
def test_violations_of_any_schema_are_reported_in_the_same_form(schema, args, messages):
    with pytest.raises(ToolError) as caught:
        check_any(schema, args)

    assert caught.value.code == "invalid_args"
    assert [message for message in messages if message not in caught.value.message] == []


def test_a_long_value_is_not_repeated_in_the_error():
    with pytest.raises(ToolError) as caught:
        check_any({"properties": {"a": {"enum": ["yes"]}}}, {"a": "x" * 100_000})

    assert len(caught.value.message) < 400
    assert caught.value.message.endswith('is not one of "yes".')


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://127.0.0.1:9/schema.json"},
        {"properties": {"a": {"$ref": "file:///etc/hostname"}}},
        {"$ref": "#/nowhere"},
        {"type": "nonsense"},
        {"pattern": "("},
    ],
)
def test_an_invalid_schema_or_an_external_reference_is_rejected_without_resolving_it(schema):
    with pytest.raises(ToolError) as caught:
        check_any(schema, {"a": 1})

    assert caught.value.code == "tool_invalid"


# --- schemas for models -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "annotation, schema",
    [
        (ReadPath, {"type": "string"}),
        (Count, {"type": "integer"}),
        (Annotated[int, Bounds(2, 9)], {"type": "integer", "minimum": 2, "maximum": 9}),
        (Annotated[int, Bounds(2, 9, clamp=True)], {"type": "integer"}),
        (Annotated[list[Line], Items(1, 20)], {"type": "array", "items": {"type": "integer"}, "maxItems": 20}),
        (Annotated[list[str], Items(2)], {"type": "array", "items": {"type": "string"}, "minItems": 2}),
        (dict[str, Count], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (str | Point, {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "properties": {
                        "x": {"type": "integer", "description": "Across."},
                        "name": {"type": "string", "description": "What it is called.", "default": "origin"},
                    },
                    "required": ["x"],
                },
            ],
        }),
    ],
)  # fmt: skip
def test_redundant_schema_keywords_are_omitted(annotation, schema):
    full = from_annotation(annotation)
    before = json.dumps(full)

    assert compact(full) == schema
    assert json.dumps(full) == before


def keywords(default: Any, minimum: int, description: str = "") -> Any:
    """Do it."""


def test_parameter_names_are_not_mistaken_for_schema_keywords():
    schema = from_function(keywords, skip=0)[1]

    assert list(compact(schema)["properties"]) == ["default", "minimum", "description"]
    assert list(lean(schema)["properties"]) == ["default", "minimum", "description"]


def test_a_lean_schema_has_no_descriptions_at_any_depth():
    schema = {**from_annotation(list[Point]), "description": "Points.", "$defs": {"p": {"description": "P."}}}

    assert lean(schema) == {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"x": {"type": "integer"}, "name": {"type": "string", "default": "origin"}},
            "required": ["x"],
            "additionalProperties": False,
        },
        "$defs": {"p": {}},
    }


@given(
    args=st.fixed_dictionaries(
        {"path": st.text()}, optional={"limit": st.integers(), "deep": st.booleans(), "more": st.integers()}
    )
)
def test_the_schema_for_models_allows_all_accepted_arguments(args):
    try:
        check(SCHEMA, args)
    except ToolError:
        return
    check_any(compact(SCHEMA), args)


def test_the_cost_of_a_tool_is_counted_in_characters_of_compact_json():
    assert cost({"name": "é", "description": "a b", "inputSchema": {"type": "object"}}) == len(
        '{"name":"é","description":"a b","inputSchema":{"type":"object"}}'
    )


# --- output schemas ---------------------------------------------------------------------------------------------------


def test_a_record_requires_every_field_that_is_not_optional():
    schema = record({"a": STRING, "b": array(INTEGER), "c": mapping(STRING)}, optional="b c")

    assert schema["required"] == ["a"]
    check_any(schema, {"a": "x", "b": [1], "c": {"any": "text"}})
    for wrong in ({}, {"a": 1}, {"a": "x", "b": ["1"]}, {"a": "x", "c": {"any": 1}}):
        with pytest.raises(ToolError):
            check_any(schema, wrong)


@pytest.mark.parametrize(
    "output, data",
    [
        (record({"a": STRING}), {"a": "x"}),
        (array(STRING), ["x"]),
        (STRING, "x"),
        ({"type": ["integer", "null"]}, None),
        ({"anyOf": [record({"a": STRING}), array(STRING)]}, {"a": "x"}),
        ({"anyOf": [record({"a": STRING}), array(STRING)]}, ["x"]),
        ({}, {"a": "x"}),
    ],
)
def test_an_output_schema_describes_an_object_and_the_result_matches_it(output, data):
    output_schema = structured_schema(output)

    assert output_schema is not None
    assert output_schema["type"] == "object"
    check_any(output_schema, structured(output, data))
    with pytest.raises(ToolError):
        check_any(output_schema, {} if output_schema != output else {"a": 1})


@pytest.mark.parametrize(
    "output",
    [
        None,
        record({"a": STRING}) | {TEXT: True},
        {"type": "array", "items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"type": "string"}}},
    ],
)
def test_a_result_that_may_not_match_has_no_output_schema(output):
    assert structured_schema(output) is None


@pytest.mark.parametrize("data, expected", [({"a": 1}, {"a": 1}), ([1], {"result": [1]}), (0, {"result": 0})])
def test_data_without_an_output_schema_is_an_object_too(data, expected):
    assert structured(None, data) == expected


@pytest.mark.parametrize(
    "pattern, numbered",
    [
        (r"^(?<w>a+)-\k<w>$", r"^(a+)-(?:\1)$"),
        (r"(a)(?:b)(?<w>c)\k<w>0", r"(a)(?:b)(c)(?:\2)0"),
        (r"(?<=x)(?<!y)(?<$w>a)", r"(?<=x)(?<!y)(a)"),
        (r"[(?<w>]\(?<w>", r"[(?<w>]\(?<w>"),
        (r"\\(?<w>a)\\k<w>", r"\\(a)\\k<w>"),
        (r"(?<w>a)\k<v>", r"(a)\k<v>"),
        (r"\k<w>", r"\k<w>"),
    ],
)
def test_named_groups_of_a_pattern_become_numbered_ones(pattern, numbered):
    assert numbered_groups(pattern) == numbered


def test_named_groups_are_renumbered_at_any_depth_of_a_foreign_schema():
    foreign = {"type": "object", "properties": {"a": {"items": {"pattern": r"^(?<w>.)\k<w>$"}}}}

    assert check_any(foreign, {"a": ["xx"]}).args == {"a": ["xx"]}
    with pytest.raises(ToolError, match="does not match"):
        check_any(foreign, {"a": ["xy"]})
