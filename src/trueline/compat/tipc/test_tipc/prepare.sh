#!/bin/bash
# Checks a config of TIPC, then runs what the project has to prepare data and weights: the prepare.sh that stood here
# before this one (prepare.before-trueline.sh), else the prepare.sh in the folder of the project.
#   bash test_tipc/prepare.sh CONFIG MODE
# TRUELINE_PYTHON names the interpreter that has trueline (default: python3).
if [ $# -lt 2 ]; then
    echo "usage: bash $0 CONFIG MODE" >&2
    exit 2
fi
here=$(dirname "${BASH_SOURCE[0]}")
python=${TRUELINE_PYTHON:-python3}
if ! "$python" -c "import trueline" 2> /dev/null; then
    echo "$0: $python has no trueline: install it there, or set TRUELINE_PYTHON to an interpreter that has it" >&2
    exit 2
fi
"$python" -m trueline pipeline "$1" "$2" --plan --layout log > /dev/null || exit $?
if [ -n "${TRUELINE_PREPARING:-}" ]; then
    echo "$0: the project's own prepare.sh calls this script, which calls it" >&2
    exit 2
fi
export TRUELINE_PREPARING=1
for own in "$here"/prepare.before-trueline*.sh prepare.sh; do
    if [ -f "$own" ]; then
        echo "data is prepared by $own"
        exec bash "$own" "$@"
    fi
done
echo "nothing to prepare: there is neither $here/prepare.before-trueline.sh nor a prepare.sh in $(pwd)"
