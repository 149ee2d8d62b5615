# All files stay in this checkout: tools in .venv and node_modules, the data of the local service in .local.
# The installation of tools writes to standard error. Therefore `make -s token` prints only a token to standard output.

PYTHON3 ?= python3
SUB ?= alice
SCOPES ?= videos/read videos/write
CDK_ARGS ?=
TITLES ?= 1000
PYTEST_ARGS ?=
E2E_ARGS ?= -n 3
SOAK_ARGS ?=
COST_ARGS ?=
MUTANTS_ARGS ?=
ENV ?=
export SUB SCOPES PYTEST_ARGS E2E_ARGS

VENV := .venv
PYTHON := $(VENV)/bin/python
STAMP := $(VENV)/installed
# PATH with the pinned Node, and with the Python that runs `python3 app.py`.
TOOLS := PATH="$(CURDIR)/$(VENV)/bin:$$PATH"
CDK := $(TOOLS) node_modules/.bin/cdk

# With this variable, Python would compile all modules again at each start.
unexport PYTHONDONTWRITEBYTECODE
# These variables of the shell could select other tools than those of .venv.
unexport PYTHONHOME PYTHONPATH VIRTUAL_ENV

.DEFAULT_GOAL := help
.PHONY: help run docs test check soak e2e mutants token variables demo catalogue bootstrap deploy synth lint bench cost redrive restore-drill advisories clean sam-env screenshots

help: ## Show this list
	@grep -E '^[a-z0-9-]+:.*## ' Makefile | awk -F ':.*## ' '{gsub("[$$][$$]", "$$", $$2); printf "  make %-13s %s\n", $$1, $$2}'

run: $(STAMP) ## Start the service on this machine; Ctrl-C stops it (PORT=4566 ISSUER_PORT=4567 OBJECTS_PORT=4568)
	@$(PYTHON) -m local.run

docs: $(STAMP) ## Build the documents as a site with search; `make run` serves it at /guide/ and builds it when needed
	@$(PYTHON) -m local.guide

test: $(STAMP) ## Run all checks: lint, types, templates, all tests and the rehearsal (PYTEST_ARGS="-k name")
	@$(PYTHON) -m local.checks

check: $(STAMP) ## Run the checks before a commit, 2 minutes: lint, types, quick unit tests without proofs and CDK (PYTEST_ARGS="-k name")
	@$(PYTHON) -m local.checks --quick lint types unit

soak: $(STAMP) ## Repeat the tests under load, and count the failures of each test (SOAK_ARGS="--times 5 --minutes 60 unit")
	@$(PYTHON) -m local.soak $(SOAK_ARGS)

e2e: $(STAMP) ## Rehearse a deployment on this machine: deploy, upgrade, end-to-end tests, diff, destroy (E2E_ARGS="-n 3 -k name")
	@$(PYTHON) -m local.rehearsal $(E2E_ARGS)

mutants: $(STAMP) ## Check that the tests catch 100 planted defects, 5 minutes (MUTANTS_ARGS="stores search-shows-hidden")
	@$(PYTHON) -m local.mutants $(MUTANTS_ARGS)

token: $(STAMP) ## Print a token for the local service (SUB=carol SCOPES="videos/read")
	@$(PYTHON) -m local.mint "$$SUB" "$$SCOPES"

variables: $(STAMP) ## Print shell variables for the local service: eval "$$(make -s variables)"
	@$(PYTHON) -m local.tour --variables

demo: $(STAMP) ## Load a few thousand films into the running service, and show some queries
	@$(PYTHON) -m local.demo

catalogue: $(STAMP) ## Generate a catalogue in IMDb's format, and import it into the running service (TITLES=1000)
	@$(PYTHON) -m tools generate .local/catalogue-$(TITLES) --titles $(TITLES)
	@$(PYTHON) -m tools import-imdb .local/catalogue-$(TITLES) --local

screenshots: $(STAMP) ## Write pictures of all screens of the console to .local/screenshots; needs Chromium
	@$(PYTHON) -m tests.e2e.screenshots

sam-env: $(STAMP) ## Prepare `sam local invoke`, which runs a single function (docs/sam-local-invoke.md)
	@$(PYTHON) -m local.sam

bootstrap: $(STAMP) ## Prepare the AWS account of your credentials for the CDK, once for each region (CDK_ARGS="--option value")
	@destination=$$($(PYTHON) -m tools.preflight) && $(CDK) bootstrap --app "" "$$destination" $(CDK_ARGS)

deploy: $(STAMP) ## Deploy to the AWS account of your credentials, after checks (ENV=staging YES=1 CDK_ARGS="-c name=value")
	@$(PYTHON) -m tools.deploying --env "$(ENV)" $(if $(YES),--yes) $(CDK_ARGS)

synth: $(STAMP) ## Synthesize deployments with all optional features, and check the templates (.local/templates)
	@$(PYTHON) -m local.checks templates

lint: $(STAMP) ## Check style, format and types
	@$(PYTHON) -m local.checks lint types

bench: $(STAMP) ## Measure requests and cold starts, compared with other implementations, as ratios
	@for measured in performance client media catalogue; do $(PYTHON) -m bench.$$measured || exit 1; done

redrive: $(STAMP) ## Show the messages in a dead-letter queue, and move them back (QUEUE=thumbnails ENV=prod YES=1; ENV=local)
	@$(PYTHON) -m tools redrive --queue "$(QUEUE)" $(if $(filter local,$(ENV)),--local,$(if $(ENV),--env "$(ENV)")) $(if $(YES),--yes)

cost: $(STAMP) ## Compute the costs on AWS: units and dollars for each request and for a month (COST_ARGS="--set videos=5e6")
	@$(PYTHON) -m bench.cost $(COST_ARGS)

restore-drill: $(STAMP) ## Damage a separate local deployment, restore it from a copy, and check that no data is lost
	@$(PYTHON) -m local.restore_drill

advisories: $(STAMP) ## Check the pinned versions for known vulnerabilities, in the databases of PyPI and npm
	@$(PYTHON) -m tools.advisories

clean: ## Delete build results, caches, and the data of the local service
	rm -rf .local cdk.out .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -not -path './node_modules/*' -prune -exec rm -rf {} +

# The stamp file is written last, so an interrupted installation runs again.
$(STAMP): requirements.txt functions/requirements.txt functions/thumbnails/requirements.txt functions/search/requirements.txt functions/search/requirements-opensearch.txt constraints.txt package.json
	@command -v $(PYTHON3) >/dev/null && $(PYTHON3) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is required. Install it as $(PYTHON3), or run make PYTHON3=<path>." >&2; exit 1; }
	@echo "Installing the pinned tools into .venv and node_modules ..." >&2
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || $(PYTHON3) -m venv --clear $(VENV) >&2
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt uv >&2
	@$(VENV)/bin/uv pip install --quiet --python $(PYTHON) --requirements requirements.txt >&2
	@$(TOOLS) npm install --silent --no-package-lock --no-audit --no-fund --no-update-notifier --loglevel error >&2
	@touch $@
