"""Save texts for later sessions."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from hilt.call import Output, Touch
from hilt.context import Context
from hilt.declaration import tool
from hilt.errors import ToolError, missing_argument
from hilt.formats.times import duration_seconds, rfc3339
from hilt.output import views
from hilt.params import Bounds, Count, Items
from hilt.schema import TEXT, fields
from hilt.state.memory import TAG_CHARACTERS, TAGS_MAX, MemoryEntry, MemoryPage, check_name

ANSWER_CHARACTERS = 256 * 1024  # longer results are split into pages
SEARCH_LIMIT = 20
LIST_LIMIT = 1000
CELL_CHARACTERS = 80

_MAX_SECONDS = 100 * 366 * 86_400


def _touches(args: dict[str, Any]) -> Iterator[Touch]:
    # not a workspace file: one name for the user's memory, so that policy can distinguish reads from writes
    yield Touch("write" if args["action"] in ("save", "forget") else "read", "memory:")


_ENTRY = fields("key:string value?:string snippet?:string updated:string tags?:[string] expires?:string")
_ANSWER = fields(
    "keys?:[string] entries?:[entry] count:integer truncated?:boolean total_count?:integer next?:next", entry=_ENTRY
) | {"anyOf": [{"required": ["keys"]}, {"required": ["entries"]}], TEXT: True}


@tool(effects="write", touches=_touches, output=_ANSWER)
def memory(
    ctx: Context,
    action: Literal["save", "recall", "list", "forget", "search"],
    key: str | None = None,
    value: str | None = None,
    scope: str | None = None,
    query: str | None = None,
    tags: Annotated[list[str], Items(maximum=TAGS_MAX)] | None = None,
    expires_in: str | None = None,
    include_values: bool = False,
    limit: Annotated[int, Bounds(minimum=1, maximum=10_000, clamp=True)] | None = None,
    offset: Count = 0,
) -> Output:
    """Save short texts by key for later sessions, per project.

    Details:
    save returns "saved: KEY" and replaces the value, tags and expiry of an existing key. recall returns the value.
    forget returns "forgotten: KEY", even if the key did not exist. list returns JSON: keys, count. search returns
    entries with key, tags and a snippet, best first. If there are more, truncated is true and next is the call for the
    next page. The current project is the nearest parent folder with a .git, or else the workspace. An empty string is a
    valid value. Entries without expires_in never expire.

    Args:
        action: save (overwrites) needs key and value; recall and forget need key; search needs query.
        key: Up to 128 characters of A-Za-z0-9_.-
        value: Text to save, up to 16 KiB.
        scope: "global", or the path of another project. Default: this project.
        query: Words in keys, values or tags.
        tags: Tags to save, or to filter by.
        expires_in: Lifetime of a saved entry: 90s, 15m, 12h, 30d, 2w.
        include_values: list and search return full values.
        limit: Maximum entries. Default: 1000, search 20.
        offset: Entries to skip.
    """
    store = ctx.memory
    bucket = store.scope(scope)
    labels = [check_name("tag", tag, TAG_CHARACTERS) for tag in tags or ()]
    if action == "list":
        page = store.entries(bucket, tags=labels, whole=include_values, limit=limit or LIST_LIMIT, offset=offset)
    elif action == "search":
        if query is None or not query.strip():
            raise missing_argument(action, "query")
        page = store.search(
            bucket, query, tags=labels, whole=include_values, limit=limit or SEARCH_LIMIT, offset=offset
        )
    else:
        page = None
    if page is not None:
        next_args: dict[str, Any] = {"action": action, "query": query, "scope": scope, "tags": tags}
        next_args |= {"include_values": include_values, "limit": limit}
        output = _page_output(page, offset, next_args, keys_only=action == "list" and not include_values)
    elif action == "save":
        output = _save(ctx, bucket, _key(action, key), value, labels, expires_in)
    elif action == "recall":
        output = _recall(ctx, bucket, _key(action, key))
    else:
        name = _key(action, key)
        store.forget(bucket, name, commit=ctx.fence.commit)
        output = _message(f"forgotten: {name}")
    notes = {"notes": list(store.notes)} if store.notes else {}
    return output._replace(meta={"scope": scope or "project", **output.meta, **notes})


def _save(ctx: Context, scope: str, key: str, value: str | None, tags: list[str], expires_in: str | None) -> Output:
    if value is None:
        raise missing_argument("save", "value")
    seconds = None if expires_in is None else _seconds(expires_in)
    ctx.memory.save(scope, key, value, tags=tags, seconds=seconds, commit=ctx.fence.commit)
    return _message(f"saved: {key}")


def _recall(ctx: Context, scope: str, key: str) -> Output:
    entry = ctx.memory.recall(scope, key)
    if entry is None:
        advice = 'use action="list" to see available keys'
        raise ToolError("not_found", f"key not found: {key}", suggestion=advice)
    return Output(entry.value, view=views.none(f"recalled: {key}"), meta=_facts(entry))


def _key(action: str, key: str | None) -> str:
    if key is None:
        raise missing_argument(action, "key")
    return check_name("key", key)


def _seconds(text: str) -> int:
    """Return a duration such as 12h in seconds."""
    seconds = duration_seconds(text.strip()) or 0
    if not 0 < seconds <= _MAX_SECONDS:
        raise ToolError(
            "invalid_args",
            f"expires_in {text[:40]!r} is not a valid duration; the maximum is 100 years.",
            suggestion='Use an integer and a unit: "90s", "15m", "12h", "30d" or "2w".',
        )
    return seconds


def _message(text: str) -> Output:
    return Output(text, view=views.none(text))


def _facts(entry: MemoryEntry) -> dict[str, Any]:
    facts: dict[str, Any] = {"updated": rfc3339(entry.updated)}
    if entry.tags:
        facts["tags"] = list(entry.tags)
    if entry.expires is not None:
        facts["expires"] = rfc3339(entry.expires)
    return facts


def _page_output(page: MemoryPage, offset: int, next_args: dict[str, Any], *, keys_only: bool) -> Output:
    """Return as many entries as fit into one result, and the call for the others."""
    items: list[Any] = []
    size = 0
    for entry in page.entries:
        size += len(entry.key) if keys_only else len(entry.key) + len(entry.value)
        if items and size > ANSWER_CHARACTERS:
            break
        items.append(entry.key if keys_only else _item(entry, whole=next_args["include_values"]))
    data: dict[str, Any] = {"keys" if keys_only else "entries": items, "count": len(items)}
    end = offset + len(items)
    if items and end < page.total:
        args = {name: value for name, value in {**next_args, "offset": end}.items() if value}
        data |= {"truncated": True, "total_count": page.total, "next": {"tool": "memory", "args": args}}
    return Output(data=data, view=_table(page.entries[: len(items)], page.total))


def _item(entry: MemoryEntry, *, whole: bool) -> dict[str, Any]:
    return {"key": entry.key, **({"value": entry.value} if whole else {"snippet": entry.snippet}), **_facts(entry)}


def _table(entries: list[MemoryEntry], total: int) -> dict[str, Any]:
    rows = [
        {"key": entry.key, "value": _cell(entry.value), "tags": ", ".join(entry.tags)}
        for entry in entries[: views.CHANGED_LINES]
    ]
    return views.table({"key": "Key", "value": "Value", "tags": "Tags"}, rows, total)


def _cell(text: str) -> str:
    line = " ".join(text[: 4 * CELL_CHARACTERS].split())
    return line if len(line) <= CELL_CHARACTERS else line[: CELL_CHARACTERS - 1] + "…"
