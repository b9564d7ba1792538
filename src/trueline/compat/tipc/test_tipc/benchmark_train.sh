#!/bin/bash
# Runs the trainings of a benchmark as a config of TIPC says. Run it in the folder of the project:
#   bash test_tipc/benchmark_train.sh CONFIG benchmark_train [dynamic_bs8_fp32_DP_N1C1]
# TRUELINE_PYTHON names the interpreter that has trueline (default: python3).
if [ $# -lt 2 ]; then
    echo "usage: bash $0 CONFIG benchmark_train [WHAT]" >&2
    exit 2
fi
python=${TRUELINE_PYTHON:-python3}
if ! "$python" -c "import trueline" 2> /dev/null; then
    echo "$0: $python has no trueline: install it there, or set TRUELINE_PYTHON to an interpreter that has it" >&2
    exit 2
fi
options=(${TRUELINE_PIPELINE_OPTIONS:-})
if [ -n "${3:-}" ]; then
    options+=(--benchmark "$3")
fi
exec "$python" -m trueline pipeline "$1" "$2" "${options[@]}"
