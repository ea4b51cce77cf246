"""The version is defined in one place, and the files that a release derives from it are up to date."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

import hilt
from scripts import native, readme, release

ROOT = Path(native.ROOT)
CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- New.\n\n## [0.1.0] - 2026-01-01\n\n- Old.\n"


def test_the_metadata_files_have_the_version_of_the_package():
    assert hilt.__version__ == release.VERSION
    for name in release.DESCRIPTIONS:
        description = (ROOT / name).read_text(encoding="utf-8")
        assert description.count(f'"version": "{hilt.__version__}"') > 0
        assert release.with_version(description, hilt.__version__) == description


def test_a_new_version_changes_only_the_version_fields():
    description = (ROOT / "server.json").read_text(encoding="utf-8")

    changed = json.loads(release.with_version(description, "9.8.7"))

    assert (changed["version"], changed["packages"][0]["version"]) == ("9.8.7", "9.8.7")
    assert changed["$schema"] == json.loads(description)["$schema"]


def test_the_section_of_a_version_is_made_from_unreleased_only_once():
    changelog = release.with_section(CHANGELOG, "0.2.0", "2026-02-02")

    assert "## [Unreleased]\n\n## [0.2.0] - 2026-02-02\n\n### Added\n\n- New.\n" in changelog
    assert release.section(changelog, "0.2.0") == "### Added\n\n- New."
    assert release.section(changelog, "0.1.0") == "- Old."
    assert release.with_section(changelog, "0.2.0", "2026-03-03") == changelog


def test_a_release_fails_if_unreleased_is_empty():
    empty = release.with_section(CHANGELOG, "0.2.0", "2026-02-02")

    with pytest.raises(SystemExit, match="Unreleased"):
        release.with_section(empty, "0.3.0", "2026-03-03")


def test_relative_links_of_the_packaged_readme_lead_to_the_repository():
    text = "![a](docs/a.svg) [b](docs/b.md#c) [d](https://example.org/) `[e](f)`"

    assert readme.absolute(text, "https://host/us") == (
        "![a](https://host/us/raw/main/docs/a.svg) [b](https://host/us/blob/main/docs/b.md#c) "
        "[d](https://example.org/) `[e](https://host/us/blob/main/f)`"
    )


@pytest.mark.starts_processes
def test_the_package_contains_the_readme(tmp_path):
    building = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(building, cwd=ROOT, env={**os.environ, "HILT_NATIVE": "off"}, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")

    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(f"hilt-{hilt.__version__}.dist-info/METADATA").decode()
    assert "Description-Content-Type: text/markdown" in metadata
    assert "# hilt\n" in metadata
    assert "](docs/" not in metadata


def test_the_readme_has_the_name_in_the_registry():
    name = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))["name"]

    assert f"mcp-name: {name}" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", sorted(ROOT.glob(".github/workflows/*.yml")), ids=lambda path: path.name)
def test_workflows_pin_their_actions_and_have_no_permissions_by_default(path):
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    actions = [step["uses"] for job in workflow["jobs"].values() for step in job["steps"] if "uses" in step]

    assert actions
    assert [action for action in actions if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action)] == []
    assert workflow["permissions"] == {}
    assert all("permissions" in job for job in workflow["jobs"].values())


@pytest.mark.starts_processes
def test_the_plug_in_runs_a_valid_command():
    plugin = json.loads((ROOT / "plugin/.claude-plugin/plugin.json").read_text(encoding="utf-8"))
    server = plugin["mcpServers"]["hilt"]

    command = shutil.which(server["command"], path=os.path.dirname(sys.executable))
    assert command is not None
    done = subprocess.run([command, *server["args"], "--help"], capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")
    assert plugin["license"] == "Apache-2.0"
