# Each target installs by itself what it needs (tools/setup says how), so that a fresh Debian machine with Rust,
# Python and gcc can start with any of them.

CARGO ?= cargo
FUZZ_SECONDS ?= 30

.PHONY: help demo build wheel test lint bench fuzz

help:
	@echo "make demo    see Fodder work: three epochs over slow storage, with and without it"
	@echo "make build   the release binary, target/release/fodder"
	@echo "make wheel   the Python package with the binary in it, python/dist/*.whl"
	@echo "make test    formatting, clippy and all tests"
	@echo "make lint    formatting and clippy"
	@echo "make bench   every benchmark, each a ratio against a peer in one run"
	@echo "make fuzz    every fuzz target for FUZZ_SECONDS ($(FUZZ_SECONDS)) seconds"

demo:
	@tools/setup
	@$(CARGO) run --quiet --release --locked --package fodder -- demo

build:
	@tools/setup
	$(CARGO) build --release --locked --package fodder --features all-origins

wheel:
	@tools/setup --venv --deb gcc=cc
	@tools/wheel

test:
	@tools/setup --rust fmt --rust clippy --venv --deb fuse3=fusermount3
	@tools/torch
	@tools/test

lint:
	@tools/setup --rust fmt --rust clippy
	$(CARGO) fmt --all --check
	$(CARGO) lint

bench:
	@tools/setup --venv --deb redis-server=redis-server
	$(CARGO) run --release --locked --package fodder-bench -- all

fuzz:
	@tools/setup
	@tools/fuzz $(FUZZ_SECONDS)
