# `make demo` and `make test` need nothing but git, Python 3.11+, g++, make and perl.
# Both make the virtual environment when it is missing and renew it when its inputs changed.

VENV  := .venv
STAMP := $(VENV)/.headrace-installed
ARGS  ?=

.PHONY: demo test lint docs clean
.DEFAULT_GOAL := demo

demo: $(STAMP)
	@$(VENV)/bin/headrace demo $(ARGS)

test: $(STAMP)
	@$(VENV)/bin/python -m pytest -n 2 --dist worksteal $(ARGS)

lint: $(STAMP)
	@$(VENV)/bin/python -m pytest -q tests/house $(ARGS)

docs: $(STAMP)
	@$(VENV)/bin/python -m sphinx -W --keep-going -b html docs docs/_build/html

$(STAMP): pyproject.toml constraints.txt .ci/venv
	@.ci/venv $(VENV)
	@touch $@

clean:
	rm -rf $(VENV) docs/_build out
