# SPDX-License-Identifier: Apache-2.0
# The one door: every task of this project is a target here. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help build test demo model install wheel cuda bench-cpu docs check format tidy sanitize race fuzz soak clean

JOBS ?= $(shell nproc)
CCACHE := $(shell command -v ccache)
CONFIGURE = cmake --preset $(1) -DCMAKE_CXX_COMPILER_LAUNCHER=$(CCACHE) $(2) >/dev/null
STOF := build/release/stof
FETCHED_MODEL := .cache/models/all-MiniLM-L6-v2
MODEL ?= $(FETCHED_MODEL)
# Test processes share the cores: a waiting OpenMP thread sleeps instead of spinning.
CTEST = OMP_WAIT_POLICY=passive ctest --preset $(1) -j $(JOBS)

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install:  ## install what the build needs, as root, where anything is missing
	@tools/install.sh build

build: install  ## build the program, build/release/stof
	@echo "== build: build/release/stof, $(JOBS) jobs$(if $(CCACHE), with ccache)"
	@$(call CONFIGURE,release)
	@cmake --build --preset release -j $(JOBS) --target stof_cli

cuda: install  ## add the CUDA kernels to the program (fetches a CUDA compiler unless there is one; needs no GPU)
	@nvcc=$$(tools/install_cuda.sh) && echo "== cuda: with $$nvcc" && \
	$(call CONFIGURE,release,-DSTOF_CUDA=ON -DSTOF_NVCC="$$nvcc")
	@cmake --build --preset release -j $(JOBS)

wheel: build  ## pack the package for Python and what was built into a wheel, build/wheel/stof-*.whl (after `make cuda` with kernels for GPUs)
	@cmake --build --preset release -j $(JOBS) --target stof_c
	@tools/wheel.py build/release build/wheel

model: install  ## fetch the checkpoint all-MiniLM-L6-v2 (84 MB) unless it is there or MODEL=dir names another
	@if [ "$(MODEL)" = "$(FETCHED_MODEL)" ]; then tools/fetch_model.sh $(FETCHED_MODEL); \
	else echo "== model: $(MODEL), as given"; fi

test: build model  ## build and run every test
	@echo "== test: build and run every test, $(JOBS) at a time"
	@cmake --build --preset release -j $(JOBS)
	@$(call CTEST,release)

demo: build model  ## embed the sentences of data/, search them, and show what masks buy
	@echo "== demo: $(STOF) demo --model $(MODEL) --data data"
	@$(STOF) demo --model "$(MODEL)" --data data

# Every figure of docs/benchmarks.md for the CPU. RESUME=--resume goes on with what the files have; EACH=0.05 times a row
# for so many seconds, to try the whole.
PEERS_PYTHON ?= .cache/peers/venv/bin/python
RESULTS := bench/results/cpu
TIMED = $(RESUME) $(if $(EACH),--seconds $(EACH))
bench-cpu: build model  ## measure STOF and its peers on this CPU (minutes; fetches the peers, several GB), write docs/benchmarks.md
	@cmake --build --preset release -j $(JOBS) --target stof_cli stof_c bench_tokenizer
	@[ $(PEERS_PYTHON) != .cache/peers/venv/bin/python ] || bench/peers/install.sh
	@$(PEERS_PYTHON) bench/peers/attention_cpu.py --out $(RESULTS)-attention-peers.json $(TIMED)
	@$(PEERS_PYTHON) bench/peers/model_cpu.py --model $(MODEL) --out $(RESULTS)-model-peers.json $(TIMED)
	@$(PEERS_PYTHON) bench/peers/tokenizer_cpu.py --model $(MODEL) --out $(RESULTS)-tokenizer-peers.json
	@$(STOF) bench attention --device cpu --json $(RESULTS)-attention.json $(TIMED)
	@$(STOF) bench model --device cpu --model $(MODEL) --split --json $(RESULTS)-model.json $(TIMED)
	@bench/report.py $(RESULTS)-attention-peers.json --into docs/benchmarks.md --mark attention-cpu
	@bench/report.py $(RESULTS)-attention-peers.json --figure docs/figures/attention-cpu.svg
	@bench/report.py $(RESULTS)-model-peers.json --into docs/benchmarks.md --mark model-cpu
	@bench/report.py $(RESULTS)-tokenizer-peers.json --into docs/benchmarks.md --mark tokenizer-cpu
	@bench/report.py $(RESULTS)-attention.json --into docs/benchmarks.md --mark attention-own-cpu
	@bench/report.py $(RESULTS)-model.json --into docs/benchmarks.md --mark model-own-cpu
	@bench/split_table.py $(RESULTS)-model.json
	@bench/report.py $(RESULTS)-attention-peers.json $(RESULTS)-model-peers.json \
	  $(RESULTS)-tokenizer-peers.json $(RESULTS)-attention.json $(RESULTS)-model.json \
	  bench/results/h200-attention-peers.json bench/results/h200-attention-regret.json --html build/benchmarks.html
	@echo "== bench-cpu: docs/benchmarks.md, build/benchmarks.html"

docs: build  ## draw the masks of docs/masks.md again
	@tools/draw_masks.py $(STOF)

check:  ## check the source: layers, lengths, words, links, format
	@python3 tools/check_source.py
	@tools/format.sh --check

format:  ## format every C++ file in place
	@tools/format.sh

tidy: build  ## run clang-tidy on the files that change most (ALL=1: on every file)
	@tools/tidy.sh $(if $(ALL),all,20)

# clang's: GCC's take three times as long to compile. What failed runs once more, so that its output is the last thing
# printed; it has failed all the same.
sanitize: model  ## build and run every test under the address and undefined-behaviour sanitizers
	@tools/install.sh sanitize
	@echo "== sanitize: build/sanitize, $(JOBS) jobs$(if $(CCACHE), with ccache)"
	@$(call CONFIGURE,sanitize)
	@cmake --build --preset sanitize -j $(JOBS)
	@$(call CTEST,sanitize) || { echo "== sanitize: what failed, once more"; $(call CTEST,sanitize) --rerun-failed; false; }

# One OpenMP thread: the sanitizer does not know the barriers of OpenMP's library; threads of the tests are their own.
race: install  ## run what threads share (sessions, plans, the kernel cache) under the thread sanitizer
	@echo "== race: build/thread, $(JOBS) jobs$(if $(CCACHE), with ccache)"
	@$(call CONFIGURE,thread)
	@cmake --build --preset thread -j $(JOBS) --target threads_tests codegen_test
	@export OMP_NUM_THREADS=1 TSAN_OPTIONS=halt_on_error=1; \
	build/thread/tests/threads/threads_tests --gtest_brief=1 && \
	build/thread/tests/codegen/codegen_test --gtest_brief=1 --gtest_filter='KernelCache.*'

SECONDS ?= 60
fuzz:  ## feed the readers of files and masks broken input: SECONDS=60 each, with clang's libFuzzer
	@tools/install.sh sanitize
	@echo "== fuzz: build/fuzz, $(JOBS) jobs$(if $(CCACHE), with ccache)"
	@$(call CONFIGURE,fuzz)
	@cmake --build --preset fuzz -j $(JOBS)
	@tools/fuzz.sh $(SECONDS)

PROBLEMS ?= 10000
soak: build  ## try random attention problems against the definition: PROBLEMS=10000, at least that many
	@cmake --build --preset release -j $(JOBS) --target attention_soak
	@echo "== soak: $(PROBLEMS) problems, $(JOBS) at a time"
	@tools/soak.sh $(PROBLEMS) $(JOBS)

clean:  ## remove build/ (the fetched model in .cache/ stays)
	@rm -rf build
