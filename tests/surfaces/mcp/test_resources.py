"""Our own resources: a session reads only those that its tools could read."""

from __future__ import annotations

import os

import pytest

from hilt.errors import ToolError
from hilt.surfaces.mcp.resources import SNAPSHOTS, Resources
from hilt.testing import Folder, temporary_runtime


def uris(resources: Resources) -> list[str]:
    snapshots = [resource["uri"] for resource in resources.all("default") if resource["uri"].startswith(SNAPSHOTS)]
    return sorted(uri.removeprefix(SNAPSHOTS).partition("/")[2] for uri in snapshots)


@pytest.mark.parametrize("verdict", ["deny", "ask"])
def test_a_snapshot_is_read_only_where_the_file_may_be_read(base, verdict):
    with temporary_runtime(base) as (runtime, workspace):
        for path in ("open.txt", "private/x.txt"):
            workspace.write(path, f"{path} before\n")
            runtime.call("write_file", path=path, content="after\n")
        resources = Resources(runtime)
        assert uris(resources) == ["open.txt", "private/x.txt"]
        hidden = next(
            resource["uri"] for resource in resources.all("default") if resource["uri"].endswith("private/x.txt")
        )
        assert resources.read("default", hidden)[0]["text"] == "private/x.txt before\n"

    Folder(os.path.join(base, "config")).write("permissions.yaml", f"{verdict}:\n  - read_file(path:private/**)\n")
    with temporary_runtime(base) as (runtime, _):
        resources = Resources(runtime)
        assert uris(resources) == ["open.txt"]
        with pytest.raises(ToolError) as raised:
            resources.read("default", hidden)
        assert raised.value.code == "not_found"


def test_a_name_that_has_become_sensitive_is_not_read(base):
    with temporary_runtime(base) as (runtime, workspace):
        workspace.write("notes.key", "before\n")
        runtime.call("write_file", path="notes.key", content="after\n")
        assert uris(Resources(runtime)) == ["notes.key"]

    Folder(os.path.join(base, "config")).write("config.toml", '[workspace]\nsensitive = ["*.key"]\n')
    with temporary_runtime(base) as (runtime, _):
        assert uris(Resources(runtime)) == []
