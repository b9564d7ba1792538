#!/bin/bash

# Starts engineV2.py in the background. Copy this file, change what is below, run the copy: ./run_tol.sh

# export PYTHONPATH=/root/paddlejob/Paddle/build/python

# NUM_GPUS=0 leaves the choice of the cards to CUDA_VISIBLE_DEVICES. A machine without a GPU uses its CPU and says so.
# FILE_INPUT="tester/api_config/5_accuracy/accuracy_1.txt"
FILE_PATTERN="tester/api_config/5_accuracy/accuracy_*.txt"
LOG_DIR="tester/api_config/test_log"
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
    echo "错误：无法创建日志目录 '$LOG_DIR'"
    exit 1
}

# ENGINE may name another way to start it; where engineV2.py is not beside this script, that of the installation is used.
if [ -z "$ENGINE" ]; then
    ENGINE="python engineV2.py"
    [ -f engineV2.py ] || ENGINE="python -m trueline.compat engineV2"
fi
LOG_FILE="$LOG_DIR/log_$(date +%Y%m%d_%H%M%S).log"
nohup $ENGINE \
        "${TEST_MODE_ARGS[@]}" \
        "${IN_OUT_ARGS[@]}" \
        "${PARALLEL_ARGS[@]}" \
        >> "$LOG_FILE" 2>&1 &

PYTHON_PID=$!

sleep 1
if ! kill -0 "$PYTHON_PID" 2> /dev/null; then
    wait "$PYTHON_PID"
    CODE=$?
    # 0 and 1 are the codes of a test that has ended already, clean or with findings.
    if [ "$CODE" -gt 1 ]; then
        echo "错误：engineV2 启动失败，请检查 $LOG_FILE"
        tail -n 3 "$LOG_FILE"
        exit 1
    fi
    echo "engineV2 已经结束（退出码 $CODE），结果位于 $LOG_DIR"
    exit 0
fi

echo -e "\n\033[32m执行中... 另开终端运行监控:\033[0m"
echo -e "1. GPU使用:   watch -n 1 nvidia-smi"
echo -e "2. 日志目录:  ls -lh $LOG_DIR"
echo -e "3. 详细日志:  tail -f $LOG_FILE"
echo -e "4. 终止任务:  kill $PYTHON_PID"
echo -e "\n进程已在后台运行，关闭终端不会影响进程执行"

exit 0
