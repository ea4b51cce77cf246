"""Hash a tree."""

from collections.abc import Callable
from typing import Any

from hilt.call import Output
from hilt.context import Context
from hilt.declaration import tool
from hilt.errors import ToolError
from hilt.output import views
from hilt.params import ReadPath
from hilt.schema import Schema, fields, mapping
from hilt.search.hashing import Hashes, hash_tree
from hilt.search.selection import Selection

SKIPPED_LISTED = 100


_ANSWER: Schema = {
    "type": "object",
    "anyOf": [
        fields("changed:[string] added:[string] removed:[string] unchanged_count:integer not_compared?:[string]"),
        mapping({"type": "string", "pattern": "^[0-9a-f]{64}$"}),
    ],
}


@tool(effects="read", output=_ANSWER)
def checksum_tree(
    ctx: Context,
    path: ReadPath = ".",
    pattern: str | None = None,
    baseline: dict[str, str] | None = None,
) -> Output:
    """Return the SHA-256 of every file in a folder tree, or compare it with an earlier result.

    Skips links, files over 50 MB, .git, node_modules, vendor, dist, build and caches.

    Details:
    Returns a JSON object that maps each path to its hexadecimal digest, sorted. With baseline, returns changed, added,
    removed (paths) and unchanged_count for the files that path and pattern select. Ignored and hidden files are hashed
    too; sensitive files, special files, `__pycache__` and `.cache` are skipped.

    Args:
        path: Folder to hash.
        pattern: Glob of files to hash: *.go, src/**/*.py.
        baseline: Earlier result; returns what changed since.
    """
    accepts: Callable[[str], bool] | None = None
    if pattern is not None:
        from hilt.formats import globs

        accepts = globs.matcher(Selection(include=[pattern], argument="pattern").include)
    hashes = hash_tree(ctx, path, accepts)
    meta: dict[str, Any] = {"files": len(hashes.digests)}
    if hashes.skipped:
        meta["skipped"] = dict(sorted(hashes.skipped.items())[:SKIPPED_LISTED])
        meta["skipped_count"] = len(hashes.skipped)
    if baseline is None:
        rows = [{"path": name, "sha256": digest} for name, digest in list(hashes.digests.items())[: views.FILES]]
        view = views.table({"path": "", "sha256": ""}, rows, len(hashes.digests))
        return Output(data=hashes.digests, view=view, meta=meta)
    prefix = "" if hashes.folder == "." else f"{hashes.folder}/"
    expected = {
        name: digest
        for name, digest in baseline.items()
        if name.startswith(prefix) and (accepts is None or accepts(name[len(prefix) :]))
    }
    return _compare(hashes, expected, meta)


def _compare(hashes: Hashes, baseline: dict[str, str], meta: dict[str, Any]) -> Output:
    for name, digest in baseline.items():
        if len(digest) != 64 or not all(character in "0123456789abcdefABCDEF" for character in digest):
            raise ToolError(
                "invalid_args",
                f"baseline: the value of {name!r} is not a hexadecimal SHA-256.",
                suggestion="Pass the complete result of an earlier checksum_tree.",
            )
    now = hashes.digests
    changed = sorted(name for name, digest in now.items() if name in baseline and baseline[name].lower() != digest)
    added = sorted(now.keys() - baseline.keys())
    # a file that exists but could not be hashed was not removed
    removed = sorted(baseline.keys() - now.keys() - hashes.skipped.keys())
    not_compared = sorted(baseline.keys() & hashes.skipped.keys())
    unchanged = len(now) - len(changed) - len(added)
    data: dict[str, Any] = {"changed": changed, "added": added, "removed": removed, "unchanged_count": unchanged}
    if not_compared:
        data["not_compared"] = not_compared
    rows = [
        {"path": name, "state": state}
        for state, names in (("changed", changed), ("added", added), ("removed", removed))
        for name in names
    ]
    return Output(data=data, view=views.table({"path": "", "state": ""}, rows[: views.FILES], len(rows)), meta=meta)
