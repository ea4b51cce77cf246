from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from hilt.servers.configured import Server
from hilt.servers.definitions import AcceptedTool, assign_names
from hilt.servers.pins import Pins

SERVER = Server("s", ".mcp.json", "project", "stdio", "0", command="x")


def accepted_tools(*names: str) -> list[AcceptedTool]:
    raws: list[dict[str, Any]] = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
    return assign_names("s", raws, {})[0]


def test_no_definitions_are_accepted_at_first(tmp_path):
    assert Pins(str(tmp_path), SERVER).read() is None


def test_other_processes_see_accepted_definitions(tmp_path):
    Pins(str(tmp_path), SERVER).pin(accepted_tools("a", "b"))

    pinned = Pins(str(tmp_path), SERVER).read()

    assert pinned == {tool.raw["name"]: tool for tool in accepted_tools("a", "b")}


def test_only_the_first_definitions_are_accepted_without_asking(tmp_path):
    first, other = Pins(str(tmp_path), SERVER), Pins(str(tmp_path), SERVER)
    first.pin(accepted_tools("a"))

    assert list(other.pin(accepted_tools("evil"))) == ["a"]
    assert list(first.read() or {}) == ["a"]


def test_only_one_of_many_simultaneous_definitions_is_accepted(tmp_path):
    results: list[list[str]] = []
    barrier = threading.Barrier(8)

    def pin(name: str) -> None:
        pins = Pins(str(tmp_path), SERVER)
        barrier.wait()
        results.append(list(pins.pin(accepted_tools(name))))

    threads = [threading.Thread(target=pin, args=(f"t{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({tuple(names) for names in results}) == 1
    assert len(os.listdir(os.path.join(str(tmp_path), "servers"))) == 1


def test_other_processes_see_definitions_that_a_user_accepts_later(tmp_path):
    first, other = Pins(str(tmp_path), SERVER), Pins(str(tmp_path), SERVER)
    first.pin(accepted_tools("a"))
    assert list(other.read() or {}) == ["a"]
    first.offer([tool.raw for tool in accepted_tools("a", "b")])
    assert [raw["name"] for raw in other.offered() or []] == ["a", "b"]

    first.accept(accepted_tools("a", "b"))

    assert list(other.read() or {}) == ["a", "b"]
    assert other.offered() is None


@pytest.mark.parametrize("change", [{"name": "t"}, {"origin": "config.toml"}, {"digest": "1"}])
def test_another_server_has_other_definitions(tmp_path, change):
    Pins(str(tmp_path), SERVER).pin(accepted_tools("a"))

    assert Pins(str(tmp_path), SERVER._replace(**change)).read() is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 2, "tools": []}', '{"version": 1, "tools": [[1]]}'])
def test_a_corrupt_file_accepts_nothing_and_is_not_replaced(tmp_path, text):
    pins = Pins(str(tmp_path), SERVER)
    pins.pin(accepted_tools("a"))
    (name,) = os.listdir(os.path.join(str(tmp_path), "servers"))
    with open(os.path.join(str(tmp_path), "servers", name), "w", encoding="utf-8") as file:
        file.write(text)

    assert Pins(str(tmp_path), SERVER).read() == {}
    assert Pins(str(tmp_path), SERVER).pin(accepted_tools("evil")) == {}
