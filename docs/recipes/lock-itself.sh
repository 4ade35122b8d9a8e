#!/bin/sh
# A script that locks itself, wherever it is started from.
[ "${HOLDFAST_NAME:-}" = reindex ] || exec /usr/local/bin/holdfast run --on-conflict skip reindex -- "$0" "$@"

/usr/local/bin/reindex.sh "$@"
