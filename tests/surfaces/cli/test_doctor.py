from __future__ import annotations

import json
import os
from contextlib import suppress

import pytest

from hilt.desk.diagnosis import sandbox_findings
from hilt.sandbox import availability, bubblewrap, landlock
from hilt.sandbox.backend import Availability
from hilt.surfaces.cli.doctor import lines_of


def test_doctor_reports_components_and_problems(command):
    healthy = command.run("doctor")
    os.chmod(command.state, 0o755)
    broken = command.run("doctor")

    assert healthy.returncode == 0
    groups = [line for line in healthy.stdout.decode().splitlines() if line and not line.startswith(" ")]
    assert groups in (["Works", "Optional"], ["Works", "Needs you", "Optional"])
    assert b"  python " in healthy.stdout.partition(b"Optional")[0]
    assert broken.returncode == 1
    assert f"chmod 700 {command.state}".encode() in broken.stdout


def findings(command) -> list[dict[str, object]]:
    report: list[dict[str, object]] = json.loads(command.run("doctor", "--json").stdout)
    return report


def test_every_broken_setting_is_reported_with_its_file_and_line(command):
    path = os.path.join(command.environ["HILT_CONFIG_DIR"], "config.toml")
    os.makedirs(os.path.dirname(path))
    with open(path, "w", encoding="utf-8") as file:
        file.write('mode = "normal"\nprofil = "full"\n')
    command.folder.write(".hilt/config.toml", "[shell]\ntmp_mb = true\n")
    command.environ["HILT_APPROVE"] = "maybe"

    done = command.run("doctor")

    text = done.stdout.decode()
    project = command.folder.join(".hilt/config.toml")
    joined = "".join(text.split())
    assert done.returncode == 1
    for part in (f"{path}:2: unknown key profil", f"{project}:2: shell.tmp_mb", "HILT_APPROVE: "):
        assert "".join(part.split()) in joined
    wrong = [finding for finding in findings(command) if finding["level"] == "wrong"]
    assert [finding["remedy"] for finding in wrong] == [f"$EDITOR {path}", f"$EDITOR {project}", "unset HILT_APPROVE"]


def test_what_programs_outside_the_sandbox_do_not_get_is_listed(command):
    inside = command.folder.path
    command.environ["PATH"] = f"{inside}/.venv/bin:{command.environ['PATH']}"
    command.environ["LD_LIBRARY_PATH"] = f"{inside}/lib"

    facts = [item for item in findings(command) if item["name"] == "environment"]

    assert [(item["level"], str(item["fact"]).partition(" is ")[0], item["remedy"]) for item in facts] == [
        ("ok", f"PATH: {inside}/.venv/bin", ""),
        ("limited", f"LD_LIBRARY_PATH: {inside}/lib", "unset LD_LIBRARY_PATH before you start hilt"),
    ]


def test_language_servers_are_listed_with_the_command_that_installs_a_missing_one(command, tmp_path):
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("basedpyright-langserver", "typescript-language-server"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    inside = command.folder.write("bin/gopls", "#!/bin/sh\n")
    os.chmod(inside, 0o755)
    command.environ["PATH"] = f"{programs}:{command.folder.path}/bin"
    for name in ("go.mod", "pyproject.toml", "package.json", "tsconfig.json"):
        command.folder.write(name, "{}" if name.endswith("json") else "module x\n" if name == "go.mod" else "")

    by_language = {str(item["fact"]).partition(":")[0]: item for item in findings(command) if item["name"] == "lsp"}

    assert by_language["Python"]["level"] == "ok"
    assert str(programs / "basedpyright-langserver") in str(by_language["Python"]["fact"])
    assert by_language["Go"] == {
        **by_language["Go"], "level": "missing", "remedy": "go install golang.org/x/tools/gopls@latest"
    }  # fmt: skip
    script = by_language["TypeScript and JavaScript"]
    assert script["level"] == "missing"
    assert "'typescript@<7'" in str(script["remedy"])
    assert "Zig" not in by_language  # the folder has no such files


def test_a_broken_rule_is_reported_too(command):
    command.folder.write(".hilt/permissions.yaml", "allow: [Bash(]\n")

    [wrong] = [finding for finding in findings(command) if finding["level"] == "wrong"]

    assert str(wrong["fact"]).startswith(command.folder.join(".hilt/permissions.yaml"))
    assert wrong["remedy"]


def test_a_partial_sandbox_is_one_finding_with_one_command():
    gaps = landlock.missing(3)
    partial = Availability(
        "landlock", "bubblewrap is not installed. Landlock confines in part.", gaps, "sudo apt install bubblewrap"
    )

    [finding] = sandbox_findings(partial)

    assert finding.level == "limited"
    assert lines_of(finding) == [
        f"  {'sandbox':12} bubblewrap is not installed.",
        f"{'':15}Landlock confines in part.",
        f"{'':15}Commands cannot be undone or previewed; --json lists {len(gaps)} gaps.",
        f"{'':15}-> sudo apt install bubblewrap",
    ]
    assert finding.lacks == gaps


@pytest.mark.parametrize("program, remedy", [("apt", "sudo apt"), ("dnf", "sudo dnf"), ("none", "Use the pack")])
def test_the_command_that_installs_bubblewrap_is_that_of_the_system(program, remedy, monkeypatch):
    monkeypatch.setattr(bubblewrap, "_SYSTEM_FOLDERS", ())
    found = bubblewrap.Bubblewrap().probe("/nonexistent", lambda name: f"/usr/bin/{name}" if name == program else None)
    assert found.remedy.startswith(remedy)


def test_doctor_and_init_probe_the_sandbox_afresh(command):
    for words in (["doctor"], ["init", "--print"]):
        record = os.path.join(command.state, "sandbox.json")
        os.makedirs(command.state, mode=0o700, exist_ok=True)
        availability._remember(record, Availability("landlock", "An old result."))

        assert "An old result" not in command.run(*words).stdout.decode()
        with suppress(FileNotFoundError), open(record, encoding="utf-8") as file:
            assert "An old result" not in file.read()
