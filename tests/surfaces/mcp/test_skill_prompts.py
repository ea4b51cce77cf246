"""Skills as MCP resources and prompts, and commands as prompts."""

from __future__ import annotations

import asyncio
from contextlib import closing

import mcp_types as types
import pytest
from mcp import MCPError

from hilt.state.trust import Trust
from hilt.testing import Folder
from tests.skills.places import text
from tests.surfaces.commands import Command
from tests.surfaces.mcp.hosts import ALL, STDIO_NEW, STDIO_OLD, connected, run
from tests.trusting import file_at

each_way = pytest.mark.parametrize("kind", ALL, ids="-".join)


def config(command: Command) -> Folder:
    return Folder(command.environ["HILT_CONFIG_DIR"])


def trust(command: Command, name: str, kind: str) -> None:
    with closing(Trust(command.state)) as trusted:
        trusted.trust(file_at(command.folder.join(name), kind), command.folder.bytes(name))


@each_way
def test_skills_are_resources_and_prompts_and_commands_are_prompts(command, kind):
    config(command).write("skills/pdf/SKILL.md", text("pdf", "Read $1.", description="Reads PDF files."))
    config(command).write("skills/pdf/references/a.md", "deep\n")
    config(command).write("skills/pdf/.env", "KEY=1\n")
    config(command).write("commands/git/fix.md", "---\nargument-hint: ISSUE\n---\nFix $ARGUMENTS.\n")
    config(command).write("commands/pdf.md", "The command.\n")
    command.folder.write(".hilt/skills/new/SKILL.md", text("new"))
    command.folder.write(".hilt/commands/new.md", "New.\n")

    async def test() -> None:
        async with connected(command, kind) as client:
            prompts = {prompt.name: prompt for prompt in (await client.list_prompts()).prompts}
            uris = [str(resource.uri) for resource in (await client.list_resources()).resources]
            loaded = await client.get_prompt("pdf", {"arguments": "'a b.pdf'"})
            fixed = await client.get_prompt("git:fix", {"arguments": "12"})
            same_name = await client.get_prompt("command:pdf", {})
            skill = (await client.read_resource("hilt://skills/pdf")).contents[0]
            file = (await client.read_resource("hilt://skills/pdf/references/a.md")).contents[0]
            for name in ("new", "nothing", "../pdf"):
                with pytest.raises(MCPError):
                    await client.get_prompt(name, {})
            for name in (
                "new",
                "pdf/.env",
                "pdf/../../config.toml",
                "pdf/..%2F..%2Fconfig.toml",
                "pdf//etc/passwd",
                "",
            ):
                with pytest.raises(MCPError):
                    await client.read_resource(f"hilt://skills/{name}")

        builtin = ["hilt", "pdf", "skill-creator", "tool-creator"]
        assert list(prompts) == [*builtin, "git:fix", "command:pdf"]
        assert prompts["pdf"].description == "Reads PDF files."
        assert [argument.description for argument in prompts["git:fix"].arguments or []] == ["ISSUE"]
        assert uris == [f"hilt://skills/{name}" for name in builtin]
        assert "\nRead a b.pdf.\n" in loaded.messages[0].content.text
        assert "untrusted content" in loaded.messages[0].content.text
        assert fixed.messages[0].content.text == "Fix 12."
        assert same_name.messages[0].content.text == "The command."
        assert "\nRead $1.\n" in skill.text
        assert file.text == "deep\n"

    run(test())


@pytest.mark.parametrize("kind", [STDIO_OLD, STDIO_NEW], ids="-".join)
def test_a_project_skill_is_served_only_with_its_trusted_content(command, kind):
    path = ".hilt/skills/new/SKILL.md"
    command.folder.write(path, text("new"))

    async def test() -> None:
        async with connected(command, kind) as client:
            assert "new" not in [prompt.name for prompt in (await client.list_prompts()).prompts]
            trust(command, path, "skill")
            assert "Do it." in (await client.get_prompt("new", {})).messages[0].content.text
            command.folder.write(".hilt/skills/new/a.md", "new\n")
            with pytest.raises(MCPError):
                await client.read_resource("hilt://skills/new/a.md")

    run(test())


def test_a_rule_that_denies_a_file_hides_its_resource(command):
    command.folder.write(".hilt/skills/new/SKILL.md", text("new"))
    command.folder.write(".hilt/skills/new/private/a.md", "secret\n")
    command.environ["HILT_TRUST"] = "all"
    config(command).write("permissions.yaml", "deny:\n  - read_file(path:.hilt/skills/new/private/**)\n")

    async def test() -> None:
        async with connected(command, STDIO_NEW) as client:
            assert (await client.read_resource("hilt://skills/new")).contents
            with pytest.raises(MCPError):
                await client.read_resource("hilt://skills/new/private/a.md")

    run(test())


def test_a_denied_tool_denies_its_prompts(command):
    config(command).write("permissions.yaml", "deny: [load_skill]\n")

    async def test() -> None:
        async with connected(command, STDIO_NEW) as client:
            with pytest.raises(MCPError):
                await client.get_prompt("hilt", {})

    run(test())


@pytest.mark.parametrize("kind", [STDIO_OLD, STDIO_NEW], ids="-".join)
def test_a_client_that_listed_prompts_is_notified_of_changes(command, kind):
    notified: set[type] = set()
    both = asyncio.Event()

    async def message(item: object) -> None:
        notified.add(type(item))
        if {types.PromptListChangedNotification, types.ResourceListChangedNotification} <= notified:
            both.set()

    async def test() -> None:
        async with connected(command, kind, message_handler=message) as client:
            await client.list_prompts()
            if kind == STDIO_OLD:
                config(command).write("commands/fix.md", "Fix it.\n")
                await both.wait()
            else:
                async with client.listen(prompts_list_changed=True) as events:
                    config(command).write("commands/fix.md", "Fix it.\n")
                    async for _ in events:
                        break
            assert "fix" in [prompt.name for prompt in (await client.list_prompts()).prompts]

    run(test())
