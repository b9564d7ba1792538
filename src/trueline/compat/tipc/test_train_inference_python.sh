#!/bin/bash
# Tests training, export and inference as a config of TIPC says. Run it in the folder of the project:
#   bash test_tipc/test_train_inference_python.sh CONFIG MODE [CARD]
# CARD is the GPU for whole_infer. TRUELINE_PYTHON names the interpreter that has trueline (default: python3);
# TRUELINE_PIPELINE_OPTIONS holds further options of `trueline pipeline`.
if [ $# -lt 2 ]; then
    echo "usage: bash $0 CONFIG MODE [CARD]" >&2
    exit 2
fi
options=(${TRUELINE_PIPELINE_OPTIONS:-})
if [ -n "${3:-}" ]; then
    options+=(--gpu "$3")
fi
exec "${TRUELINE_PYTHON:-python3}" -m trueline pipeline "$1" "$2" "${options[@]}"
