#!/usr/bin/env bash
# Builds MinIO into ${XDG_CACHE_HOME:-~/.cache}/tierlog/bin, once: does nothing where it is there.
# With --where it only prints the path of the program, there or not.
# From source, because that is the one way to have this version from a package registry. The Go module
# proxy knows no release tags of MinIO, only this pseudo-version, the last state of its repository.
set -euo pipefail

VERSION=v0.0.0-20260212201848-7aac2a2c5b7c
bin="${XDG_CACHE_HOME:-$HOME/.cache}/tierlog/bin"
minio="$bin/minio-$VERSION"

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
build="$(mktemp -d "$bin/build.XXXXXX")"
trap 'rm -rf "$build"' EXIT
GOBIN="$build" GOFLAGS="-buildvcs=false -trimpath" CGO_ENABLED=0 \
    go install -ldflags "-s -w" "github.com/minio/minio@$VERSION"
# Seen whole or not at all.
mv "$build/minio" "$minio"
