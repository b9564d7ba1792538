#!/bin/bash
# Checks a config of TIPC, then runs what the project has to prepare data and weights: prepare.sh in its own folder.
#   bash test_tipc/prepare.sh CONFIG MODE
# TRUELINE_PYTHON names the interpreter that has trueline (default: python3).
if [ $# -lt 2 ]; then
    echo "usage: bash $0 CONFIG MODE" >&2
    exit 2
fi
"${TRUELINE_PYTHON:-python3}" -m trueline pipeline "$1" "$2" --plan > /dev/null || exit $?
if [ -f prepare.sh ]; then
    exec bash prepare.sh "$@"
fi
echo "nothing to prepare: there is no prepare.sh in $(pwd)"
