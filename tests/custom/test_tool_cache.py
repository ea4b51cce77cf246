from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from hilt.custom import tool_cache
from hilt.custom.definition import Definition, Example
from hilt.processes.declared_sandbox import DeclaredSandbox

PLAIN = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
JSON = PLAIN | st.lists(PLAIN, max_size=2) | st.dictionaries(st.text(max_size=5), PLAIN, max_size=2)
OBJECTS = st.dictionaries(st.text(max_size=5), JSON, max_size=3)
DEFINITIONS = st.builds(
    Definition,
    name=st.text(),
    description=st.text(),
    parameters=OBJECTS,
    origin=st.text(),
    source=st.sampled_from(["personal", "project"]),
    format=st.sampled_from(["folder", "markdown"]),
    folder=st.text(),
    content_hash=st.text(),
    approval=st.sampled_from(["never", "always", "destructive"]),
    read_only=st.booleans(),
    timeout=st.floats(0, 300),
    sandbox=st.none() | st.builds(DeclaredSandbox, st.booleans(), st.tuples(st.text()), st.tuples(st.text())),
    effects=st.none() | st.frozensets(st.sampled_from(["read", "write"])),
    dangerous=st.booleans(),
    warm=st.booleans(),
    examples=st.tuples(st.builds(Example, OBJECTS, JSON, st.booleans())),
    notes=st.tuples(st.text()),
    line=st.integers(1),
    details=OBJECTS,
)


@given(DEFINITIONS)
def test_a_definition_is_unchanged_by_the_cache(definition):
    row = json.loads(json.dumps(tool_cache._row(definition)))

    assert tool_cache._definition(row) == definition
