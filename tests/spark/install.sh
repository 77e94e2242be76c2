#!/usr/bin/env bash
# Gets what the tests of Spark need and pip cannot bring: Java, and the jars of Spark's Kafka source and of
# s3a. Does nothing where they are there. Where it cannot, says so: the tests that need them are left out,
# or fail under CI=true. Java and Maven themselves are tests/compat/install.sh's work.
set -euo pipefail
cd "$(dirname "$0")"

missing() {
    echo "$1 could not be had: the tests that need it will be left out"
    if [ "${CI:-}" = true ]; then
        exit 1
    fi
}

if command -v java >/dev/null && command -v mvn >/dev/null; then
    jars/prepare.sh || jars/prepare.sh || missing "the jars of Spark's Kafka source and s3a"
else
    missing "Java with Maven"
fi
