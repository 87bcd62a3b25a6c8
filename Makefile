# One command per chore, the same by hand and in CI. Each installs what the machine lacks first (tools/setup).
#
#   make run          build the server and run it on ./redolith-data
#   make test         everything CI needs: unit, loom, simulation, SQL cases, drivers, sysbench, kills
#   make lint         rustfmt, clippy with warnings as errors, licences
#   make sim          crash simulation alone; SEEDS=100000 for a long one
#   make bench        side by side with MariaDB and the floor, about an hour; make bench-quick: a few minutes;
#                     make bench-counting: what counters cost
#   make test-STAGE   one stage of `make test`; `tests/run --list` names them
DATA  ?= redolith-data
PORT  ?= 3306
SEEDS ?= 5000
BENCH_DIR ?= bench/out

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
export PATH := $(PATH):$(HOME)/.cargo/bin
TARGET := $(or $(CARGO_TARGET_DIR),target)
BINARY := $(TARGET)/release/redolith

.PHONY: help run build test lint fmt deny sim bench bench-quick bench-counting bench-build clean-data
help:
	@sed -n 's/^#   //p' Makefile

build:
	@tools/setup build
	cargo build --release --locked -p redolith-server

# The server prints how to connect. Ctrl-C is a clean shutdown.
run: build
	@mkdir -p $(DATA)
	exec $(BINARY) server --datadir=$(DATA) --socket=redolith.sock --port=$(PORT)

test:
	@tools/setup test
	tests/run
test-%:
	@tools/setup test
	tests/run $*

lint: deny
	@tools/setup lint
	for m in . bench/null tests/e2e; do cargo fmt --manifest-path $$m/Cargo.toml --all --check; done
	cargo clippy --workspace --all-targets --locked -- -D warnings
	for m in bench/null tests/e2e; do cargo clippy --manifest-path $$m/Cargo.toml --all-targets --locked -- -D warnings; done
fmt:
	for m in . bench/null tests/e2e; do cargo fmt --manifest-path $$m/Cargo.toml --all; done
deny:
	@tools/setup deny
	for m in . bench/null tests/e2e; do cargo deny --manifest-path $$m/Cargo.toml --config deny.toml check licenses bans sources; done

sim:
	@tools/setup build
	tests/run sim --seeds $(SEEDS)

bench-build: build
	@tools/setup bench
	cargo build --release --locked --manifest-path bench/null/Cargo.toml --target-dir $(TARGET)/null
bench: bench-build
	bench/run --dir $(BENCH_DIR) --redolith $(BINARY) --null $(TARGET)/null/release/redolith-null full
bench-quick: bench-build
	bench/run --dir $(BENCH_DIR) --redolith $(BINARY) --null $(TARGET)/null/release/redolith-null quick
bench-counting: build
	@tools/setup bench
	bench/counting

clean-data:
	rm -rf $(DATA)
