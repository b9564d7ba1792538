#!/bin/bash

# Starts engineV2 in the background. Copy this file, change the settings, run the copy.
# ENGINE may name another way to start it, for example "python engineV2.py".

ENGINE=${ENGINE:-"python -m trueline.compat engineV2"}

# What is tested
# FILE_INPUT="tester/api_config/5_accuracy/accuracy_1.txt"
FILE_PATTERN="tester/api_config/5_accuracy/accuracy_*.txt"
LOG_DIR="tester/api_config/test_log"

# Where; a machine without a GPU uses its CPU and says so
NUM_GPUS=-1
NUM_WORKERS_PER_GPU=-1
GPU_IDS="-1"
# REQUIRED_MEMORY=10

TEST_MODE_ARGS=(
    --accuracy=True
    # --paddle_only=True
    # --paddle_cinn=True
    # --test_amp=True
    # --test_cpu=True
    # --use_cached_numpy=True
    # --atol=1e-2
    # --rtol=1e-2
    # --test_tol=True
)

IN_OUT_ARGS=(
    # --api_config_file="$FILE_INPUT"
    --api_config_file_pattern="$FILE_PATTERN"
    --log_dir="$LOG_DIR"
)

PARALLEL_ARGS=(
    --num_gpus="$NUM_GPUS"
    --num_workers_per_gpu="$NUM_WORKERS_PER_GPU"
    --gpu_ids="$GPU_IDS"
    # --required_memory="$REQUIRED_MEMORY"
)

mkdir -p "$LOG_DIR" || {
    echo "cannot make the log folder '$LOG_DIR'" >&2
    exit 2
}

LOG_FILE="$LOG_DIR/log_$(date +%Y%m%d_%H%M%S).log"
nohup $ENGINE "${TEST_MODE_ARGS[@]}" "${IN_OUT_ARGS[@]}" "${PARALLEL_ARGS[@]}" >> "$LOG_FILE" 2>&1 &
ENGINE_PID=$!

sleep 1
if ! kill -0 "$ENGINE_PID" 2> /dev/null; then
    wait "$ENGINE_PID"
    CODE=$?
    # 0 and 1 are the codes of a test that has ended already, clean or with findings.
    if [ "$CODE" -gt 1 ]; then
        echo "engineV2 could not start; see $LOG_FILE" >&2
        tail -n 3 "$LOG_FILE" >&2
        exit "$CODE"
    fi
fi

echo "engineV2 runs as process $ENGINE_PID; closing this terminal does not stop it"
echo "  results:  ls -lh $LOG_DIR"
echo "  its log:  tail -f $LOG_FILE"
echo "  stop it:  kill $ENGINE_PID"
