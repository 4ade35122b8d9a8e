# Run `make` to see what there is to do.

# -trimpath everywhere: with the same flags in every step, each step finds the
# packages that the one before it has built.
export GOFLAGS := $(strip $(filter-out -trimpath,$(GOFLAGS)) -trimpath)

GOLANGCI_VERSION := v2.15.0
GOLANGCI := bin/tools/golangci-lint-$(GOLANGCI_VERSION)
FUZZTIME ?= 10s
SEEDS ?= 5000
SEED ?= 1
# Modules of their own, so that nobody's versions are raised by what they don't use.
MODULES := bench contrib/gocron contrib/goredis torture/peers

PREFIX ?= /usr/local
DESTDIR ?=

.PHONY: help test test-postgres17 test-valkey check vet lint darwin fuzz build man install spec sim torture torture-quick torture-postgres torture-sentinel torture-cluster torture-quorum mutants peers bench bench-quick clean test-deps

help: ## list the targets
	@grep -E '^[a-z0-9-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | \
		awk -F ':.*## ' '{ printf "  make %-8s %s\n", $$1, $$2 }'

# First everything is built, with all cores. Then two packages are tested at a
# time: most of them wait for expiries and restarts more than they compute.
test: test-deps ## install what the tests need (Debian, Ubuntu), run them under the race detector
	CGO_ENABLED=1 go test -race -run '^$$' ./... >/dev/null
	CGO_ENABLED=1 go test -race -p 2 ./...
	@set -e; for module in $(MODULES); do \
		(cd $$module && echo "in $$module:" && CGO_ENABLED=1 go test -race ./...); done

test-postgres17: ## the tests of Postgres on version 17, which is fetched from another Debian suite into bin/
	HOLDFAST_TEST_POSTGRES=$$(internal/unpack.sh bin/postgres17 trixie postgresql-17)/usr/lib/postgresql/17/bin CI=true \
		CGO_ENABLED=1 go test -race -count=1 ./pgstore ./fence/sqlfence ./fence/pgxfence ./docs/recipes/...

# Those packages whose tests start a Redis server; those of Postgres only use its proxy.
test-valkey: test-deps ## the tests of Redis on Valkey 9, which is fetched from another Debian suite into bin/
	set -e; valkey=$$(internal/unpack.sh bin/valkey sid valkey-server valkey-tools)/usr/bin/valkey-server; \
	export HOLDFAST_TEST_REDIS=$$valkey CI=true CGO_ENABLED=1; \
	go test -race -count=1 -p 2 $$(go list -f '{{.ImportPath}} {{.Imports}} {{.TestImports}} {{.XTestImports}}' ./... | \
		grep /redistest | cut -d ' ' -f 1 | grep -v -e /pg -e /sqlfence); \
	cd contrib/goredis; go test -race -count=1 ./...

check: vet lint test darwin ## vet, golangci-lint, race and policy tests, cross-compile for darwin

vet: ## go vet, in the other modules too
	go vet ./...
	@set -e; for module in $(MODULES); do (cd $$module && go vet ./...); done

lint: $(GOLANGCI) ## golangci-lint, in a fixed version; the first run builds it, which takes minutes
	$(GOLANGCI) run ./...
	@set -e; for module in $(MODULES); do (cd $$module && $(CURDIR)/$(GOLANGCI) run ./...); done

darwin: ## build and vet for macOS on arm64
	GOOS=darwin GOARCH=arm64 go build ./...
	GOOS=darwin GOARCH=arm64 go vet ./...

fuzz: ## run every fuzz target for FUZZTIME (default 10s)
	@set -e; for pkg in $$(go list ./...); do \
		for target in $$(go test -run '^$$' -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "$$pkg $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

build: ## build the command, static, as bin/holdfast
	CGO_ENABLED=0 go build -ldflags '-s -w' -o bin/holdfast ./cmd/holdfast

# The pages have the date of the last commit, or in a tarball, without Git, that
# of a file: the same source gives the same pages.
man: ## write the man pages to bin/man, completions for bash, zsh and fish to bin/completion
	rm -rf bin/man bin/completion
	SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || date -r go.mod +%s)} \
		go run ./internal/manual bin

install: build man ## install the command, man pages and completions below PREFIX (default /usr/local)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man1 \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions \
		$(DESTDIR)$(PREFIX)/share/zsh/site-functions \
		$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	install -m 755 bin/holdfast $(DESTDIR)$(PREFIX)/bin/holdfast
	install -m 644 bin/man/*.1 $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 bin/completion/holdfast.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/holdfast
	install -m 644 bin/completion/_holdfast $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_holdfast
	install -m 644 bin/completion/holdfast.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/holdfast.fish

spec: test-deps ## search the models of spec/, and print each violation as a timeline
	go test -count=1 -v ./spec

sim: ## simulate the library under faults in fake time, SEEDS of them from SEED on
	go test -overlay "$$(go run ./torture/overlay/write torture/sim/seam.patch)" \
		./torture/sim -v -count=1 -timeout 60m -run Whatever -seeds $(SEEDS) -seed $(SEED)

torture: test-deps ## torture real processes and servers for half an hour; the report is the last thing printed
	go run ./torture -for 30m

torture-quick: test-deps ## the same for eighty seconds, with the faults of seed 1
	go run ./torture -for 80s -seed 1

torture-postgres: test-deps ## the same as torture with Postgres, a standby and PgBouncer, for half an hour
	go run ./torture -store postgres -for 30m

torture-sentinel: test-deps ## the same with three servers of Redis that three sentinels watch, for half an hour
	go run ./torture -store sentinel -for 30m

torture-cluster: test-deps ## the same with a Redis Cluster of six nodes, for half an hour
	go run ./torture -store cluster -for 30m

torture-quorum: test-deps ## the same with a quorum of five servers of Redis, for half an hour
	go run ./torture -store quorum -for 30m

mutants: test-deps ## break the code in every known way: each must be caught
	go run ./torture/mutants

peers: ## put other libraries of locks to the work and the faults of torture, in eight minutes
	cd torture/peers && go run . -for 60s -seed 4

bench: ## measure the figures of docs/performance.md beside other libraries, in eight minutes
	cd bench && go run .

bench-quick: ## in less than one, the ratios to the best of the other libraries
	cd bench && go run . -quick

clean: ## remove bin/, tools included
	rm -rf bin

# Built here and not listed in go.mod, so that users never download it.
$(GOLANGCI):
	GOBIN=$(CURDIR)/bin/tools go install \
		github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv bin/tools/golangci-lint $@

# The tests start servers of their own on free ports, so the packages' services are
# not wanted: policy-rc.d keeps the installation from starting them, and
# create_main_cluster from making a database.
test-deps:
	@missing=''; \
	command -v redis-server >/dev/null || missing="$$missing redis-server"; \
	/usr/bin/python3 -c 'import redis' 2>/dev/null || python3 -c 'import redis' 2>/dev/null || \
		missing="$$missing python3-redis"; \
	command -v spin >/dev/null || missing="$$missing spin"; \
	PATH="$$PATH:/usr/sbin" command -v mariadbd >/dev/null || missing="$$missing mariadb-server-core"; \
	command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || \
		missing="$$missing postgresql"; \
	command -v pgbouncer >/dev/null || [ -x /usr/sbin/pgbouncer ] || missing="$$missing pgbouncer"; \
	echo '#include <stdlib.h>' | $$(go env CC) -E - >/dev/null 2>&1 || missing="$$missing gcc libc6-dev"; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if ! command -v apt-get >/dev/null; then \
		echo "make test: install these first (Debian's names):$$missing" >&2; exit 1; \
	fi; \
	sudo=''; \
	if [ "$$(id -u)" != 0 ]; then \
		if ! command -v sudo >/dev/null; then \
			echo "make test: neither root nor sudo; as root: apt-get install$$missing" >&2; exit 1; \
		fi; \
		sudo=sudo; \
	fi; \
	echo "make test: installing$$missing"; \
	cluster=/etc/postgresql-common/createcluster.d/holdfast-tests.conf; \
	remove=$$cluster; \
	policy=/usr/sbin/policy-rc.d; \
	[ -e $$policy ] || remove="$$remove $$policy"; \
	trap "$$sudo rm -f $$remove" EXIT; \
	$$sudo mkdir -p $${cluster%/*}; \
	echo 'create_main_cluster = false' | $$sudo tee $$cluster >/dev/null; \
	if [ ! -e $$policy ]; then \
		printf '#!/bin/sh\nexit 101\n' | $$sudo tee $$policy >/dev/null; \
		$$sudo chmod 755 $$policy; \
	fi; \
	$$sudo apt-get update -qq && \
	$$sudo env DEBIAN_FRONTEND=noninteractive \
		apt-get install -qq -y --no-install-recommends $$missing </dev/null
