"""The layers of the design, checked against imports, and the documentation that every module needs."""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import hilt
from hilt import catalog
from hilt.choices import dialect_names

ROOT = os.path.dirname(os.path.abspath(hilt.__file__))
ARCHITECTURE = Path(__file__).parents[1] / "docs/architecture.md"

# every module belongs to one layer, by its top-level name; imports point down, and within a layer only as listed below
FOUNDATION = {
    *("errors", "places", "choices", "variables", "lazy", "fence", "call", "params", "schema", "wire", "declaration"),
    *("installer", "call_threads", "loaders", "surroundings", "homes", "handles"),
}
LAYERS: tuple[set[str], ...] = (
    {"formats"},
    FOUNDATION,
    {"text", "shell", "policy", "sandbox", "output", "state", "knowledge", "web", "lsp", "desktop"},
    {"config", "catalog", "listing", "telemetry"},
    {"files", "processes", "skills"},
    {"context"},
    {"pipeline", "search"},
    {"authority", "active_call"},
    {"tools", "dialects", "custom", "servers"},
    {"running"},
    {"agents"},
    {"parts"},
    {"runtime"},
    {"desk"},
    {"testing", "surfaces"},
    {"__init__", "__main__"},
)
SAME_LAYER: dict[str, set[str]] = {
    **dict.fromkeys(FOUNDATION, FOUNDATION),
    "policy": {"shell"},
    "web": {"sandbox"},  # pages are converted in a limited child
    "processes": {"files"},
    "listing": {"catalog"},
    "servers": {"custom"},
}
# those who are handed an object from above, whose type they import
TYPES_FROM_ABOVE: dict[str, set[str]] = {
    "catalog": {"custom", "servers"},
    "context": {"authority", "running"},
    "pipeline": {"active_call", "authority", "running"},
    "active_call": {"running"},
    "running": {"parts"},
    "agents": {"runtime"},
}


def modules() -> Iterator[str]:
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in sorted(files):
            if name.endswith(".py"):
                yield os.path.relpath(os.path.join(folder, name), ROOT)[:-3].replace(os.sep, ".")


MODULES = sorted(modules())


@cache
def tree(module: str) -> ast.Module:
    with open(os.path.join(ROOT, module.replace(".", os.sep) + ".py"), encoding="utf-8") as file:
        return ast.parse(file.read())


@cache
def imports(module: str, *, types: bool = True) -> frozenset[str]:
    """Return all imports of a module, including those in functions and, with `types`, for types only."""
    imported: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.expr):  # contains no statements
            return
        if not types and isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            return
        if isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                inner = full.removeprefix("hilt.")
                is_module = full.startswith("hilt.") and (inner in MODULES or f"{inner}.__init__" in MODULES)
                imported.add(full if is_module else str(node.module))
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(tree(module))
    return frozenset(imported)


def hilt_imports(module: str, *, types: bool = True) -> set[str]:
    return {name.removeprefix("hilt.") for name in imports(module, types=types) if name.startswith("hilt.")}


def top_level(module: str) -> str:
    return module.partition(".")[0]


def rank(module: str) -> int:
    return next(number for number, names in enumerate(LAYERS) if top_level(module) in names)


def may_import(module: str, other: str) -> bool:
    package, imported = top_level(module), top_level(other)
    if imported in TYPES_FROM_ABOVE.get(package, ()):
        return other not in hilt_imports(module, types=False)
    return package == imported or rank(other) < rank(module) or imported in SAME_LAYER.get(package, ())


def test_every_module_has_a_layer():
    assert {top_level(module) for module in MODULES} == set().union(*LAYERS)


def test_imports_point_down():
    assert [
        f"{module} imports {name}"
        for module in MODULES
        for name in hilt_imports(module)
        if not may_import(module, name)
    ] == []


def knots(graph: dict[str, set[str]]) -> set[frozenset[str]]:
    """Return the groups of names that all reach each other."""

    def reached(name: str) -> set[str]:
        found, ahead = set[str](), [name]
        while ahead:
            new = graph[ahead.pop()] - found
            found |= new
            ahead += new
        return found

    reach = {name: reached(name) for name in graph}
    return {frozenset(other for other in reach[name] if name in reach[other]) for name in graph if name in reach[name]}


def imported_modules(module: str) -> set[str]:
    """Return the modules that a module imports, at the top and in functions, but not those only for types."""
    names = {name if name in MODULES else f"{name}.__init__" for name in hilt_imports(module, types=False)}
    return names & set(MODULES)


# modules of one package that import each other, at the top or in functions: cut a knot, tie none
STILL_KNOTS: tuple[str, ...] = (
    "authority.authority authority.consent authority.hooks authority.session_hooks authority.weighing",
    "custom.definition custom.markdown_tools",
    "files.collecting files.command_changes files.copying files.draft files.exchanging files.recovery "
    "files.workspace files.writing",
    "surfaces.mcp.calls surfaces.mcp.command surfaces.mcp.front surfaces.mcp.http "
    "surfaces.mcp.lines surfaces.mcp.messages surfaces.mcp.pipe surfaces.mcp.server "
    "surfaces.oneshot surfaces.opening surfaces.resident",
)


def test_no_packages_import_each_other():
    packages: dict[str, set[str]] = {top_level(module): set() for module in MODULES}
    for module in MODULES:
        packages[top_level(module)] |= {top_level(name) for name in imported_modules(module)} - {top_level(module)}

    assert knots(packages) == set()


def test_the_modules_of_a_package_that_import_each_other_only_become_fewer():
    graph = {module: imported_modules(module) - {module} for module in MODULES}

    assert knots(graph) == {frozenset(knot.split()) for knot in STILL_KNOTS}


# what surfaces may import: each other, the desk, the runtime, words and output
BELOW_THE_DESK = {
    *("state", "agents", "authority", "custom", "sandbox", "files", "processes", "policy", "servers", "skills"),
    *("knowledge", "lsp", "desktop", "search", "running"),
}


def test_surfaces_import_nothing_below_the_desk():
    assert [
        f"{module} imports {name}"
        for module in MODULES
        for name in hilt_imports(module)
        if top_level(module) == "surfaces" and top_level(name) in BELOW_THE_DESK
    ] == []


def test_only_the_command_line_imports_the_command_line():
    assert [
        f"{module} imports {name}"
        for module in MODULES
        for name in hilt_imports(module)
        if name.startswith("surfaces.cli") and module.startswith(("surfaces.http", "surfaces.mcp", "surfaces.chat"))
    ] == []


def test_the_architecture_page_lists_every_folder_and_module():
    page = ARCHITECTURE.read_text(encoding="utf-8")
    block = re.search(r"```text\nsrc/hilt/\n(.*?)```", page, re.DOTALL)
    assert block
    listed = set[str]()
    for line in block[1].splitlines():
        names = line[2:].partition("   ")[0] if line.startswith("  ") and line[2:3].strip() else ""
        listed.update(name.rstrip("/") for name in names.split())
    existing = {top_level(module) for module in MODULES} - {"__init__", "__main__"}

    assert listed == existing


def test_a_module_name_stands_for_one_thing():
    """A tool, the desk and each surface may have a module for the same noun; below them every name is used once."""
    names = Counter(
        module.rpartition(".")[2]
        for module in MODULES
        if top_level(module) not in ("surfaces", "desk", "tools") and not module.endswith("__init__")
    )

    assert {name for name, count in names.items() if count > 1} == set()


TOOLS = [module for module in MODULES if top_level(module) == "tools" and module != "tools.__init__"]

# modules that a tool must not use directly
WORLD = {
    *("os", "io", "pathlib", "shutil", "socket", "subprocess", "tempfile", "urllib", "http", "sqlite3", "ctypes"),
    *("fcntl", "glob"),
}
RUNS_CODE = {"open", "exec", "eval", "compile", "__import__"}


def functions_called(module: str) -> set[str]:
    """Return the names of the functions and methods that a module calls."""
    calls = [node.func for node in ast.walk(tree(module)) if isinstance(node, ast.Call)]
    names = {call.id for call in calls if isinstance(call, ast.Name)}
    return names | {f".{call.attr}" for call in calls if isinstance(call, ast.Attribute)}


def test_a_tool_reaches_the_world_only_through_its_context():
    offenders = {
        module: forbidden
        for module in TOOLS
        if (
            forbidden := {name for name in imports(module) if top_level(name) in WORLD}
            | functions_called(module) & RUNS_CODE
        )
    }

    assert offenders == {}


def test_a_tool_imports_no_other_tool():
    assert [module for module in TOOLS if any(top_level(name) == "tools" for name in hilt_imports(module))] == []


def test_a_tool_file_declares_exactly_the_tool_of_its_name():
    for module in TOOLS:
        name = module.partition(".")[2]
        tool_module = import_module(f"hilt.{module}")
        kind = type(getattr(tool_module, name))

        assert [value.name for value in vars(tool_module).values() if isinstance(value, kind)] == [name]


def test_the_folder_listing_is_the_tool_list():
    assert [module.partition(".")[2] for module in TOOLS] == catalog.built_in_names()


@pytest.mark.parametrize("listed", [catalog.built_in_names(), dialect_names()])
def test_no_module_lists_the_tools_or_dialects_again(listed):
    """The folders are the lists; two names together may mean something else."""
    literals = {
        module: names
        for module in MODULES
        if top_level(module) != "dialects"  # maps its own names to those of tools
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict)
        for items in [node.keys if isinstance(node, ast.Dict) else node.elts]
        if len(names := {item.value for item in items if isinstance(item, ast.Constant)} & {*listed}) > 2
    }

    assert literals == {}


def test_a_dialect_is_pure():
    impure = {".open", ".read", ".stat", ".listdir", ".exists", ".realpath", ".getcwd"}
    for module in MODULES:
        if top_level(module) == "dialects":
            assert {
                name for name in hilt_imports(module) if top_level(name) not in (*FOUNDATION, "catalog", "dialects")
            } == set(), module
            assert functions_called(module) & impure == set(), module


def test_every_module_has_a_docstring():
    lower = ("hilt", "python", "state.db", "memory.db", "trail.db")
    texts = {module: ast.get_docstring(tree(module)) or "" for module in MODULES}

    assert [
        module
        for module, text in texts.items()
        if not (text[:1].isupper() or text[:1] == "`" or (text.split()[:1] and text.split()[0].strip("`:") in lower))
    ] == []


def test_a_test_file_mirrors_its_module_or_says_what_it_covers():
    tests = Path(__file__).parent
    names = {str(path.relative_to(tests)): path for path in tests.rglob("test_*.py") if "data" not in path.parts}
    modules = {module.replace(".", os.sep) for module in MODULES}

    assert [
        name
        for name, path in names.items()
        if name.replace("test_", "", 1).removesuffix(".py") not in modules
        and not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ] == []


def test_importing_a_module_does_no_work():
    """Module level has definitions, constants and conditions only; nothing is called."""
    allowed = (
        *(ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign),
        *(ast.AnnAssign, ast.AugAssign, ast.If, ast.Try),
    )
    extra = [
        f"{module}: {ast.unparse(node)}"
        for module in MODULES
        if module != "__main__"
        for node in tree(module).body
        if not isinstance(node, allowed) and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]

    assert extra == []


# what is kept at module level although it changes
KEPT = {
    "places._forgotten": "what was removed from sys.path, which belongs to the process as well",
    "sandbox.wardens.WARDENS": "the process has one keeper, whatever runtimes it has (ADR 0053)",
    "servers.sdk_client._CURRENT": "a context variable: the SDK does not say to which call a server's question belongs",
}
# results of pure functions and facts about the machine, which are the same for all runtimes
REMEMBERED = {
    *("custom.templates.binding._parts", "desk.sessions._cost_of", "formats.globs.component_matcher"),
    *("output.terminal._styled", "policy.later._matchers", "policy.rule_forms._is_dangerous"),
    *(
        "sandbox.git_view._index",
        "sandbox.ruleset._system_call",
        "sandbox.ruleset.abi",
        "sandbox.seccomp._block",
        "search.ripgrep._package",
    ),
    *("shell.syntax._language", "shell.syntax._parses"),
    *("surfaces.http.routes._validator", "surfaces.mcp.content._block", "surfaces.resident._is_installed"),
    *("web.certificates._context", "web.certificates.httpx_default"),
}
CHANGES = {
    *("append", "appendleft", "add", "update", "pop", "popleft", "popitem", "clear", "setdefault", "extend"),
    *("remove", "discard", "insert"),
}
CREATED = {"Lock", "RLock", "Event", "Condition", "Semaphore", "ContextVar", "local", "deque", "defaultdict", "Lazy"}


def targets_of(node: ast.stmt) -> Iterable[ast.expr]:
    """Return what an assignment assigns to; nothing for other statements."""
    if isinstance(node, ast.Assign):
        return node.targets
    return [node.target] if isinstance(node, ast.AnnAssign) else []


def changed_names(module: str) -> set[str]:
    """Return the names at module level that functions change, and the locks and instances of own classes there."""
    body = tree(module).body
    values = {
        target.id: getattr(node, "value", None)
        for node in body
        for target in targets_of(node)
        if isinstance(target, ast.Name)
    }
    with_state = {
        node.name
        for node in body
        if isinstance(node, ast.ClassDef) and any(getattr(part, "name", "") == "__init__" for part in node.body)
    }
    changed = {
        name
        for name, value in values.items()
        if isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] in CREATED | with_state
    }
    for function in ast.walk(tree(module)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        nodes = list(ast.walk(function))
        local = {node.arg for node in nodes if isinstance(node, ast.arg)}
        local |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        for node in nodes:
            if isinstance(node, ast.Global):
                changed |= set(node.names)
                continue
            holder: ast.AST | None = None
            if isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
                holder = node.value
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
                holder = node.func.value
            if isinstance(holder, ast.Name) and holder.id in values.keys() - local:
                changed.add(holder.id)
    return changed


def test_modules_keep_no_state():
    kept = {f"{module}.{name}" for module in MODULES for name in changed_names(module)}

    assert kept == set(KEPT)


def test_functions_that_remember_results_are_listed():
    remembering = {
        f"{module}.{node.name}"
        for module in MODULES
        for node in ast.walk(tree(module))
        if isinstance(node, ast.FunctionDef)
        and any(re.match(r"(functools\.)?(lru_)?cache\b", ast.unparse(mark)) for mark in node.decorator_list)
    }

    assert remembering == REMEMBERED


def test_public_functions_and_classes_have_docstrings():
    missing = [
        f"{module}.{node.name}"
        for module in MODULES
        for node in tree(module).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
        and not any(isinstance(mark, ast.Name) and mark.id == "overload" for mark in node.decorator_list)
    ]

    assert missing == []


def test_no_two_public_classes_have_the_same_name():
    places: dict[str, list[str]] = {}
    for module in MODULES:
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(module)

    assert {name: owners for name, owners in places.items() if len(owners) > 1} == {}


def test_the_public_names_can_be_imported():
    assert sorted(hilt.__all__) == ["Context", "Output", "Result", "Runtime", "ToolError", "__version__", "tool"]
    for name in hilt.__all__:
        assert getattr(hilt, name) is not None
    with pytest.raises(AttributeError):
        hilt.nothing  # noqa: B018


def test_every_raised_error_code_is_in_the_table():
    from hilt.errors import CODES

    raised = {
        (module, node.args[0].value)
        for module in MODULES
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "ToolError"
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }

    assert {(module, code) for module, code in raised if code not in CODES} == set()


def test_the_decisions_that_the_code_names_exist():
    sources = [Path(ROOT, *module.split(".")).with_suffix(".py").read_text(encoding="utf-8") for module in MODULES]
    named = {number for source in sources for number in re.findall(r"ADR (\d{4})", source)}
    records = {path.name[:4] for path in (ARCHITECTURE.parent / "adr").glob("0*.md")}

    assert named
    assert named <= records
