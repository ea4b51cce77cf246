"""The layering of the design, read from the imports; and what every module owes its reader."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from importlib import import_module

import pytest

import hilt
from hilt import catalog

ROOT = os.path.dirname(os.path.abspath(hilt.__file__))
PARTS = ("policy", "sandbox", "output", "state", "text", "web", "lsp", "desktop", "agents", "knowledge", "search")
WORDS = (
    *("errors", "schema", "params", "call", "context", "wire", "digests", "times", "places", "choices", "yaml12"),
    "variables",
)
SPINE = (
    "pipeline",
    "catalog",
    "declaration",
    "tool",
    "config",
    "workspace",
    "door",
    "lanes",
    "editing",
    "reading",
    "processes",
    "jobs",
    "hooks",
    "authority",
)


def modules() -> Iterator[str]:
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in sorted(files):
            if name.endswith(".py"):
                yield os.path.relpath(os.path.join(folder, name), ROOT)[:-3].replace(os.sep, ".")


MODULES = sorted(modules())


def tree(module: str) -> ast.Module:
    with open(os.path.join(ROOT, module.replace(".", os.sep) + ".py"), encoding="utf-8") as file:
        return ast.parse(file.read())


def for_types_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def imports(module: str) -> set[str]:
    """Return the modules that a module imports anywhere, not counting what only type checkers see."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if for_types_only(node):
            for other in node.orelse:  # type: ignore[attr-defined]
                visit(other)
            return
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                inner = full.removeprefix("hilt.")
                is_module = full.startswith("hilt.") and (inner in MODULES or f"{inner}.__init__" in MODULES)
                found.add(full if is_module else str(node.module))
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(tree(module))
    return found


def own(module: str) -> set[str]:
    return {name.removeprefix("hilt.") for name in imports(module) if name.startswith("hilt.")}


def layer(module: str) -> str:
    return module.partition(".")[0]


@pytest.mark.parametrize("module", [module for module in MODULES if layer(module) in PARTS])
def test_a_part_imports_itself_and_words_only(module):
    others = {name for name in own(module) if layer(name) != layer(module) and layer(name) not in WORDS}

    assert others == set()


@pytest.mark.parametrize("module", [module for module in MODULES if module in WORDS])
def test_words_import_words_only(module):
    assert {name for name in own(module) if layer(name) not in WORDS} == set()


@pytest.mark.parametrize("module", [module for module in MODULES if layer(module) not in ("surfaces", "__main__")])
def test_nothing_but_surfaces_imports_surfaces(module):
    assert {name for name in own(module) if layer(name) == "surfaces"} == set()


@pytest.mark.parametrize(
    "module", [m for m in MODULES if layer(m) not in ("surfaces", "runtime", "testing", "__main__", "__init__")]
)
def test_only_surfaces_and_tests_import_the_runtime(module):
    assert "runtime" not in own(module)


TOOLS = [module for module in MODULES if layer(module) == "tools" and module != "tools.__init__"]

# the world: what a tool must not have in its hands
WORLD = {
    "os",
    "io",
    "pathlib",
    "shutil",
    "socket",
    "subprocess",
    "tempfile",
    "urllib",
    "http",
    "sqlite3",
    "ctypes",
    "fcntl",
    "glob",
}


@pytest.mark.parametrize("module", TOOLS)
def test_a_tool_reaches_the_world_only_through_its_context(module):
    assert {name for name in imports(module) if name.partition(".")[0] in WORLD} == set()
    called = {
        node.func.id
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert called & {"open", "exec", "eval", "compile", "__import__"} == set()


@pytest.mark.parametrize("module", TOOLS)
def test_a_tool_imports_no_other_tool(module):
    assert {name for name in own(module) if layer(name) == "tools"} == set()


@pytest.mark.parametrize("module", TOOLS)
def test_a_tool_file_declares_exactly_the_tool_of_its_name(module):
    name = module.partition(".")[2]
    found = import_module(f"hilt.{module}")
    kind = type(getattr(found, name))

    declared = [value.name for value in vars(found).values() if isinstance(value, kind)]

    assert declared == [name]


def test_the_folder_listing_is_the_tool_list():
    assert [module.partition(".")[2] for module in TOOLS] == catalog.built_in_names()


@pytest.mark.parametrize("module", [m for m in MODULES if layer(m) == "dialects" and m != "dialects.__init__"])
def test_a_dialect_is_pure(module):
    assert {name for name in own(module) if layer(name) not in (*WORDS, "catalog")} == set()
    called = {
        node.func.attr
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    assert called & {"open", "read", "stat", "listdir", "exists", "realpath", "getcwd"} == set()


@pytest.mark.parametrize("module", MODULES)
def test_every_module_says_what_it_is(module):
    text = ast.get_docstring(tree(module))

    assert text
    assert text[0].isupper() or text.split()[0].strip("`:") in ("hilt", "python", "state.db", "memory.db", "trail.db")or text[0] == "`"  # fmt: skip  # noqa: E501


@pytest.mark.parametrize("module", [m for m in MODULES if m != "__main__"])
def test_importing_a_module_does_no_work(module):
    """At module level there are definitions, constants, and what chooses between them; nothing is called for its effect."""  # noqa: E501
    allowed = (
        ast.Import,
        ast.ImportFrom,
        ast.FunctionDef,
        ast.AsyncFunctionDef,
        ast.ClassDef,
        ast.Assign,
        ast.AnnAssign,
        ast.AugAssign,
        ast.If,
        ast.Try,
    )
    extra = [
        node
        for node in tree(module).body
        if not isinstance(node, allowed) and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]

    assert [ast.unparse(node) for node in extra] == []


@pytest.mark.parametrize("module", MODULES)
def test_public_functions_and_classes_say_their_contract(module):
    missing = [
        node.name
        for node in tree(module).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
        and not any(isinstance(mark, ast.Name) and mark.id == "overload" for mark in node.decorator_list)
    ]

    assert missing == []


def test_the_public_names_are_these_and_can_be_imported():
    assert sorted(hilt.__all__) == ["Context", "Output", "Result", "Runtime", "ToolError", "__version__", "tool"]
    for name in hilt.__all__:
        assert getattr(hilt, name) is not None
    with pytest.raises(AttributeError):
        hilt.nothing  # noqa: B018


def test_every_code_that_is_raised_is_in_the_table():
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
