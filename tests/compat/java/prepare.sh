#!/usr/bin/env bash
# Fetches the jars of pom.xml and compiles Clients.java into a folder of the cache that is named by
# both, so nothing is done twice and nothing lands in the clone. Needs a JDK (17 or later) and Maven.
set -euo pipefail
cd "$(dirname "$0")"

cache=${TIERLOG_CACHE:-$HOME/.cache/tierlog}
name=$(cat pom.xml Clients.java | sha256sum | cut -c 1-16)
ready=$cache/compat-java/$name
if [ -d "$ready" ]; then
    exit 0
fi

making=$(mktemp -d)
trap 'rm -rf "$making"' EXIT
mvn -B -q -ntp -Dmaven.repo.local="$cache/m2" dependency:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$making/jars" >"$making/log" 2>&1 || {
    tail -n 20 "$making/log"
    exit 1
}
javac -nowarn -proc:none -cp "$making/jars/*" -d "$making/classes" Clients.java
rm "$making/log"
mkdir -p "$cache/compat-java"
chmod 755 "$making"
# Moved in one step: whoever sees the folder sees it whole. Lost races are won by the other.
mv -T "$making" "$ready.$$" && { mv -T "$ready.$$" "$ready" 2>/dev/null || rm -rf "$ready.$$"; }
