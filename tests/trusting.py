"""Names a file to trust by its path."""

from __future__ import annotations

from hilt.loaders import ProjectFile, project_file


def file_at(path: str, kind: str = "") -> ProjectFile:
    """Return the file at a path, as a file of this kind."""
    file = project_file(path)
    assert file is not None, path
    return file._replace(kind=kind or file.kind)
