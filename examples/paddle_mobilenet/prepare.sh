#!/bin/bash
# bash prepare.sh CONFIG MODE: makes the data that all modes use.
set -e
cd "$(dirname "$0")"
python3 data.py --out lite_data
