#!/usr/bin/env bash
# Starts MinIO for this machine alone, waits until it is ready and makes the bucket. Does nothing where
# it runs. settings.sh names the variables that choose port, folder, keys and bucket.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/settings.sh"

if ! running; then
    "$here/install.sh"
    mkdir -p "$MINIO_DATA/data"
    MINIO_BROWSER=off MINIO_UPDATE=off setsid nohup "$("$here/install.sh" --where)" server "$MINIO_DATA/data" \
        --address "127.0.0.1:$MINIO_PORT" --quiet >"$MINIO_DATA/log" 2>&1 </dev/null &
    echo $! >"$pid_file"
fi
if ! "${PYTHON:-python3}" "$here/bucket.py"; then
    tail -n 5 "$MINIO_DATA/log" >&2
    exit 1
fi
cat <<END
MinIO serves $MINIO_ENDPOINT with the bucket $MINIO_BUCKET; its data is in $MINIO_DATA

  export AWS_ACCESS_KEY_ID=$MINIO_ROOT_USER AWS_SECRET_ACCESS_KEY=$MINIO_ROOT_PASSWORD
  tierlog serve --store s3://$MINIO_BUCKET/first --set s3.endpoint=$MINIO_ENDPOINT
END
