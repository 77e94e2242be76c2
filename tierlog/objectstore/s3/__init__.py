"""S3, and what speaks like it: AWS, MinIO, SeaweedFS.

Bytes travel over a urllib3 pool with botocore's signature, which costs a third of what boto3 spends
on a request; the rare calls (list, delete, copy, the frame of a multipart upload) go through boto3.
Neither repeats anything. Calls block, so they run in this room's own threads: the node's threads
are for its disks, and a store that hangs must not hold up a sync.

The one room that may know boto3, botocore and urllib3; their errors end at `door.py`.
"""

from tierlog.objectstore.s3.settings import S3Settings
from tierlog.objectstore.s3.store import S3Store

__all__ = ["S3Settings", "S3Store"]
