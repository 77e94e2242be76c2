"""A folder as an object store: the embedded default.

Objects are plain files under their keys, so that other tools can read them. What the folder store
needs beside them lies below `.tierlog/`: drafts, locks, sums and unfinished uploads.
"""

from tierlog.objectstore.folder.store import FolderStore

__all__ = ["FolderStore"]
