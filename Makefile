# Each target gets ready what it needs; `make demo` and `make test` work on a fresh Debian with Python 3.11 or newer.
SHELL := /bin/bash
PYTHON := .venv/bin/python
PACKAGES := hadoop_rpc rm_proxy policies sidecar quicksilver tests

.PHONY: demo test test-all test-fast check mutants fmt gridmix spark bench-relay bench-las bench-resize bench-policies bench-scale bench-mercury bench-mixes bench-trace bench-recovery bench-zoe bench-zoe-figure1 bench-zoe-spark bench-spark faults fuzz docker-images docker-demo setup-docker protos lock wheels clean setup setup-test setup-test-all setup-spark packages docs lab-docs

setup:
	@scripts/setup run

setup-test:
	@scripts/setup test

setup-test-all: setup-spark
	@scripts/setup test-all

demo: setup ## short jobs beside a long one, on plain YARN and through quicksilver, with a picture
	@$(PYTHON) -m quicksilver demo

test: setup-test ## what needs no cluster, then what quicksilver promises on real ones; about ten minutes
	@scripts/test

test-fast: setup-test ## the first step of `make test`
	@scripts/test --only units

test-all: setup-test-all ## all tests: with databases, Docker, browsers, packages, campaigns of faults and benchmarks
	@scripts/test --all

check: setup ## lint, types and import contracts
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports

mutants: setup ## a sample of mutations of policies/, and those that no test detects
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-mutants.lock
	@$(PYTHON) scripts/mutants $(ARGS)

fmt: setup
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

docker-images: setup setup-docker ## images of proxy, sidecar, Hadoop, PostgreSQL and Prometheus for the Docker daemon that runs
	@$(PYTHON) -m quicksilver_lab.workloads.containers images $(ARGS)

docker-demo: setup setup-docker ## a cluster of these images on this host, and jobs in it: make docker-demo ARGS=--keep
	@$(PYTHON) -m quicksilver_lab.workloads.containers demo $(ARGS)

setup-docker: setup
	@scripts/setup docker

gridmix: setup ## one Rumen trace in GridMix without and with quicksilver: make gridmix ARGS="--trace FILE"
	@$(PYTHON) -m quicksilver_lab.workloads.gridmix $(ARGS)

spark: setup-spark ## an unmodified PySpark job with its executors as queueable containers
	@$(PYTHON) -m quicksilver_lab.workloads.spark $(ARGS)

setup-spark: setup
	@scripts/setup spark

bench-relay: setup ## empty allocates direct and through the proxy
	@$(PYTHON) -m quicksilver_lab.bench.relay $(ARGS)

bench-las: setup ## jobs of five classes on one node: FIFO, opportunistic containers, least attained service
	@$(PYTHON) -m quicksilver_lab.bench.las $(ARGS)

bench-resize: setup ## what resizing a container costs, and a sidecar with 200 of them
	@$(PYTHON) -m quicksilver_lab.bench.resize $(ARGS)

bench-mercury: setup ## Mercury's experiments on an emulated cluster: stock YARN, tuned, its own opportunistic containers, quicksilver
	@$(PYTHON) -m quicksilver_lab.bench.experiment mercury $(ARGS)

bench-mixes: setup ## real mixes of jobs: the default against stock YARN's best settings, with a bound beside each
	@$(PYTHON) -m quicksilver_lab.bench.experiment mixes $(ARGS)

bench-trace: setup ## a trace of jobs on an emulated cluster: make bench-trace ARGS="--trace FILE"
	@$(PYTHON) -m quicksilver_lab.bench.experiment trace $(ARGS)

bench-scale: setup ## what the proxy costs with up to 1,000 emulated nodes and 2,000 masters, beside a real ResourceManager
	@$(PYTHON) -m quicksilver_lab.bench.scale $(ARGS)

bench-policies: setup ## each policy alone and all together, under a virtual clock
	@$(PYTHON) -m quicksilver_lab.bench.policies $(ARGS)

bench-recovery: setup ## how long applications notice a SIGKILL of the proxy or of a sidecar
	@$(PYTHON) -m quicksilver_lab.bench.recovery $(ARGS)

bench-zoe: setup ## Zoe's applications on ten emulated servers: flexible against rigid admission and stock YARN
	@$(PYTHON) -m quicksilver_lab.bench.zoe $(ARGS)

bench-zoe-figure1: setup ## Figure 1 of Zoe's paper, live on a local cluster of ten units
	@$(PYTHON) -m quicksilver_lab.bench.zoe.figure1 $(ARGS)

bench-zoe-spark: setup-spark ## four unmodified PySpark applications that start together, on stock YARN and admitted whole
	@$(PYTHON) -m quicksilver_lab.bench.zoe.spark $(ARGS)

bench-spark: setup-spark ## PySpark with dynamic allocation beside a long job: Fair Scheduler, preset default, executors as Qs
	@$(PYTHON) -m quicksilver_lab.frameworks.spark_beside $(ARGS)

faults: setup-test-all ## daemons killed, connections cut and slowed while real jobs run
	@$(PYTHON) -m quicksilver_lab.workloads.faults $(ARGS)

fuzz: setup ## malformed bytes for the wire protocol, both relays, the tracker's, and the three servers of REST
	@$(PYTHON) -m quicksilver_lab.bench.fuzz $(ARGS)

protos: setup ## generate hadoop_rpc/protos/*_pb2.py and .pyi anew
	$(PYTHON) -m grpc_tools.protoc -I. --python_out=. --mypy_out=. hadoop_rpc/protos/*.proto
	.venv/bin/ruff format hadoop_rpc/protos

EXTRAS := --extra avro --extra commands --extra docker --extra postgres --extra proxy # what packages, archive and images have
LOCK := .venv/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-emit-package yarn-quicksilver --no-emit-package yarn-quicksilver-apps
lock: setup ## resolve all dependencies anew: development, what a node installs (with its SBOM), mutation tests, PySpark
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --upgrade uv
	$(LOCK) --upgrade --group dev --extra otel --extra parquet $(EXTRAS) pyproject.toml apps/pyproject.toml lab/pyproject.toml -o requirements-dev.lock
	$(LOCK) -c requirements-dev.lock $(EXTRAS) pyproject.toml apps/pyproject.toml -o requirements.lock
	$(LOCK) -c requirements-dev.lock --group dev --group mutants --extra otel --extra parquet $(EXTRAS) pyproject.toml apps/pyproject.toml lab/pyproject.toml -o requirements-mutants.lock
	$(LOCK) --extra spark lab/pyproject.toml -o requirements-spark.lock
	$(LOCK) --group sbom -o requirements-sbom.lock
	$(LOCK) --group setup -o requirements-setup.lock
	$(PYTHON) scripts/sbom

docs: setup ## the documentation as a site, in quicksilver/site: part of the package, served by the proxy
	@$(PYTHON) scripts/site.py

lab-docs: setup ## the pages for who studies quicksilver as a site, in build/lab-site
	@$(PYTHON) scripts/site.py --lab

wheels: setup docs ## dist/: yarn-quicksilver, -apps with described applications, -lab with local clusters, workloads and measurements
	$(PYTHON) -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist . ./apps ./lab

packages: setup-test-all ## dist/: .deb, .rpm and an archive with all Python packages inside, for air-gapped hosts: make packages ARGS="--arch x86_64"
	@$(PYTHON) -m deploy.packages.build $(ARGS)

clean: ## remove what builds and runs left here; running local clusters are stopped first
	@for state in run/*/cluster.json; do \
	  [ ! -e "$$state" ] || $(PYTHON) -m quicksilver cluster stop --dir "$$(dirname "$$state")" || exit 1; \
	done
	rm -rf build dist run quicksilver/site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .venv .venv-spark *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
