#!/usr/bin/env bash
# Gets what the tests need and pip cannot bring: a C compiler, kcat, and the Java client with what it
# needs to be fetched and compiled. Does nothing where they are there. Without apt or the right to use it,
# says so: the tests then skip the client, or fail under CI=true.
set -euo pipefail
cd "$(dirname "$0")"

as_root=()
if [ "$(id -u)" != 0 ]; then
    as_root=(sudo -n)
fi

has() {
    command -v "$1" >/dev/null
}

apt_install() {
    has apt-get || return 1
    export DEBIAN_FRONTEND=noninteractive
    local get=("${as_root[@]}" apt-get install -y -q --no-install-recommends "$@")
    { "${get[@]}" || { "${as_root[@]}" apt-get update -q && "${get[@]}"; }; } >/dev/null 2>&1
}

missing() {
    echo "$1 is not installed and could not be: the tests that need it will be left out"
    if [ "${CI:-}" = true ]; then
        exit 1
    fi
}

# The load generator of the benchmarks is C, and its tests build it.
has cc || has gcc || apt_install gcc libc6-dev || missing "a C compiler"
has kcat || apt_install kcat || missing kcat

has javac || apt_install default-jdk-headless || true
has mvn || apt_install maven || true
if has javac && has mvn; then
    java/prepare.sh || java/prepare.sh || missing "the Java client"
else
    missing "a JDK with Maven"
fi
