"""How a rule is parsed."""

from __future__ import annotations

import pytest

from hilt.policy import rule_forms
from hilt.policy.rule_forms import Acting, BadForm, Beginning, Below, Exactly, Matching, Names, Reaching, Whole
from tests.policy.calls import HOME, NAMES

SHELL = NAMES.twins["Bash"]


def parse(text: str) -> rule_forms.Form:
    return rule_forms.parse(text, NAMES, HOME)


@pytest.mark.parametrize(
    "text, kind",
    [
        ("*", Whole),
        ("Read", Whole),
        ("tool::file_read", Whole),
        ("Bash:ls.*", Matching),
        ("tool::shell_exec:git .*", Matching),
        ("Bash(/a/b/)", Matching),
        ("Bash(cargo build:*)", Beginning),
        ("Bash(=ls; rm x)", Exactly),
        ("Bash(=ls:*)", Exactly),
        ("Write(path:src/**)", Below),
        ("Write(path:a:*)", Below),
        ("WebFetch(domain:docs.rs)", Reaching),
        ("ComputerUse(action:click)", Acting),
        ("mcp__a__b", Whole),
        ("mcp__a__b(path:x)", Below),
    ],
)
def test_every_form_is_parsed(text, kind):
    assert type(parse(text)) is kind


@pytest.mark.parametrize(
    "text, names, expression",
    [
        ("Bash:ls", SHELL, "ls"),
        ("Bash:a:b", SHELL, "a:b"),
        ("Bash:(a)", SHELL, "(a)"),
        ("Bash(/a)/)", SHELL | {"Bash"}, None),
        ("tool::shell_exec:ls", SHELL, "ls"),
        ("other::x:ls", frozenset(("other::x",)), "ls"),
    ],
)
def test_the_longest_known_name_is_the_tool_name(text, names, expression):
    if expression is None:
        with pytest.raises(BadForm):
            parse(text)
        return
    form = parse(text)

    assert isinstance(form, Matching)
    assert (form.scope.names, form.expression.source) == (names, expression)


def test_the_longest_of_several_known_names_wins():
    twins = {name: frozenset((name,)) for name in ("a", "a::b", "a::b:c")}
    names = Names(twins, lambda name: frozenset(("read",)))

    parsed_names = {
        text: sorted(rule_forms.parse(text, names).scope.names or ())
        for text in ("a::b", "a::b:x", "a::b:c", "a::b:c:x", "a:x")
    }

    assert parsed_names == {
        "a::b": ["a::b"],
        "a::b:x": ["a::b"],
        "a::b:c": ["a::b:c"],
        "a::b:c:x": ["a::b:c"],
        "a:x": ["a"],
    }


@pytest.mark.parametrize(
    "name, effect",
    [("Read", "read"), ("Grep", "read"), ("Write", "write"), ("Edit", "write"), ("tool::apply_patch", "write")],
)
def test_a_path_rule_has_the_effect_of_its_tool(name, effect):
    form = parse(f"{name}(path:src)")

    assert isinstance(form, Below)
    assert (form.scope.names, form.scope.effect) == (None, effect)


@pytest.mark.parametrize(
    "text, intended",
    [("bash", "Bash"), ("read", "Read"), ("RunShell:x", "run_shell"), ("Writee", "Write"), ("Grepp", "Grep")],
)
def test_a_misspelt_name_is_broken_and_governs_the_intended_tool(text, intended):
    with pytest.raises(BadForm) as caught:
        parse(text)

    assert "did you mean" in caught.value.message
    assert caught.value.scope.names is not None
    assert NAMES.twins[intended] <= caught.value.scope.names


def test_a_rule_that_is_too_long_is_broken():
    with pytest.raises(BadForm):
        parse("Bash(=" + "x" * rule_forms.MAX_LENGTH + ")")
