"""What the `sandbox` key of a tool lets its process read and write, in real sandboxes."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from collections.abc import Callable

import pytest

from hilt.surfaces.cli.tool_files import abilities
from hilt.testing import Folder, temporary_runtime
from tests.programs import PATH, program

pytestmark = pytest.mark.skipif(sys.platform != "linux" or not shutil.which("bwrap"), reason="needs bubblewrap")

TRY = "try() { echo x 2>/dev/null > $1 && echo wrote $1 || echo refused $1; }\n"


@pytest.fixture
def personal(base) -> Folder:
    folder = Folder(os.path.join(base, "config", "tools"))
    os.makedirs(folder.path)
    return folder


def markdown(personal: Folder, sandbox: str, script: str) -> None:
    text = f"---\nname: probe\ndescription: Probe.\napproval: never\nsandbox: {sandbox}\n---\n{TRY}{script}\n"
    personal.write("probe.md", text)


def test_a_tool_writes_in_the_folders_it_names_and_nowhere_else(personal, runtime, workspace):
    workspace.write("src/a", "kept\n")
    workspace.write("out/b", "old\n")
    markdown(
        personal, "{write: [out, ./deep/er]}", "for f in out/b out/c deep/er/d deep/d src/a src/b e; do try $f; done"
    )

    done = runtime.call("probe")

    assert done.text.split("\n")[:-1] == [
        *("wrote out/b", "wrote out/c", "wrote deep/er/d"),
        *("refused deep/d", "refused src/a", "refused src/b", "refused e"),
    ]
    assert workspace.read("src/a") == "kept\n"
    assert workspace.read("deep/er/d") == "x\n"


def test_a_tool_may_name_a_single_file(personal, runtime, workspace):
    workspace.write("LOG.md", "")
    workspace.write("other", "")
    markdown(
        personal, "{write: [LOG.md]}", "try LOG.md; try other; rm -f LOG.md 2>/dev/null; mv other LOG.md 2>/dev/null; :"
    )

    done = runtime.call("probe")

    assert done.text.split("\n")[:2] == ["wrote LOG.md", "refused other"]
    assert (workspace.read("LOG.md"), workspace.read("other")) == ("x\n", "")


@pytest.mark.parametrize("path", [".", "./", "out/.."])
def test_the_whole_workspace_keeps_its_guards(personal, runtime, workspace, path):
    workspace.write(".git/config", "[core]\n")
    workspace.write(".git/HEAD", "ref: refs/heads/main\n")
    os.makedirs(workspace.join("out"))
    markdown(personal, f"{{write: [{path}]}}", "for f in a .git/config .git/hooks/x .hilt/x .claude/x; do try $f; done")

    lines = runtime.call("probe").text.split("\n")

    assert lines[:2] == ["wrote a", "wrote .git/config"]
    assert [line for line in lines if line.startswith("refused")] == [
        *("refused .git/hooks/x", "refused .hilt/x", "refused .claude/x")
    ]
    # a copy was written
    assert workspace.read(".git/config") == "[core]\n"


def test_guarded_files_inside_a_named_folder_stay_guarded(personal, runtime, workspace):
    workspace.write("vendor/lib/.git/config", "[core]\n")
    workspace.write("vendor/lib/.git/HEAD", "ref: refs/heads/main\n")
    workspace.write("vendor/.env", "SECRET=1")
    script = "try vendor/a; try vendor/lib/.git/config; try vendor/lib/.git/hooks/x; cat vendor/.env; mv vendor v"
    markdown(personal, "{write: [vendor]}", f"{script} 2>/dev/null; true")

    done = runtime.call("probe")

    assert done.text.split("\n")[:-1] == [
        *("wrote vendor/a", "wrote vendor/lib/.git/config", "refused vendor/lib/.git/hooks/x")
    ]
    assert workspace.read("vendor/lib/.git/config") == "[core]\n"


@pytest.mark.parametrize(
    "path, fact",
    [
        ("..", "outside"),
        ("/etc", "outside"),
        ("~", "outside"),
        (".git", "protected"),
        (".git/hooks", "protected"),
        ("a/.git/refs", "protected"),
        (".hilt", "protected"),
        (".hilt/tools", "protected"),
        (".claude", "protected"),
        ("link", "outside"),
        ("hilt-link/tools", "protected"),
        (".env", "sensitive"),
        ("file/x", "Not a directory"),
    ],
)
def test_a_tool_cannot_declare_protected_or_outside_paths_as_writable(personal, runtime, workspace, base, path, fact):
    workspace.write("file", "")
    os.makedirs(workspace.join(".hilt"))
    os.symlink(os.path.join(base, "elsewhere"), workspace.join("link"))
    os.symlink(".hilt", workspace.join("hilt-link"))
    markdown(personal, f"{{write: [ok, {path!r}]}}", "touch ok/RAN")

    error = runtime.call("probe").error

    assert (error.code, fact in error.message) == ("sandbox_unavailable", True), error.message
    assert not os.path.exists(workspace.join("ok/RAN"))
    assert not os.path.exists(os.path.join(base, "elsewhere"))


def test_in_plan_mode_nothing_is_written(personal, base):
    with temporary_runtime(base, flags={"mode": "plan"}) as (runtime, workspace):
        personal.write(
            "probe.md",
            "---\nname: probe\ndescription: P.\napproval: never\nread_only: true\nsandbox: {write: [out]}\n---\n"
            f"{TRY}try out/a; try b\n",
        )
        assert "wrote" not in runtime.call("probe").text
        assert not os.path.exists(workspace.join("out"))


def test_a_tool_reads_only_the_paths_of_the_home_that_it_names(personal, base):
    home = Folder(os.path.join(base, "home"))
    home.write(".kube/config", "cluster\n")
    home.write(".aws/credentials", "key\n")
    home.write("notes", "private\n")
    home.write("data/set", "numbers\n")
    with temporary_runtime(base) as (runtime, workspace):
        workspace.write(".env", "SECRET=1\n")
        script = "cd ~; cat .kube/config data/set .aws/credentials notes 2>/dev/null; try data/new; cat {}/.env"
        markdown(personal, "{read: [~/.kube/config, ~/data]}", f"{script.format(workspace.path)} 2>/dev/null; true")

        assert runtime.call("probe").text == "cluster\nnumbers\nrefused data/new\n"


def test_naming_the_home_reveals_no_credentials(personal, base):
    home = Folder(os.path.join(base, "home"))
    home.write(".aws/credentials", "key\n")
    home.write("notes", "private\n")
    with temporary_runtime(base) as (runtime, _):
        markdown(personal, "{read: ['~']}", "cat ~/notes ~/.aws/credentials 2>/dev/null; true")

        assert runtime.call("probe").text == "private\n"


def test_credentials_that_are_named_explicitly_are_readable(personal, base):
    home = Folder(os.path.join(base, "home"))
    home.write(".kube/config", "cluster\n")
    home.write(".aws/credentials", "key\n")
    with temporary_runtime(base) as (runtime, _):
        markdown(personal, "{read: [~/.kube]}", "cat ~/.kube/config ~/.aws/credentials 2>/dev/null; true")

        assert runtime.call("probe").text == "cluster\n"


def test_a_folder_tool_can_read_its_own_folder_in_a_hidden_one(personal, runtime):
    personal.write(
        "probe/tool.md",
        "---\nname: probe\ndescription: P.\nruntime: bash\nscript: run.sh\nrequireApproval: false\n"
        "hasSecurityCheck: true\nsecurityScript: check.sh\nsandbox: {network: false}\ninputSchema: {type: object}\n"
        "outputSchema: {type: object}\n---\nProbe.\n",
    )
    personal.write(
        "probe/check.sh",
        'echo \'{"allowed": true, "requiresApproval": false, "permissionType": "x", "permissionKey": "y"}\'',
    )
    personal.write("probe/run.sh", 'echo "{\\"data\\": \\"$(cat "$(dirname "$0")/data")\\"}"')
    personal.write("probe/data", "beside")

    assert runtime.call("probe").data == {"data": "beside"}


# --- tools without the key: the user's default applies ------------------------------------------------------------


def probes(form: str, script: str) -> dict[str, str]:
    """A tool in one of the formats, without the key, that prints the output of a bash script."""
    if form == "markdown":
        return {"probe.md": f"---\nname: probe\ndescription: Probe.\napproval: never\n---\n{script}\n"}
    if form in ("folder", "warm"):
        fields = {"name": "probe", "runtime": "bash", "script": "run.sh", "warm": form == "warm"}
        definition = {
            **fields,
            "requireApproval": False,
            "inputSchema": {"type": "object"},
            "outputSchema": {"type": "object"},
        }
        loop = f"while read -r line; do echo '{{\"result\": \"'$({script})'\"}}'; done"
        return {"probe/tool.json": json.dumps({**definition, "description": "Probe."}), "probe/run.sh": loop}
    if form == "python":
        return {
            "probe.py": "import subprocess\nfrom hilt import tool\n\n\n@tool(effects='read')\ndef probe() -> str:\n"
            f"    'Probe.'\n    return subprocess.run(['bash', '-c', {script!r}], stdout=-1, text=True).stdout\n"
        }
    return {
        "probe.mjs": "import { execFileSync } from 'node:child_process';\n"
        "export default { name: 'probe', tool: { description: 'Probe.', needsApproval: false, execute: () => "
        f"execFileSync('bash', ['-c', {json.dumps(script)}]).toString() }} }};\n"
    }


FORMS = ["markdown", "folder", "warm", "python", "javascript"]
ALLOWED = {
    "declared": ["workspace", "elsewhere", "network"],
    "workspace-write": ["workspace"],
    "read-only": [],
}


@pytest.fixture
def probe(base, personal, monkeypatch) -> Callable[[str, str], list[str]]:
    """Return what a tool of a format can do under a default sandbox."""
    monkeypatch.setenv("PATH", PATH)

    def run(form: str, default: str) -> list[str]:
        if form == "javascript":
            program("node")
        elsewhere = os.path.join(base, "elsewhere")
        os.makedirs(elsewhere)
        with socket.create_server(("127.0.0.1", 0)) as server:
            script = (
                f"{{ touch {base}/workspace/a && printf 'workspace '; touch {elsewhere}/a && printf 'elsewhere '; "
                f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]} && printf network; }} 2>/dev/null; true"
            )
            for name, text in probes(form, script).items():
                personal.write(name, text)
            with temporary_runtime(base, flags={"custom.sandbox": default}) as (runtime, _):
                done = runtime.call("probe")
        assert done.error is None, done.error
        printed = done.text if done.data is None else done.data["result"]
        rights = printed.split()
        assert [os.path.exists(f"{base}/workspace/a"), os.path.exists(f"{elsewhere}/a")] == [
            "workspace" in rights,
            "elsewhere" in rights,
        ]
        return rights

    return run


@pytest.mark.parametrize("default", ALLOWED)
@pytest.mark.parametrize("form", FORMS)
def test_a_tool_without_the_key_is_confined_by_the_users_default(probe, form, default):
    assert probe(form, default) == ALLOWED[default]


def test_a_tool_with_the_key_ignores_the_users_default(base, personal):
    markdown(personal, "{write: [out]}", "try a; try out/b")

    with temporary_runtime(base, flags={"custom.sandbox": "read-only"}) as (runtime, _):
        assert runtime.call("probe").text.split("\n")[:2] == ["refused a", "wrote out/b"]


def test_a_module_is_confined_while_it_is_loaded(base, personal):
    loading = f"open({base + '/workspace/loaded'!r}, 'w')"
    personal.write(
        "probe.py", probes("python", "true")["probe.py"] + f"\ntry:\n    {loading}\nexcept OSError:\n    pass\n"
    )

    with temporary_runtime(base, flags={"custom.sandbox": "read-only"}) as (runtime, workspace):
        assert runtime.call("probe").ok
        assert workspace.tree() == {}


def test_a_tool_lists_its_effective_rights(base, personal):
    personal.write("probe.md", probes("markdown", "true")["probe.md"])

    with temporary_runtime(base, flags={"custom.sandbox": "workspace-write"}) as (runtime, _):
        assert abilities(runtime.parts.toolbox.tools_found().definitions["probe"])[1:3] == [
            "sandbox: yes, without network",
            "may write: .",
        ]
        assert runtime.parts.toolbox.tools_found() is runtime.parts.toolbox.tools_found()
