#!/usr/bin/env bash
# Fetches the jars of pom.xml into a folder of the cache that is named by it, so nothing is done twice and
# nothing lands in the clone. Needs Java (17 or later) and Maven. `--path` prints the folder and does nothing.
set -euo pipefail
cd "$(dirname "$0")"

cache=${TIERLOG_CACHE:-$HOME/.cache/tierlog}
ready=$cache/spark-jars/$(sha256sum <pom.xml | cut -c 1-16)
if [ "${1:-}" = --path ]; then
    echo "$ready"
    exit 0
fi
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
rm "$making/log"
# Spark has its own, and two would quarrel.
rm -f "$making"/jars/slf4j-*.jar
mkdir -p "$cache/spark-jars"
chmod 755 "$making"
# Moved in one step: whoever sees the folder sees it whole. Lost races are won by the other.
mv -T "$making" "$ready.$$" && { mv -T "$ready.$$" "$ready" 2>/dev/null || rm -rf "$ready.$$"; }
