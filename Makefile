# One command is the whole truth: make check. CI runs it after the two commands
# of the README.

GO       ?= go
PKG      ?= ./...
FUZZTIME ?= 5000x
TIME     ?= 5s

# Every module of the repository; ./... does not enter nested ones.
MODULES := . tools failure/grpcpolicy internal/bench
CODE    := $(filter-out tools,$(MODULES))

STATICCHECK := $(GO) tool -modfile=$(CURDIR)/tools/go.mod staticcheck
LINT        := $(GO) tool -modfile=$(CURDIR)/tools/go.mod golangci-lint

.PHONY: check format vet static lint tidy test race examples fuzz chaos imports bench help

check: format vet static lint tidy imports examples race fuzz chaos ## all of the below, in CI's order

format: ## gofmt
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "run gofmt -w"; exit 1; }

vet: ## go vet in every module, and the programs for other systems
	@for m in $(CODE); do echo "vet $$m"; (cd $$m && $(GO) vet ./...) || exit 1; done
	@for os in darwin windows; do echo "vet for $$os"; GOOS=$$os $(GO) vet ./... || exit 1; done

static: ## staticcheck in every module
	@for m in $(CODE); do echo "staticcheck $$m"; (cd $$m && $(STATICCHECK) ./...) || exit 1; done

lint: ## golangci-lint, by .golangci.yml
	$(LINT) run ./...

tidy: ## go mod tidy -diff in every module
	@for m in $(MODULES); do echo "tidy $$m"; (cd $$m && $(GO) mod tidy -diff) || exit 1; done

imports: ## who may link what, and the tests that docs/scenarios.md names
	@./tools/imports.sh
	@./tools/scenarios.sh

test: ## the README's test command
	$(GO) test ./...

race: ## every test under the race detector, and the nested modules' tests
	@./tools/race.sh $(PKG)
	@for m in $(filter-out .,$(CODE)); do (cd $$m && $(GO) test ./...) || exit 1; done

examples: ## every Example has checked output, and runs
	@./tools/examples.sh
	$(GO) test -count=1 -run Example ./...

fuzz: ## every fuzz target, FUZZTIME each
	@./tools/fuzz.sh $(FUZZTIME)

chaos: ## histories of processes under faults: make chaos PKG=lock TIME=60s
	TRANSPARENCY_CHAOS=$(TIME) $(GO) test -count=1 -run Chaos -timeout 24h -v \
		$(patsubst %,./%,$(if $(filter ./...,$(PKG)),lock relocation,$(PKG:./%=%)))

bench: ## the comparisons with the peers; not part of check
	cd internal/bench && $(GO) run . -check

help:
	@grep -E '^[a-z]+:.*##' Makefile | sed 's/:.*##/\t/'
