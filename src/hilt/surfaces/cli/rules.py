"""`hilt rules`: list the rules of a folder, and add or remove one."""

from __future__ import annotations

import os
import sys
from functools import partial

from hilt import places
from hilt.desk import rules as desk
from hilt.desk import trust
from hilt.desk.personal_files import SettingsChange
from hilt.loaders import paths_of, project_file
from hilt.surfaces.cli.layout import print_json, print_lines
from hilt.surfaces.cli.parsing import Namespace, Options, Parser
from hilt.surfaces.cli.person import change_text, confirm, refuse_tools, run_for_person
from hilt.surfaces.opening import open_runtime


def build(parser: Parser) -> None:
    """Declare the arguments of the command."""
    parser.run = _list
    parser.details = """Rules decide on calls by tool, command, path or domain. deny is stronger than ask, and ask than
allow. To see which rule decides on a call: hilt explain. The forms of rules are in the guide on permissions."""
    listing = parser.command("list", "List the rules with their files and lines", _list)
    for below in (parser, listing):
        below.add_argument("--json", action="store_true", help="Print JSON")
    listing.examples = [("hilt rules list --json", "List the rules as JSON")]
    adding = parser.command("add", "Add a rule", partial(_change, adds=True))
    removing = parser.command("remove", "Remove a rule", partial(_change, adds=False))
    for below in (adding, removing):
        below.add_argument("rule", metavar="RULE", help="The rule, such as 'Bash(git push:*)' or 'Write(path:src/**)'")
        below.add_argument("--user", action="store_true", help="In your own file, for all projects")
        below.add_argument("--yes", action="store_true", help="Write without a prompt")
    decision = adding.add_mutually_exclusive_group(required=True)
    for name, what in (("allow", "Allow"), ("ask", "Ask before"), ("deny", "Deny")):
        help = f"{what} the calls that it matches"
        decision.add_argument(f"--{name}", dest="decision", action="store_const", const=name, help=help)
    adding.examples = [
        ("hilt rules add 'Bash(npm publish:*)' --ask", "Ask before a command, in this project"),
        ("hilt rules add 'Read(path:secrets/**)' --deny --user", "Hide a folder, in all projects"),
    ]
    removing.examples = [("hilt rules remove 'Bash(npm publish:*)'", "Remove a rule of this project")]
    parser.examples = [("hilt rules", "List the rules"), *adding.examples, *removing.examples]


def _list(options: Options, arguments: Namespace) -> int:
    with open_runtime(options) as runtime:
        rules = desk.rules(runtime)
    if arguments.json:
        return print_json(rules)
    print_lines(
        f"{rule.decision:<5}  {rule.rule}  ({rule.file}, line {rule.line})"
        + ("" if rule.trusted or rule.decision != "allow" else ", no effect: the file is not trusted")
        for rule in rules
    )
    if not rules:
        example = places.command("rules", "add", "Bash(git push:*)", "--ask")
        sys.stdout.write(f"There are no rules: hilt's defaults apply. To add one: {example}\n")
    return 0


def _change(options: Options, arguments: Namespace, *, adds: bool) -> int:
    with open_runtime(options) as runtime:
        if adds:
            change = desk.with_rule(runtime, arguments.decision, arguments.rule, personal=arguments.user)
        else:
            change = desk.without_rule(runtime, arguments.rule, personal=arguments.user)
    write = partial(_write, mode=0o600 if arguments.user else 0o666)
    command = f"rules {'add' if adds else 'remove'}"
    if arguments.yes:
        refuse_tools(command)
        sys.stdout.write(change_text(change))
        write(change)
        return 0
    return run_for_person(command, lambda screen: 0 if confirm(screen, change, write) else 1)


def _write(change: SettingsChange, mode: int) -> None:
    """Write a rule file; what the person trusted before stays trusted."""
    state, file = places.state_dir(os.environ), project_file(change.real)
    needs_trust = file is not None and file.kind == "rules" and file.path in paths_of("rules")
    keeps_trust = change.before is None or (file is not None and trust.review(state, file).is_trusted)
    change.write(mode)
    if file is None or not needs_trust:
        return
    if keeps_trust and (review := trust.review(state, file)).content == change.after:
        trust.trust(state, review)
    elif not keeps_trust:
        sys.stdout.write(f"Its allow rules have no effect until you trust it: {places.command('trust', file.path)}\n")
