#!/bin/bash
# Tests training, export and inference as a config of TIPC says. Run it in the folder of the project:
#   bash test_tipc/test_train_inference_python.sh CONFIG MODE [CARD]
# CARD is the GPU for whole_infer. TRUELINE_PYTHON names the interpreter that has trueline (default: python3);
# TRUELINE_PIPELINE_OPTIONS holds further options of `trueline pipeline`.
if [ $# -lt 2 ]; then
    echo "usage: bash $0 CONFIG MODE [CARD]" >&2
    exit 2
fi
python=${TRUELINE_PYTHON:-python3}
if ! "$python" -c "import trueline" 2> /dev/null; then
    echo "$0: $python has no trueline: install it there, or set TRUELINE_PYTHON to an interpreter that has it" >&2
    exit 2
fi
# Results below ./log, as the document of the short form has them; those of the long form lie where they always do.
options=(--layout log ${TRUELINE_PIPELINE_OPTIONS:-})
if [ -n "${3:-}" ]; then
    options+=(--gpu "$3")
fi
exec "$python" -m trueline pipeline "$1" "$2" "${options[@]}"
