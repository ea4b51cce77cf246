from __future__ import annotations

import os

import pytest

from hilt.agents.agent_files import parse, read_definitions
from hilt.errors import ToolError
from hilt.skills.folder_contents import UnusableFile
from hilt.state.trust import Trust
from tests.trusting import file_at

POET = "---\nname: poet\ndescription: Writes.\n---\nYou are a poet.\n"


def test_there_are_three_built_in_definitions(runtime):
    definitions = read_definitions(runtime).known

    assert sorted(definitions) == ["explore", "general", "review"]
    assert (definitions["explore"].mode, definitions["review"].mode) == ("plan", "plan")
    assert definitions["general"].tools is None
    assert "write_file" not in (definitions["explore"].tools or ())


@pytest.mark.parametrize("folder", [".hilt/agents", ".claude/agents", ".nanocoder/agents"])
def test_a_projects_definition_counts_while_its_content_is_trusted(runtime, workspace, folder):
    path = workspace.write(f"{folder}/poet.md", POET)
    with pytest.raises(ToolError) as raised:
        read_definitions(runtime).find("poet")
    assert raised.value.code == "untrusted"

    Trust(runtime.parts.state).trust(file_at(path, "agent"), POET.encode())
    assert read_definitions(runtime).find("poet").body == "You are a poet."

    workspace.write(f"{folder}/poet.md", POET + "And more.\n")
    assert "poet" not in read_definitions(runtime).known


def test_personal_definitions_need_no_trust_unless_tools_can_write_them(runtime, workspace):
    own = os.path.join(runtime.parts.environ["HILT_CONFIG_DIR"], "agents")
    os.makedirs(own)
    with open(os.path.join(own, "poet.md"), "w") as file:
        file.write(POET)
    inside = workspace.write("evil.md", POET.replace("poet", "evil"))
    os.symlink(inside, os.path.join(own, "evil.md"))

    definitions = read_definitions(runtime)

    assert "poet" in definitions.known
    assert "evil" not in definitions.known
    assert list(definitions.problems) == [os.path.join(own, "evil.md")]


def test_a_link_in_the_project_is_not_followed(runtime, workspace, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "poet.md").write_text(POET)
    os.mkdir(workspace.join(".hilt"))
    os.symlink(outside, workspace.join(".hilt/agents"))
    Trust(runtime.parts.state).trust(file_at(workspace.join(".hilt/agents/poet.md")), POET.encode())

    assert "poet" not in read_definitions(runtime).known


@pytest.mark.parametrize(
    "text",
    [
        "no front matter",
        "---\nname: a\ntools: {a: b}\n---\nx",
        "---\nname: a\ntools: [1]\n---\nx",
        "---\nname: a\nmode: wild\n---\nx",
        "---\nname: a\nmaxTurns: many\n---\nx",
        "---\nname: a\nmaxTurns: 0\n---\nx",
        "---\nname: a\nworktree: perhaps\n---\nx",
        "---\nname: a b\n---\nx",
        "---\ndescription: Use it: like this\ntools: Read\n---\nx",  # invalid YAML, and it may restrict
    ],
)
def test_an_invalid_definition_is_rejected(text):
    with pytest.raises(UnusableFile):
        parse(text.encode(), "project", "a.md")


def test_loose_front_matter_counts_if_it_restricts_nothing():
    definition = parse(b"---\nname: a\ndescription: Use it: like this\n---\nBe kind.\n", "personal", "a.md")

    assert (definition.name, definition.description) == ("a", "Use it: like this")
    assert (definition.tools, definition.body) == (None, "Be kind.")


def test_all_keys_are_read():
    text = "---\nname: a\nmodel: openai:x\ntools: Read, Bash\ndisallowedTools: [Write]\nmode: plan\nmaxTurns: 7\n---\nx"

    definition = parse(text.encode(), "personal", "a.md")

    assert (definition.model, definition.tools, definition.disallowed) == ("openai:x", ("Read", "Bash"), ("Write",))
    assert (definition.mode, definition.turns) == ("plan", 7)
    assert parse(text.replace("openai:x", "sonnet").encode(), "personal", "a.md").model == ""


def test_the_error_for_an_unknown_agent_names_the_nearest(runtime):
    with pytest.raises(ToolError) as raised:
        read_definitions(runtime).find("reviews")

    assert (raised.value.code, raised.value.details["nearest"]) == ("not_found", ["review"])
