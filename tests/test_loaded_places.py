"""What hilt loads from where tools and commands can write: they cannot write it, or it needs trust again."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hilt.agents.agent_files import read_definitions
from hilt.desk.trust import loaded_file
from hilt.errors import ToolError
from hilt.loaders import PLACES, LoaderPlace
from hilt.runtime import Runtime
from hilt.testing import Folder, environment

pytestmark = pytest.mark.starts_processes

needs_bubblewrap = pytest.mark.skipif(not shutil.which("bwrap"), reason="needs bubblewrap")

FOLDER_FILES = {
    "tool": ("planted.md", "---\nname: planted\ndescription: Planted.\n---\ntouch ran\n"),
    "skill": ("planted/SKILL.md", "---\nname: planted\ndescription: Planted.\n---\nText.\n"),
    "command": ("planted.md", "Do it.\n"),
    "agent": ("planted.md", "---\nname: planted\ndescription: Planted.\n---\nWork.\n"),
    "hooks": ("planted.sh", "touch ran\n"),
}


class Home:
    """A home directory that is the workspace itself, so that every place is inside."""

    def __init__(self, base: str) -> None:
        self.folder = Folder(os.path.join(os.path.realpath(base), "home"))
        self.environ = {**environment(base), "HILT_CONFIG_DIR": self.folder.join(".config/hilt")}
        os.makedirs(self.folder.path, exist_ok=True)

    @contextmanager
    def runtime(self, **flags: Any) -> Iterator[Runtime]:
        with Runtime(self.folder.path, environ=self.environ, flags={"mode": "yolo", **flags}) as runtime:
            yield runtime

    def file(self, place: LoaderPlace) -> tuple[str, str]:
        """Return a file in a place, relative to the workspace, and what to plant there."""
        above = ".config/hilt/" if place.base == "config" else ""
        if not place.is_folder:
            return above + place.path, "planted"
        name, text = FOLDER_FILES[place.kind]
        return f"{above}{place.path}/{name}", text

    def loaded(self, **flags: Any) -> set[str]:
        with self.runtime(**flags) as runtime:
            contents = runtime.parts.skills.current()
            found = {
                "tool": runtime.parts.toolbox.tools_found().definitions,
                "skill": contents.skills,
                "command": contents.commands,
                "agent": read_definitions(runtime).known,
            }
            return {kind for kind, names in found.items() if "planted" in names}


@pytest.fixture
def home(base) -> Home:
    return Home(base)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: f"{place.base} {place.path}")
def test_a_file_tool_writes_no_place_that_is_loaded(home, place):
    path, text = home.file(place)

    with home.runtime() as runtime:
        result = runtime.call("write_file", path=path, content=text)

    is_editable = place.kind == "instructions" and "/" not in place.path
    assert (result.error and result.error.code) in ((None,) if is_editable else ("protected_path", "sensitive_path"))
    assert os.path.exists(home.folder.join(path)) == is_editable


@needs_bubblewrap
@pytest.mark.parametrize("exists", [False, True], ids=["missing", "existing"])
@pytest.mark.parametrize("name", [None, "mine", "mine/.deep/tools"])
def test_a_command_plants_nothing_that_is_loaded(home, exists, name):
    files = dict(map(home.file, PLACES))
    flags: dict[str, Any] = {}
    if name is not None:
        flags["custom.dirs"] = [name]
        files[f"{name}/planted.md"] = FOLDER_FILES["tool"][1]
    if exists:
        for path in files:
            os.makedirs(os.path.dirname(home.folder.join(path)), exist_ok=True)
        if name is not None:
            os.makedirs(home.folder.join(name), exist_ok=True)
    before = home.folder.tree()
    lines = [f"mkdir -p {os.path.dirname(path) or '.'}; printf %s '{text}' > {path}" for path, text in files.items()]
    tops = " ".join(dict.fromkeys(path.partition("/")[0] for path in files))
    lines.append(f"for f in {tops}; do mv $f moved-$f && mkdir -p $f/tools && echo x > $f/tools/planted.md; done; true")

    with home.runtime(**flags) as runtime:
        result = runtime.call("run_shell", command="\n".join(lines))

    assert result.ok, result.error
    planted = {path for path in home.folder.tree() if path not in before and not path.startswith("moved-")}
    loadable = {path for path in files if not path.endswith(".md") or "/" in path}
    assert planted & loadable == set()
    assert home.loaded(**flags) == set()


@pytest.mark.parametrize("way", ["named", "below", "link", "other root"])
def test_a_named_folder_of_tools_in_the_workspace_is_loaded_after_trust_only(base, way):
    home = Home(base)
    flags: dict[str, Any] = {"custom.dirs": ["mine"]}
    other = Folder(os.path.join(os.path.realpath(base), "other"))
    os.makedirs(other.path)
    if way == "below":
        flags["custom.dirs"] = [home.folder.join("a/b/mine")]
    elif way == "link":
        os.symlink(home.folder.join("mine"), os.path.join(base, "link"))
        flags["custom.dirs"] = [os.path.join(base, "link")]
    elif way == "other root":
        home.environ["HILT_WORKSPACE_ROOTS"] = other.path
        flags["custom.dirs"] = [other.join("mine")]
    folder = {"below": home.folder.join("a/b/mine"), "other root": other.join("mine")}.get(
        way, home.folder.join("mine")
    )
    os.makedirs(folder)
    path = os.path.join(folder, "planted.md")
    with open(path, "w", encoding="utf-8") as file:
        file.write(FOLDER_FILES["tool"][1])

    assert home.loaded(**flags) == set()
    with home.runtime(**flags) as runtime:
        trusted = loaded_file(runtime, path)
        assert trusted is not None
        runtime.parts.authority.trust().trust(trusted, trusted.read())
        written = runtime.call("write_file", path=path, content="evil")
    assert home.loaded(**flags) == {"tool"}
    assert written.error is not None
    assert written.error.code == "protected_path"


@pytest.mark.parametrize("linked", ["file", "folder", "definition", "script"])
def test_the_users_own_tool_is_not_loaded_through_a_link_into_the_workspace(base, linked):
    environ = environment(base)
    workspace, config = Folder(os.path.join(base, "workspace")), Folder(environ["HILT_CONFIG_DIR"])
    fields = {"name": "planted", "script": "run.sh", "runtime": "bash"}
    definition = json.dumps({**fields, "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}})
    workspace.write("planted.md", FOLDER_FILES["tool"][1])
    workspace.write("planted/tool.json", definition)
    workspace.write("planted/run.sh", "echo '{}'\n")
    if linked in ("file", "folder"):
        name = "planted.md" if linked == "file" else "planted"
        os.makedirs(config.join("tools"))
        os.symlink(workspace.join(name), config.join(f"tools/{name}"))
    else:
        for name, text in (("tool.json", definition), ("run.sh", "echo '{}'\n")):
            if (linked == "script") == (name == "run.sh"):
                os.makedirs(config.join("tools/planted"), exist_ok=True)
                os.symlink(workspace.join(f"planted/{name}"), config.join(f"tools/planted/{name}"))
            else:
                config.write(f"tools/planted/{name}", text)

    with Runtime(workspace.path, environ=environ) as runtime:
        tools = runtime.parts.toolbox.tools_found()
        assert "planted" not in tools.definitions
        assert "inside the workspace" in tools.problems[0].message


@pytest.mark.parametrize("inner", ["lib", "deep/lib", "file"])
def test_the_users_own_tool_does_not_run_with_a_link_into_the_workspace(base, inner):
    environ = environment(base)
    workspace, config = Folder(os.path.join(base, "workspace")), Folder(environ["HILT_CONFIG_DIR"])
    fields = {"name": "planted", "script": "run.sh", "runtime": "bash"}
    definition = {**fields, "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}}
    config.write("tools/planted/tool.json", json.dumps(definition))
    linked = f'"${{0%/*}}/{inner}"'
    config.write("tools/planted/run.sh", f". {linked}/run.sh 2>/dev/null || . {linked}; echo '{{}}'")
    workspace.write("lib/run.sh", f"touch {workspace.join('ran')}\n")
    os.makedirs(config.join("tools/planted/deep"))
    target = workspace.join("lib/run.sh" if inner == "file" else "lib")
    os.symlink(target, config.join(f"tools/planted/{inner}"))

    with Runtime(workspace.path, environ=environ, flags={"mode": "yolo"}) as runtime:
        refused = runtime.call("planted")
        os.unlink(config.join(f"tools/planted/{inner}"))
        os.symlink(os.devnull, config.join(f"tools/planted/{inner}"))
        done = runtime.call("planted")

    assert refused.error is not None
    assert refused.error.code == "tool_invalid"
    assert f"tools/planted/{inner} leads into the workspace" in refused.error.message
    assert not os.path.exists(workspace.join("ran"))
    assert done.ok, done.error


@pytest.mark.parametrize("name", ["", "tools", "tools/planted"])
def test_in_the_configuration_directory_as_the_workspace_tools_need_trust(base, name):
    environ = environment(base)
    workspace = Folder(os.path.join(os.path.realpath(environ["HILT_CONFIG_DIR"]), name))
    os.makedirs(workspace.path)
    path = {"": "tools/planted.md", "tools": "planted.md"}.get(name, "tool.json")
    fields = {"name": "planted", "script": "run.sh", "runtime": "bash"}
    text = FOLDER_FILES["tool"][1]
    if path == "tool.json":
        workspace.write("run.sh", "echo '{}'\n")
        text = json.dumps({**fields, "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}})
    workspace.write(path, text)

    with Runtime(workspace.path, environ=environ, flags={"mode": "yolo"}) as runtime:
        assert "planted" not in runtime.parts.toolbox.tools_found().definitions
        if not name:
            runtime.call("run_shell", command="echo evil > tools/planted.md; echo evil > config.toml; true")
            assert workspace.tree() == {"tools/": None, "tools/planted.md": text}


@pytest.mark.parametrize("name", ["", "blobs"])
def test_the_state_directory_is_no_workspace(base, name):
    environ = environment(base)
    folder = os.path.join(environ["HILT_STATE_DIR"], name)
    os.makedirs(folder, exist_ok=True)

    with pytest.raises(ToolError) as caught:
        Runtime(folder, environ=environ)

    assert caught.value.code == "sensitive_path"


@pytest.mark.parametrize("name", ["config.toml", "permissions.yaml", "hooks.yaml", "hooks/format.py"])
def test_settings_that_link_into_the_workspace_are_protected_there(base, name):
    environ = environment(base)
    workspace, config = Folder(os.path.join(base, "workspace")), environ["HILT_CONFIG_DIR"]
    workspace.write(f"dotfiles/{name}", "")
    os.makedirs(config, exist_ok=True)
    linked = name.partition("/")[0]
    os.symlink(workspace.join(f"dotfiles/{linked}"), os.path.join(config, linked))

    with Runtime(workspace.path, environ=environ, flags={"mode": "yolo"}) as runtime:
        result = runtime.call("write_file", path=f"dotfiles/{name}", content="x")
        ran = runtime.call("run_shell", command=f"echo x > dotfiles/{name}; mv dotfiles/{name} gone; true")

    assert (result.error and result.error.code, ran.ok) == ("protected_path", True)
    assert workspace.read(f"dotfiles/{name}") == ""
