#!/usr/bin/env bash
# Gets the object stores that the tests run against. SeaweedFS and moto come with the dev group; MinIO is
# built here where it is missing. Where that fails, says so: its tests are left out, or fail under CI=true.
set -euo pipefail
cd "$(dirname "$0")/../.."

if ! infra/minio/install.sh; then
    echo "MinIO could not be built: the tests that need it will be left out"
    [ "${CI:-}" != true ]
fi
