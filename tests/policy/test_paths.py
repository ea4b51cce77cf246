from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilt.errors import ToolError
from hilt.policy.paths import PROTECTED, READABLE, SENSITIVE, PathRules
from hilt.testing import temporary_runtime

RULES = PathRules(SENSITIVE, READABLE, PROTECTED)


def verdict(path: str, *, write: bool, rules: PathRules = RULES) -> str:
    """Check the names of a path one by one, as a walk does."""
    parts = path.split("/")
    try:
        for end in range(1, len(parts) + 1):
            rules.check(parts[:end], write=write)
    except ToolError as error:
        return error.code
    return "fine"


@pytest.mark.parametrize(
    "path, reading, writing",
    [
        ("a.txt", "fine", "fine"),
        ("src/a.py", "fine", "fine"),
        (".git", "sensitive_path", "sensitive_path"),
        (".git/config", "sensitive_path", "sensitive_path"),
        ("a/b/.git/HEAD", "sensitive_path", "sensitive_path"),
        (".ssh/id_rsa", "sensitive_path", "sensitive_path"),
        (".aws/credentials", "sensitive_path", "sensitive_path"),
        (".gnupg", "sensitive_path", "sensitive_path"),
        (".env", "sensitive_path", "sensitive_path"),
        (".env.local", "sensitive_path", "sensitive_path"),
        ("app/.env.production.local", "sensitive_path", "sensitive_path"),
        (".env.example", "fine", "fine"),
        (".env.sample", "fine", "fine"),
        (".env.template", "fine", "fine"),
        (".env.example/.env", "sensitive_path", "sensitive_path"),
        (".env.example.local", "sensitive_path", "sensitive_path"),
        (".GIT/config", "sensitive_path", "sensitive_path"),
        (".Env.Local", "sensitive_path", "sensitive_path"),
        (".gitignore", "fine", "fine"),
        (".github/workflows/ci.yml", "fine", "fine"),
        (".gitmodules", "fine", "fine"),
        ("git/config", "fine", "fine"),
        ("a.git/config", "fine", "fine"),
        ("environment", "fine", "fine"),
        ("x.env", "fine", "fine"),
        (".envrc", "fine", "fine"),
        (".hilt/config.toml", "fine", "protected_path"),
        ("a/.hilt", "fine", "protected_path"),
        (".claude/settings.json", "fine", "protected_path"),
        (".Codex/x", "fine", "protected_path"),
        (".cursor/rules", "fine", "protected_path"),
        (".mcp.json", "fine", "protected_path"),
        ("a/b/agents.config.json", "fine", "protected_path"),
        ("AGENTS.CONFIG.JSON", "fine", "protected_path"),
        (".mcp.json.bak", "fine", "fine"),
        (".hilt/.git/x", "sensitive_path", "protected_path"),
        ("\uff0egit/config", "sensitive_path", "sensitive_path"),
        (".\uff47it", "sensitive_path", "sensitive_path"),
        (".g\u200bit", "sensitive_path", "sensitive_path"),
        ("\ufeff.git", "sensitive_path", "sensitive_path"),
        (".e\u200dnv", "sensitive_path", "sensitive_path"),
        (".\u212bws", "fine", "fine"),
        ("\u202e.ssh", "sensitive_path", "sensitive_path"),
    ],
)
def test_which_names_are_sensitive_or_protected(path, reading, writing):
    assert (verdict(path, write=False), verdict(path, write=True)) == (reading, writing)
    assert (verdict(path, write=False), verdict(path, write=True)) == (
        reading,
        writing,
    )  # and the same on a second check


@pytest.mark.parametrize(
    "pattern, matching, other",
    [
        ("*.pem", ["a.pem", "x/b.PEM", ".pem"], ["a.pem.txt", "pem"]),
        ("secret", ["secret", "a/secret/b"], ["secrets", "a/secrets"]),
        ("private/*", ["private/a", "private/a/b"], ["x/private/a", "private"]),
        ("/private", ["private", "private/a"], ["x/private"]),
        ("a/**/key", ["a/key", "a/b/key", "a/b/c/key"], ["key", "a/b/keys"]),
        ("**/vault", ["vault", "a/vault", "a/b/vault/x"], ["vaults"]),
        ("id_?", ["id_a", "x/id_1"], ["id_", "id_ab"]),
        ("weird[1].txt", ["weird[1].txt"], ["weird1.txt"]),
        ("a+b(c).txt", ["a+b(c).txt"], ["aab.txt"]),
        ("new\nline", ["new\nline"], ["new"]),
    ],
)
def test_patterns_with_a_slash_match_the_path_and_others_each_name(pattern, matching, other):
    rules = PathRules([pattern], [], [])

    assert {path: verdict(path, write=False, rules=rules) for path in matching} == dict.fromkeys(
        matching, "sensitive_path"
    )
    assert {path: verdict(path, write=False, rules=rules) for path in other} == dict.fromkeys(other, "fine")


names = st.text(st.characters(exclude_characters="/\0"), min_size=1, max_size=12)


@given(st.lists(names, min_size=1, max_size=4), st.sampled_from([".git", ".ssh", ".env", ".env.x"]), st.integers(0, 4))
def test_a_sensitive_name_anywhere_in_a_path_denies_it(parts, name, position):
    path = "/".join([*parts[:position], name, *parts[position:]])

    for write in (False, True):
        assert verdict(path, write=write) in ("sensitive_path", "protected_path" if write else "sensitive_path")


@given(st.sampled_from([".git", ".aws", ".env.local"]), st.data())
def test_every_equivalent_spelling_of_a_sensitive_name_is_denied(name, data):
    """Case, compatibility forms and invisible characters: the name is denied in any mixture of them."""
    forms = {
        character: [
            character,
            character.upper(),
            *(
                chr(code)
                for code in (*range(0xFF01, 0xFF5F), 0x2024, 0xFE52)
                if unicodedata.normalize("NFKC", chr(code)).casefold() == character
            ),
        ]
        for character in name
    }
    hidden = st.sampled_from(["", "", "\u200b", "\u200c", "\u200d", "\ufeff", "\u2060", "\u00ad", "\u202a"])
    spelt = "".join(data.draw(st.sampled_from(forms[character])) + data.draw(hidden) for character in name)

    assert verdict(spelt, write=False) == "sensitive_path"


@given(names)
def test_checking_a_name_never_fails_and_does_not_depend_on_earlier_checks(name):
    fresh = PathRules(SENSITIVE, READABLE, PROTECTED)

    assert verdict(name, write=True) == verdict(name, write=True, rules=fresh)
    assert verdict(name, write=False) == verdict(name, write=False, rules=fresh)


def test_an_exception_for_one_place_opens_no_other_place():
    rules = PathRules(SENSITIVE, ("docs/.env.shown",), PROTECTED)

    assert verdict("docs/.env.shown", write=False, rules=rules) == "fine"
    assert verdict(".env.shown", write=False, rules=rules) == "sensitive_path"


@given(
    st.lists(st.sampled_from(["secret*", ".env", "key", "Token.*", "é*", "*.pem", "a/b"]), min_size=1, max_size=3),
    st.sampled_from(["secret.txt", ".env", "key", "token.x", "été", "x.pem", "a/b", "plain"]),
    st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_the_quick_check_never_passes_a_sensitive_name(patterns, spelling, capitals):
    """Whatever the patterns and the case: the quick check passes no name that the full check denies."""
    name = "".join(letter.upper() if up else letter for letter, up in zip(spelling, capitals, strict=False))
    rules = PathRules(patterns, (), ())
    quick = rules.is_harmless(name)
    rules.suspect = None  # now every name gets the full check

    assert not (quick and rules.is_sensitive(name))


@pytest.mark.parametrize("name", ["secret.txt", "SECRET.txt", "Secret"])
def test_a_listing_omits_sensitive_names_in_either_case(base, name):
    flags = {"workspace.sensitive": ["secret*"]}
    with temporary_runtime(base, flags=flags) as (runtime, workspace):
        workspace.write(name, "x")
        workspace.write("shown.txt", "x")

        assert runtime.call("list_dir").data["entries"] == ["shown.txt"]
