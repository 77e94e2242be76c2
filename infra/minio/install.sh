#!/usr/bin/env bash
# Builds MinIO into the cache folder of tierlog, once: does nothing where it is there.
# With --where it only prints the path of the program, there or not.
# From source, because that is the one way to have this version from a package registry: the Go module
# proxy knows no release tags of MinIO, only this pseudo-version, the last state of its repository.
set -euo pipefail

VERSION=v0.0.0-20260212201848-7aac2a2c5b7c
bin=${TIERLOG_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tierlog}/bin
minio=$bin/minio-$VERSION

if [ "${1:-}" = --where ]; then
    echo "$minio"
    exit 0
fi
[ -x "$minio" ] && exit 0
if ! command -v go >/dev/null; then
    echo "MinIO is built by Go 1.24 or newer, which is not installed" >&2
    exit 1
fi

mkdir -p "$bin"
# One build at a time; whoever waited finds it done.
exec 9>"$bin/minio.lock"
flock 9
[ -x "$minio" ] && exit 0
echo "building MinIO $VERSION into $bin, once: this takes three to seven minutes"
making=$(mktemp -d "$bin/making.XXXXXX")
trap 'rm -rf "$making"' EXIT
GOBIN=$making GOFLAGS="-buildvcs=false -trimpath" CGO_ENABLED=0 \
    go install -ldflags "-s -w" "github.com/minio/minio@$VERSION" 2>"$making/log" || {
    tail -n 20 "$making/log" >&2
    exit 1
}
# Moved in one step: whoever sees it sees it whole.
mv "$making/minio" "$minio"
