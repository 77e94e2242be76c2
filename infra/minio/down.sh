#!/usr/bin/env bash
# Ends the MinIO that up.sh started. Its data stays.
set -euo pipefail
. "$(dirname "$0")/settings.sh"

if ! running; then
    rm -f "$pid_file"
    echo "MinIO is not running"
    exit 0
fi
pid=$(cat "$pid_file")
kill "$pid"
for _ in $(seq 100); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
done
if kill -0 "$pid" 2>/dev/null; then
    kill -9 "$pid"
fi
rm -f "$pid_file"
echo "MinIO has ended; its data is in $MINIO_DATA"
