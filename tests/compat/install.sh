#!/usr/bin/env bash
# Gets kcat, the one client of the compat tests that pip cannot. Does nothing where it is there.
# Without apt or the right to use it, says so: the tests then skip kcat, or fail under CI=true.
set -euo pipefail

if command -v kcat >/dev/null; then
    exit 0
fi

as_root=()
if [ "$(id -u)" != 0 ]; then
    as_root=(sudo -n)
fi

install_kcat() {
    "${as_root[@]}" apt-get install -y -q --no-install-recommends kcat
}

if command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    if install_kcat || { "${as_root[@]}" apt-get update -q && install_kcat; }; then
        exit 0
    fi
fi >/dev/null 2>&1

echo "kcat is not installed and could not be: its compat tests will be left out"
if [ "${CI:-}" = true ]; then
    exit 1
fi
