"""A backup of the state in one file: a compressed tar archive with consistent copies of the databases.

Processes may keep running while it is written. A restore needs exclusive use of the state directory. It unpacks the
archive next to the directory, checks the databases, and swaps the two by renaming; the old directory is kept.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import sqlite3
import stat
import tarfile
import time
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, NamedTuple

from hilt import __version__
from hilt.errors import ToolError, file_error_code
from hilt.formats.times import rfc3339
from hilt.state import tables, trail
from hilt.state.directory import Writing
from hilt.state.inventory import PARTS, files_below, part_of, require_unused

FORMAT = 1
_MANIFEST = "manifest.json"
_MANIFEST_BYTES = 1 << 20
_SAVED = {*(path for part in PARTS if part.saved for path in part.paths), "trail.db.head"}
_VERSIONS = {"state.db": len(tables.MIGRATIONS), "trail.db": len(trail.MIGRATIONS)}


class Manifest(NamedTuple):
    """The metadata of an archive."""

    hilt: str
    created: str
    bytes: int  # total size of its files


def write(state: str, path: str) -> int:
    """Write a backup to a new file; return its size."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise ToolError("already_exists", f"{path} exists.", suggestion="Choose another name.") from None
    except OSError as error:
        raise _unwritten(path, error) from error
    try:
        with open(descriptor, "wb") as file, _folder(state) as copies:
            with tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as archive:
                _fill(archive, state, copies)
            file.flush()
            os.fsync(file.fileno())
            return os.fstat(file.fileno()).st_size
    except BaseException as error:
        os.unlink(path)
        if isinstance(error, OSError):
            raise _unwritten(path, error) from error
        raise


def _unwritten(path: str, error: OSError) -> ToolError:
    code = file_error_code(error)
    advice = "Free disk space, or choose another path." if code == "resource_limit" else None
    return ToolError(code, f"{path}: {os.strerror(error.errno or 0)}.", suggestion=advice)


@contextmanager
def _folder(state: str) -> Iterator[str]:
    """Yield a temporary folder inside the state directory."""
    folder = os.path.join(state, f"stage-{os.urandom(4).hex()}")
    with Writing(state):
        os.mkdir(folder, 0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _fill(archive: tarfile.TarFile, state: str, copies: str) -> None:
    manifest = {"format": FORMAT, "hilt": __version__, "created": rfc3339(time.time_ns())}
    _add(archive, _MANIFEST, json.dumps(manifest).encode())
    databases = []
    for part in PARTS:
        for name in part.paths if part.saved else ():
            path, copy = os.path.join(state, name), os.path.join(copies, name)
            exists = os.path.exists(path) or os.path.exists(f"{path}.log")  # a new trail may only have a log
            if name == "blobs" or not exists:
                continue  # blobs are copied with state.db
            databases += [name] if name.endswith(".db") else []
            if name == "state.db":
                _copy_state(archive, state, copy)
            elif name == "trail.db":
                with closing(trail.Trail(path)) as rows, rows.paused():
                    _copy_database(path, copy)
                    with suppress(FileNotFoundError):  # verifying the trail reports a missing head
                        shutil.copyfile(f"{path}.head", f"{copy}.head")
                        archive.add(f"{copy}.head", f"{name}.head")
            elif name.endswith(".db"):
                _copy_database(path, copy)
            else:
                for file, status in files_below(path):
                    if stat.S_ISREG(status.st_mode):
                        with suppress(FileNotFoundError), open(file, "rb") as content:
                            _add(archive, os.path.relpath(file, state), content.read())
    for name in databases:
        archive.add(os.path.join(copies, name), name)


def _copy_state(archive: tarfile.TarFile, state: str, copy: str) -> None:
    """Copy state.db, and add its blobs to the archive."""
    folder = os.path.join(os.path.dirname(copy), "blobs")
    os.mkdir(folder, 0o700)

    def work(db: sqlite3.Connection) -> list[str]:
        # blobs are only removed inside a write transaction, and this is the only one
        _copy_database(os.path.join(state, "state.db"), copy)
        names = [hash.hex() for (hash,) in db.execute("SELECT hash FROM blobs WHERE data IS NULL")]
        for name in names:
            with suppress(FileNotFoundError):  # already missing
                _link(os.path.join(state, _blob(name)), os.path.join(folder, name))
        return names

    with closing(tables.open_state(state)) as db:
        names = db.write(work)
    for name in names:
        with suppress(FileNotFoundError), open(os.path.join(folder, name), "rb") as content:
            _add(archive, _blob(name), content.read())


def _blob(name: str) -> str:
    return f"blobs/{name[:2]}/{name}"


def _link(path: str, target: str) -> None:
    try:
        os.link(path, target)
    except FileNotFoundError:
        raise
    except OSError:  # a file system without links
        shutil.copyfile(path, target)


def _copy_database(path: str, copy: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None, timeout=60)) as db:
        db.execute("VACUUM INTO ?", (copy,))
    with closing(sqlite3.connect(copy, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode=WAL")  # the mode that hilt expects of an existing database


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = len(data), 0o600, int(time.time())
    archive.addfile(member, io.BytesIO(data))


def inspect(path: str) -> Manifest:
    """Return the manifest of a backup, and check the names in it."""
    with _opened(path) as archive:
        members = iter(archive)
        first = next(members, None)
        source = None if first is None or first.name != _MANIFEST else archive.extractfile(first)
        if source is None:
            raise _invalid(path, "it has no manifest")
        manifest: dict[str, Any] = json.loads(source.read(_MANIFEST_BYTES))
        if manifest["format"] != FORMAT:
            raise _invalid(path, f"its format is {manifest['format']!r}; this version of hilt supports {FORMAT}")
        size = 0
        for member in members:
            _check(path, member)
            size += member.size
    return Manifest(str(manifest["hilt"]), str(manifest["created"]), size)


def restore(state: str, path: str) -> str | None:
    """Replace the state with a backup; return the folder with the old state, or None if there was none."""
    state = os.path.realpath(state)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    new, old = f"{state}.restoring-{stamp}", f"{state}.before-{stamp}"
    require_unused(state)
    with Writing(os.path.dirname(state)):
        os.makedirs(os.path.dirname(state), exist_ok=True)
        os.mkdir(new, 0o700)
        try:
            _unpack(path, new)
            is_new = not os.path.lexists(state)
            if not is_new:
                require_unused(state)  # unpacking may have taken long
                os.rename(state, old)
            try:
                os.rename(new, state)
            except OSError:
                if not is_new and not os.path.lexists(state):
                    os.rename(old, state)
                raise
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        if is_new:
            return None
        for name in os.listdir(old):
            if not part_of(name).saved:  # such as the tokens of this machine: backups do not contain them
                os.rename(os.path.join(old, name), os.path.join(state, name))
    return old


def _unpack(path: str, folder: str) -> None:
    with _opened(path) as archive:
        for member in archive:
            if member.name == _MANIFEST:
                continue
            _check(path, member)
            source = archive.extractfile(member)
            target = os.path.join(folder, member.name)
            os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
            with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
                shutil.copyfileobj(source, file)  # type: ignore[arg-type]  # a regular file, as checked
                file.flush()
                os.fsync(file.fileno())
    for name in os.listdir(folder):
        if name.endswith(".db"):
            _check_database(path, os.path.join(folder, name))


def _check_database(path: str, database: str) -> None:
    """Raise if a database in a backup is damaged or was written by a newer hilt."""
    name = os.path.basename(database)
    try:
        with closing(sqlite3.connect(database)) as db:
            (problem,) = db.execute("PRAGMA quick_check(1)").fetchone()
            (version,) = db.execute("PRAGMA user_version").fetchone()
    except sqlite3.DatabaseError as error:
        problem, version = str(error), 0
    if problem != "ok":
        raise _invalid(path, f"{name} is damaged: {problem}")
    supported = _VERSIONS.get(name, version)
    if version > supported:
        raise ToolError(
            "runtime_missing",
            f"{name} in {path} has the format {version}; this version of hilt supports formats up to {supported}.",
            suggestion="Restore it with the version of hilt that wrote it, or a newer one.",
        )


def _check(path: str, member: tarfile.TarInfo) -> None:
    """Raise unless a member is a regular file that belongs in a backup."""
    first, *components = member.name.split("/")
    if not member.isreg() or first not in _SAVED or any(name in ("", ".", "..") for name in components):
        raise _invalid(path, f"unexpected entry {member.name[:100]!r}")


@contextmanager
def _opened(path: str) -> Iterator[tarfile.TarFile]:
    """Open an archive; errors in its contents become one ToolError."""
    try:
        file = open(path, "rb")  # noqa: SIM115  # closed below
    except FileNotFoundError:
        raise ToolError("file_not_found", f"{path} does not exist.", suggestion="Choose another file.") from None
    except OSError as error:
        raise _invalid(path, os.strerror(error.errno or 0)) from error
    try:
        with file, tarfile.open(fileobj=file, mode="r:gz") as archive:
            yield archive
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValueError, KeyError, TypeError) as error:
        raise _invalid(path, str(error)) from error


def _invalid(path: str, reason: str) -> ToolError:
    return ToolError(
        "invalid_request", f"{path} is not a valid hilt backup: {reason}.", suggestion="Choose another file."
    )
