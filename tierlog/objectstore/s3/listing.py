"""Listing and deleting, a page at a time. Blocking; meant for threads. Keys are whole."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from tierlog.objectstore.errors import StoreLies
from tierlog.objectstore.port import DeleteFailed, Doomed, Stat, Upload
from tierlog.objectstore.s3.door import Door
from tierlog.objectstore.s3.objects import bare

PAGE_KEYS = 1000
_GONE = {"NoSuchKey", "NoSuchVersion"}


class StatPage(NamedTuple):
    stats: Sequence[Stat]
    next: str
    """The token of the following page; empty after the last."""


class UploadMark(NamedTuple):
    """Where a page of uploads ended."""

    key: str = ""
    id: str = ""


class UploadPage(NamedTuple):
    uploads: Sequence[Upload]
    next: UploadMark | None


class Listing:
    def __init__(self, client: Any, door: Door) -> None:
        self._client = client
        self._door = door
        self._bucket = door.bucket

    def stats(self, prefix: str, after: str, token: str) -> StatPage:
        """The page that `token` names, or the first of those after the key `after`."""
        where = {"ContinuationToken": token} if token else {"StartAfter": after}
        with self._door.mapped(prefix):
            page = self._client.list_objects_v2(
                Bucket=self._bucket, Prefix=prefix, MaxKeys=PAGE_KEYS, **where
            )
        stats = [_stat(each) for each in page.get("Contents", ())]
        return StatPage(stats, page.get("NextContinuationToken", ""))

    def delete(self, doomed: Sequence[Doomed]) -> list[DeleteFailed]:
        with self._door.mapped(doomed[0].key):
            answer = self._client.delete_objects(
                Bucket=self._bucket,
                Delete={"Objects": [_identifier(each) for each in doomed], "Quiet": True},
            )
        return [
            DeleteFailed(each.get("Key", ""), f"{each.get('Code')} {each.get('Message')}")
            for each in answer.get("Errors", ())
            if each.get("Code") not in _GONE
        ]

    def uploads(self, prefix: str, mark: UploadMark) -> UploadPage:
        """MinIO takes the prefix for a whole key, so it is asked for all and ours are picked."""
        page = self._uploads(prefix, mark)
        if _is_minio(page):
            page = self._uploads("", mark)
        uploads = [
            _upload(each) for each in page.get("Uploads", ()) if each["Key"].startswith(prefix)
        ]
        if not page.get("IsTruncated"):
            return UploadPage(uploads, None)
        return UploadPage(
            uploads, UploadMark(page["NextKeyMarker"], page.get("NextUploadIdMarker", ""))
        )

    def _uploads(self, prefix: str, mark: UploadMark) -> dict[str, Any]:
        where = {"KeyMarker": mark.key, "UploadIdMarker": mark.id} if mark.key else {}
        with self._door.mapped(prefix):
            page: dict[str, Any] = self._client.list_multipart_uploads(
                Bucket=self._bucket, Prefix=prefix, MaxUploads=PAGE_KEYS, **where
            )
        return page


def check_order(stats: Sequence[Stat], last: str) -> str:
    """The last key. Raises `StoreLies` if one is out of order: whoever walks two listings side by
    side would take what it has not met yet for missing.

    SeaweedFS walks folders, so that `a/b` stands before `a-b`; no two keys of tierlog differ so.
    """
    for stat in stats:
        # Code points order as their UTF-8 bytes do.
        if stat.key <= last:
            raise StoreLies(
                f"the store lists {last} before {stat.key}, in its own order, not by bytes: "
                "keep other objects out of the prefix that tierlog uses"
            )
        last = stat.key
    return last


def _is_minio(page: dict[str, Any]) -> bool:
    headers = page["ResponseMetadata"].get("HTTPHeaders", {})
    return str(headers.get("server", "")).lower().startswith("minio")


def _identifier(doomed: Doomed) -> dict[str, str]:
    if doomed.version_id is None:
        return {"Key": doomed.key}
    return {"Key": doomed.key, "VersionId": doomed.version_id}


def _stat(entry: dict[str, Any]) -> Stat:
    return Stat(
        key=entry["Key"],
        size=entry["Size"],
        etag=bare(entry["ETag"]),
        modified_ms=_ms(entry.get("LastModified")),
        storage_class=entry.get("StorageClass"),
    )


def _upload(entry: dict[str, Any]) -> Upload:
    return Upload(key=entry["Key"], id=entry["UploadId"], begun_ms=_ms(entry.get("Initiated")))


def _ms(moment: datetime | None) -> int:
    return -1 if moment is None else int(moment.timestamp() * 1000)
