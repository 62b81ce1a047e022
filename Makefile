# Each target installs by itself what it needs (tools/setup says how), so that a fresh Debian machine with Rust,
# Python and gcc can start with any of them.

CARGO ?= cargo
FUZZ_SECONDS ?= 30
SOAK_MINUTES ?= 10

.PHONY: help demo build wheel test lint bench fuzz soak

help:
	@echo "make demo    see Fodder work: three epochs over slow storage, with and without it, and a training run"
	@echo "make build   the release binary, target/release/fodder"
	@echo "make wheel   the Python package with the binary in it, python/dist/*.whl"
	@echo "make test    formatting, clippy and all tests"
	@echo "make lint    formatting and clippy"
	@echo "make bench   every benchmark, each a ratio against a peer in one run"
	@echo "make soak    a node and a mount under load for SOAK_MINUTES ($(SOAK_MINUTES)) minutes; nothing may grow"
	@echo "make fuzz    every fuzz target for FUZZ_SECONDS ($(FUZZ_SECONDS)) seconds"

demo:
	@tools/setup
	@$(CARGO) run --quiet --release --locked --package fodder -- demo
	@tools/demo-training

build:
	@tools/setup
	$(CARGO) build --release --locked --package fodder --features all-origins

wheel:
	@tools/setup --venv --deb gcc=cc
	@tools/wheel

test:
	@tools/setup --rust fmt --rust clippy --venv --deb fuse3=fusermount3 --deb fio=fio --deb rsync=rsync \
		--deb etcd-server=etcd --deb iproute2=ip --deb munge=/usr/sbin/munged --deb slurmctld=/usr/sbin/slurmctld \
		--deb slurmd=/usr/sbin/slurmd --deb slurm-client=/usr/bin/srun --deb openssl=openssl
	@tools/torch
	@tools/frameworks
	@tools/test

lint:
	@tools/setup --rust fmt --rust clippy
	$(CARGO) fmt --all --check
	$(CARGO) lint

bench:
	@tools/setup --venv --deb redis-server=redis-server --deb fuse3=fusermount3 --deb rclone=rclone --deb s3fs=s3fs --deb iperf3=iperf3 --deb iproute2=ip
	@tools/torch
	@tools/mountpoint
	PYO3_BUILD_EXTENSION_MODULE=1 $(CARGO) build --release --locked --package fodder --package fodder-bench \
		--package fodder-python
	target/release/fodder-bench all

fuzz:
	@tools/setup
	@tools/fuzz $(FUZZ_SECONDS)

soak:
	@tools/setup --deb fuse3=fusermount3
	SOAK_MINUTES=$(SOAK_MINUTES) $(CARGO) test --release --locked --package fodder --test e2e soak -- --ignored --nocapture
