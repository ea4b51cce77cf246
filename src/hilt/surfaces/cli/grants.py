"""`hilt grants`: list and revoke standing approvals."""

from __future__ import annotations

import os
import sys

from hilt import places
from hilt.desk import approvals
from hilt.desk.approvals import Grant
from hilt.desk.audit import workspace_id
from hilt.formats.invisible import one_line
from hilt.surfaces.cli.layout import local_time, print_json
from hilt.surfaces.cli.parsing import Namespace, Options, Parser
from hilt.surfaces.cli.person import for_person
from hilt.surfaces.terminal_prompt import Terminal


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.run = _list
    parser.details = """A grant is a rule stored by the answer "always". Without a command, the grants are listed;
--workspace DIR lists those of one folder. Requires a person at a terminal."""
    listing = parser.command("list", "List the grants", _list)
    for below in (parser, listing):
        below.add_argument("--json", action="store_true", help="Print JSON")
    revoking = parser.command("revoke", "Revoke a grant", _revoke)
    revoking.add_argument("id", metavar="ID", help="The id of the grant; any unique prefix works")
    listing.examples = [("hilt grants list --workspace .", "List the grants of this folder")]
    parser.examples = [("hilt grants", "List what is always allowed"), ("hilt grants revoke 4c1e", "Revoke one")]


@for_person("grants")
def _list(_: Terminal, options: Options, arguments: Namespace) -> int:
    workspace = workspace_id(options["workspace"]) if "workspace" in options else None
    grants = approvals.grants(places.state_dir(os.environ), workspace)
    if arguments.json:
        rows = [grant._asdict() for grant in grants]
        return print_json([{name: row[name] for name in row if name != "workspace"} for row in rows])
    sys.stdout.write(
        "".join(map(_grant, grants)) or "There are no grants: the answer always to an approval stores one.\n"
    )
    return 0


@for_person("grants")
def _revoke(_: Terminal, options: Options, arguments: Namespace) -> int:
    grant = approvals.revoke(places.state_dir(os.environ), arguments.id)
    sys.stdout.write(f"No longer allowed: {one_line(grant.rule)}\n")
    return 0


def _grant(grant: Grant) -> str:
    until = f", until {local_time(grant.until)}" if grant.until is not None else ""
    where = one_line(grant.folder or grant.workspace)
    return f"{grant.id}  {one_line(grant.rule)}\n  in {where}, since {local_time(grant.since)}{until}\n"
