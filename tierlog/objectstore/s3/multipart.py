"""The frame of a multipart upload; and the copy, an upload whose one part is there already.

A copy by itself would overwrite: not every store heeds a condition on it. All of them heed one when
an upload is completed. Blocking; meant for threads. Keys are whole.
"""

from collections.abc import Sequence
from typing import Any

from botocore.exceptions import ClientError

from tierlog.objectstore.errors import StoreBadRequest
from tierlog.objectstore.port import Outcome, Part, Upload, Written
from tierlog.objectstore.s3.checksums import combine, to_header
from tierlog.objectstore.s3.door import Door, said_by
from tierlog.objectstore.s3.objects import bare, quoted


class Multipart:
    def __init__(self, client: Any, door: Door) -> None:
        self._client = client
        self._door = door
        self._bucket = door.bucket

    def begin(self, key: str) -> Upload:
        with self._door.mapped(key):
            answer = self._client.create_multipart_upload(
                Bucket=self._bucket,
                Key=key,
                ChecksumAlgorithm="CRC32C",
                ChecksumType="FULL_OBJECT",
            )
        return Upload(key=key, id=answer["UploadId"])

    def complete(self, upload: Upload, parts: Sequence[Part], whole_crc: int) -> Written:
        found = combine((part.crc32c, part.size) for part in parts)
        if found != whole_crc:
            raise StoreBadRequest(
                f"{upload.key}: its parts make CRC-32C {found:08x}, not {whole_crc:08x}"
            )
        listed = [
            {
                "PartNumber": part.number,
                "ETag": quoted(part.etag),
                "ChecksumCRC32C": to_header(part.crc32c),
            }
            for part in parts
        ]
        return self._complete(
            upload, listed, ChecksumCRC32C=to_header(whole_crc), ChecksumType="FULL_OBJECT"
        )

    def abort(self, upload: Upload) -> None:
        with self._door.mapped(upload.key):
            self._client.abort_multipart_upload(
                Bucket=self._bucket, Key=upload.key, UploadId=upload.id
            )

    def copy(self, source: str, target: str) -> Written:
        """Of an object that is not empty: a part cannot be."""
        with self._door.mapped(target):
            begun = self._client.create_multipart_upload(Bucket=self._bucket, Key=target)
        upload = Upload(key=target, id=begun["UploadId"])
        try:
            written = self._copy_into(upload, source)
        except BaseException:
            self.abort(upload)
            raise
        if written.outcome is Outcome.LOST:
            self.abort(upload)
        return written

    def _copy_into(self, upload: Upload, source: str) -> Written:
        with self._door.mapped(source):
            copied = self._client.upload_part_copy(
                Bucket=self._bucket,
                Key=upload.key,
                UploadId=upload.id,
                PartNumber=1,
                CopySource={"Bucket": self._bucket, "Key": source},
            )
        etag = copied["CopyPartResult"]["ETag"]
        return self._complete(upload, [{"PartNumber": 1, "ETag": etag}])

    def _complete(
        self, upload: Upload, parts: Sequence[dict[str, Any]], **checksum: str
    ) -> Written:
        with self._door.mapped(upload.key):
            try:
                answer = self._client.complete_multipart_upload(
                    Bucket=self._bucket,
                    Key=upload.key,
                    UploadId=upload.id,
                    MultipartUpload={"Parts": list(parts)},
                    IfNoneMatch="*",
                    **checksum,
                )
            except ClientError as error:
                return self._door.outcome(upload.key, said_by(error))
        return Written(
            outcome=Outcome.WON, etag=bare(answer["ETag"]), version_id=answer.get("VersionId")
        )
