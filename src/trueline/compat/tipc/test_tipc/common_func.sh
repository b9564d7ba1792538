#!/bin/bash
# The functions that TIPC's scripts share, for a prepare.sh of your own:
#
#   source test_tipc/common_func.sh
#   model_name=$(func_parser_value "model_name:mobilenet_v3_small")
#
# trueline's own scripts read configs themselves and do not need them. A value is kept whole where it holds a colon.

# key:value -> key
function func_parser_key() {
    echo "${1%%:*}"
}

# key:value -> value
function func_parser_value() {
    if [[ "$1" == *:* ]]; then echo "${1#*:}"; else echo ""; fi
}

# func_parser_value_lite TEXT SEPARATOR: what stands between the first two separators
function func_parser_value_lite() {
    local rest=${1#*"$2"}
    echo "${rest%%"$2"*}"
}

# key:a=1|b=2 and b -> 2
function func_parser_params() {
    local parts part
    IFS='|' read -r -a parts <<< "$(func_parser_value "$1")"
    for part in "${parts[@]}"; do
        if [[ "${part%%=*}" == "$2" ]]; then
            echo "${part#*=}"
            return
        fi
    done
    echo ""
}

# key and value -> key=value, or nothing where one of them says nothing
function func_set_params() {
    if [[ "$1" == "null" || "$2" == "null" || -z "${2// /}" ]]; then echo " "; else echo "$1=$2"; fi
}

# status_check CODE COMMAND LOG [MODEL]: says how a command ended, on the terminal and in a file
function status_check() {
    local word=failed
    if [ "$1" -eq 0 ]; then word=successfully; fi
    echo -e "\033[33m Run ${word} with command - ${4:+$4 - }$2!  \033[0m" | tee -a "$3"
}
