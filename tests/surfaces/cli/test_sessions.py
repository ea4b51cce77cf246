from __future__ import annotations


def test_ending_a_session_deletes_its_stamps(command):
    command.folder.write("a.txt", "one\n")
    command.ask({"tool": "read_file", "args": {"path": "a.txt"}})
    command.folder.write("a.txt", "changed\n")
    stale = {"tool": "write_file", "args": {"path": "a.txt", "content": "x"}}

    assert command.ask(stale)[0]["error_code"] == "stale_file"
    assert command.run("sessions", "end").stdout == b"session default ended\n"
    assert command.ask(stale)[0]["ok"]
    assert command.run("sessions", "end", "--session", "other").stdout == b"session other has not been used here\n"
