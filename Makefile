# Every target sets up what it needs in .venv, from nothing but python3.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
ZOO := .venv-zoo

.PHONY: demo test bench check matrix smoke zoo clean

# Two processes fill two cores: a second thread of torch would only wait for them.
test: export OMP_NUM_THREADS = 1

demo: $(VENV)/ready
	$(RUN) examples/01_drifting_loss/demo.py

# A file of tests stays in one process: its tests share what is slow to make. tests/conftest.py puts the slow files first.
# They start hundreds of processes: where PYTHONDONTWRITEBYTECODE is set, each would compile all of trueline again.
test: $(VENV)/ready
	$(RUN) -m compileall -q src
	$(RUN) -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

bench: $(VENV)/ready
	$(RUN) benchmarks/kernels.py
	$(RUN) -m benchmarks.overhead
	$(RUN) -m benchmarks.faults.run --peer

# Many versions of torch, Paddle and Python, one environment after another: hours, and some gigabytes at a time.
matrix: $(VENV)/ready
	$(RUN) -m benchmarks.versions

# The newest torch alone, within five minutes; where it cannot be had in that time, that is said.
smoke: $(VENV)/ready
	$(RUN) -m benchmarks.versions --smoke

# Models of other people's libraries, hundreds of faults and clean pairs: hours. Its table: benchmarks/results/zoo.md.
zoo: export OMP_NUM_THREADS = 1
zoo: $(ZOO)/ready
	$(ZOO)/bin/python -m benchmarks.zoo.run --jobs 2

check: $(VENV)/ready
	$(RUN) -m ruff check .
	$(RUN) -m mypy

# The frameworks are pinned here, not in the package: these builds are small (no CUDA), the package accepts ranges.
$(VENV)/ready: pyproject.toml setup.py $(wildcard src/trueline/numerics/*.[ch] src/trueline/frameworks/*.[ch] src/trueline/frameworks/torch/*.[ch])
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check torch==2.13.0 paddlepaddle==3.3.1
	$(RUN) -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	touch $@

$(ZOO)/ready: benchmarks/zoo/requirements.txt benchmarks/zoo/requirements_alone.txt
	$(PYTHON) -m venv $(ZOO)
	$(ZOO)/bin/pip install --quiet --disable-pip-version-check --requirement benchmarks/zoo/requirements.txt --editable .
	$(ZOO)/bin/pip install --quiet --disable-pip-version-check --no-deps --requirement benchmarks/zoo/requirements_alone.txt
	touch $@

clean:
	rm -rf $(VENV) $(ZOO) .venv-peer build demo-out
	find . -name '*.so' -path './src/*' -delete
