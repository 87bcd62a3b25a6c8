# One command per chore, the same by hand and in CI. Each installs what the machine lacks first
# (tools/setup).
#
#   make run          build the server and run it on ./redolith-data
#   make test         everything CI needs: unit, loom, simulation, SQL cases, drivers, sysbench,
#                     kills
#   make check        before each commit: rustfmt, clippy, unit tests of the libraries; under a
#                     minute when warm
#   make lint         rustfmt, clippy and rustdoc with warnings as errors, licences
#   make sim          crash simulation alone; SEEDS=100000 for a long one
#   make soak         what make test has no time for, an hour: 20,000 seeds, every operation,
#                     200 power cuts, all models under loom and shuttle, Miri, all 5.7 million
#                     queries of the sqllogictest corpus, the whole tests of make clients
#   make differ       random statements beside MariaDB, an hour; DIFFER_SECONDS=600 SEED=7 for
#                     others
#   make clients      the whole tests of Django, SQLAlchemy and drivers, half an hour;
#                     ARGS='django --test queries' for some
#   make fuzz         every fuzz target for a minute; ARGS='--seconds 3600 --only sql_text' for
#                     others
#   make bench        side by side with MariaDB and the baseline server, about an hour;
#                     make bench-quick: a few minutes
#   make bench-counting  what counters cost: a minute
#   make bench-instructions  instructions for a transaction, under callgrind: five minutes;
#                     ARGS='--old BINARY' compares
#   make bench-engines  the library beside RocksDB, fjall, LMDB, redb, SQLite: about 15 minutes;
#                     ARGS=--quick: two; ARGS=--help tells more. The first time it compiles RocksDB,
#                     half an hour on two cores: ROCKSDB=system takes the distribution's,
#                     ROCKSDB=none leaves it out
#   make lab-quick    the field studies beside MariaDB, fifteen minutes; for longer studies see
#                     target/release/redolith lab --help
#   make profile      where the CPU goes in a server that runs, for ten seconds (perf)
#   make test-STAGE   one stage of `make test`; `tests/run --list` names them
DATA  ?= redolith-data
PORT  ?= 3306
SEEDS ?= 5000
SEED  ?= $(shell date +%s)
DIFFER_SECONDS ?= 3600
BENCH_DIR ?= bench/out
ROCKSDB ?= bundled
ARGS  ?=

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
export PATH := $(PATH):$(HOME)/.cargo/bin
TARGET := $(or $(CARGO_TARGET_DIR),target)
BINARY := $(TARGET)/release/redolith
BASELINE := $(TARGET)/baseline/release/redolith-baseline
# Workspaces of their own. RocksDB is a feature of bench/peers that only `make bench-engines` asks
# for: no lint compiles it.
OTHERS := bench/baseline bench/peers tests/e2e fuzz

.PHONY: help run build test check profile lint fmt deny sim soak differ clients fuzz bench \
  bench-quick bench-counting bench-build bench-instructions bench-engines lab-quick clean-data
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
	@if [ $* = miri ]; then tools/setup miri; fi
	tests/run $*

# Many tests wait, so there are more threads than cores.
check:
	cargo fmt --all --check
	cargo clippy --workspace --locked -- -D warnings
	cargo test --workspace --locked --lib --quiet -- --test-threads=8
profile:
	perf record -F 999 -g -o $(TARGET)/perf.data -p $$(pgrep -n -f 'redolith server') -- sleep 10
	perf report -i $(TARGET)/perf.data --no-children --percent-limit 0.5 --stdio -g none | head -80

lint: deny
	@tools/setup lint
	for m in . $(OTHERS); do cargo fmt --manifest-path $$m/Cargo.toml --all --check; done
	cargo clippy --workspace --all-targets --locked -- -D warnings
	for m in $(OTHERS); do \
	  cargo clippy --manifest-path $$m/Cargo.toml --target-dir $(TARGET) --all-targets --locked -- \
	    -D warnings; \
	done
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
fmt:
	for m in . $(OTHERS); do cargo fmt --manifest-path $$m/Cargo.toml --all; done
deny:
	@tools/setup deny
	for m in . $(OTHERS); do \
	  cargo deny --manifest-path $$m/Cargo.toml --config deny.toml \
	    check -A unused-wrapper licenses bans sources; \
	done

sim:
	@tools/setup build
	tests/run sim --seeds $(SEEDS)

soak: build
	@tools/setup test
	@tools/setup miri
	EVERY_IO=1 tests/run sim --seeds 20000
	tests/run --soak
	POWER_LOSS_IMAGES=200 POWER_LOSS_TRANSACTIONS=600 SEED=$(SEED) \
	  cargo test --locked -p redolith-server --test server power_loss:: -- --nocapture
	tests/logic.py --all --binary $(BINARY)
	$(MAKE) clients

clients: build
	@tools/setup test
	tests/clients/run --binary $(BINARY) $(ARGS)

differ: build
	@tools/setup test
	tests/differ.py --binary $(BINARY) --seconds $(DIFFER_SECONDS) --seed $(SEED) --most 100

fuzz:
	@tools/setup fuzz
	tests/fuzz.py --seconds 60 --seed $(SEED) $(ARGS)

bench-build: build
	@tools/setup bench
	cargo build --release --locked --manifest-path bench/baseline/Cargo.toml \
	  --target-dir $(TARGET)/baseline
bench: bench-build
	bench/run --dir $(BENCH_DIR) --redolith $(BINARY) --baseline $(BASELINE) full
bench-quick: bench-build
	bench/run --dir $(BENCH_DIR) --redolith $(BINARY) --baseline $(BASELINE) quick
bench-counting: build
	@tools/setup bench
	bench/counting

bench-instructions:
	@tools/setup instructions
	bench/instructions $(ARGS)

lab-quick: build
	@tools/setup bench
	$(BINARY) lab redo --quick --peer=mariadb
	$(BINARY) lab writers --quick --peer=mariadb
	$(BINARY) lab binlog --quick --peer=mariadb
	$(BINARY) lab doublewrite --quick --peer=mariadb
	$(BINARY) lab insert --quick --peer=mariadb

# RocksDB: `bundled` (the newest, compiled here), `system` (the distribution's) or `none`.
engines-features-system := --features rocksdb-system
engines-features-bundled := --features rocksdb
engines-env-system = ROCKSDB_LIB_DIR=$$(pkg-config --variable=libdir rocksdb) \
  ROCKSDB_VERSION=$$(pkg-config --modversion rocksdb)
bench-engines:
	@tools/setup engines-$(ROCKSDB)
	$(engines-env-$(ROCKSDB)) cargo build --release --locked $(engines-features-$(ROCKSDB)) \
	  --manifest-path bench/peers/Cargo.toml --target-dir $(TARGET)/peers
	$(TARGET)/peers/release/redolith-peers --dir $(BENCH_DIR) $(ARGS)

clean-data:
	rm -rf $(DATA)
