from __future__ import annotations

from hilt.knowledge.folders import FolderShelf


def test_an_entry_whose_folder_became_a_link_is_not_read(tmp_path):
    entry = tmp_path / "shelf/inner/note.md"
    entry.parent.mkdir(parents=True)
    entry.write_text("# ours\n")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/note.md").write_text("# SECRET\n")
    shelf = FolderShelf(str(tmp_path / "shelf"), "kb", lambda path: "secret" in path)
    (path,) = shelf.survey(lambda: None).files
    before = shelf.read(path, 100)

    entry.parent.rename(tmp_path / "aside")
    entry.parent.symlink_to(tmp_path / "secret")

    assert before is not None
    assert before[0] == b"# ours\n"
    assert shelf.read(path, 100) is None
