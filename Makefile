# Sluice: one file, no recursion.
#
#   make            build/sluice and build/libsluice.a, optimised
#   make demo       what a newcomer types first: packages, build, three answers
#   make check      packages, build, every test; ends with "N passed, N failed"
#   make V=asan test   any tier in a variant: rel dbg asan tsan small cov
#   make help       the rest
#
# Each variant has its own directory under build/, so flags never mix and
# nothing needs cleaning in between.

V       ?= rel
B       := build/$(V)
OUT     := $(if $(filter rel,$(V)),build,$(B))
PREFIX  ?= /usr/local
INSTALL ?= install
VERSION := $(shell cat VERSION)
ARCH    := $(shell $(CC) -dumpmachine | cut -d- -f1)

# The libraries of the build. `make deps` installs what is missing.
PKGS   := jansson libpcre2-8 libutf8proc hwloc libedit
PKG_OK := $(shell pkg-config --exists $(PKGS) 2>/dev/null && echo 1)
LDLIBS := $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lm -pthread

# Every optional flag is tried once; an old compiler only loses a warning.
try = $(shell $(CC) -Werror $(1) -x c -c /dev/null -o /dev/null 2>/dev/null \
        && echo '$(1)')

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes \
        -Wmissing-prototypes -Wundef -Wvla -Walloca -Wformat=2 -Wcast-qual \
        -Wwrite-strings -Wpointer-arith -Wdouble-promotion \
        $(call try,-Wnull-dereference) $(call try,-Wimplicit-fallthrough)
HARD := -fstack-protector-strong $(call try,-fstack-clash-protection) \
        $(call try,-fcf-protection) $(call try,-ftrivial-auto-var-init=zero)
# Contraction would let the compiler change the bits of the reference kernels.
MATH := -ffp-contract=off -fno-math-errno

CFLAGS.rel   := -O2 -g -D_FORTIFY_SOURCE=2 $(HARD)
CFLAGS.dbg   := -O0 -g -DSL_DEBUG=1
CFLAGS.asan  := -O1 -g -DSL_DEBUG=1 -fno-omit-frame-pointer \
                -fsanitize=address,undefined -fno-sanitize-recover=all
CFLAGS.tsan  := -O1 -g -DSL_DEBUG=1 -fsanitize=thread
CFLAGS.small := -O1 -g -DSL_DEBUG=1 -DSL_SMALL=1
CFLAGS.cov   := -O0 -g -DSL_DEBUG=1 --coverage
LDFLAGS.rel  := -Wl,-z,relro,-z,now -Wl,-z,noexecstack

ALL_CFLAGS  := -std=c11 -D_GNU_SOURCE -Isrc -Iinclude -fvisibility=hidden \
               -fPIC -MMD -MP -DSL_VERSION='"$(VERSION)"' $(WARN) \
               $(if $(WERROR),-Werror) \
               $(shell pkg-config --cflags $(PKGS) 2>/dev/null) \
               $(MATH) $(CFLAGS.$(V)) $(CFLAGS)
# gcc proves some 3-byte reads of NULL in glibc headers only under sanitizers.
ifneq ($(filter asan tsan,$(V)),)
ALL_CFLAGS += $(call try,-Wno-null-dereference) $(call try,-Wno-tsan)
endif
ALL_LDFLAGS := $(CFLAGS.$(V)) $(LDFLAGS.$(V)) $(LDFLAGS)

LAYERS  := base kern kern/ref ops file text model state sample engine
LIB_SRC := $(foreach d,$(LAYERS),$(wildcard src/$(d)/*.c))
ifeq ($(ARCH),x86_64)
LIB_SRC += $(wildcard src/kern/x86/*.c)
else ifeq ($(ARCH),aarch64)
LIB_SRC += $(wildcard src/kern/arm/*.c)
endif
PROG_SRC := $(wildcard src/cli/*.c)
KERN_SRC := $(wildcard tests/kern/*.c)
# Every other file of these folders is a program of its own.
UNIT_SRC := $(wildcard tests/unit/*.c)
PROP_SRC := $(wildcard tests/prop/*.c)
FUZZ_SRC := $(filter-out tests/fuzz/replay.c,$(wildcard tests/fuzz/*.c))
HELP_SRC := $(wildcard tests/golden/*.c) $(wildcard tests/help/*.c)
obj = $(patsubst %.c,$(B)/%.o,$(1))
bin = $(patsubst %.c,$(B)/%,$(1))
TESTS := $(call bin,$(UNIT_SRC) $(PROP_SRC)) \
         $(if $(KERN_SRC),$(B)/kerncheck) \
         $(patsubst tests/fuzz/%.c,$(B)/replay/%,$(FUZZ_SRC))

# Only files named after a feature may use it: everything else has to run on
# the oldest machine. -O3 for kernels: they are what it was made for.
$(B)/src/kern/%.o:            ISA := -O3
$(B)/src/kern/x86/%_avx2.o:   ISA := -O3 -mavx2 -mfma -mf16c
ifneq ($(filter dbg asan tsan cov,$(V)),)
$(B)/src/kern/%.o:            ISA :=
$(B)/src/kern/x86/%_avx2.o:   ISA := -mavx2 -mfma -mf16c
endif

.DEFAULT_GOAL := all
.PHONY: all demo test check check-full fuzz layers symbols headers deps \
        deps-check deps-dev fmt lint install uninstall clean help
all: $(OUT)/sluice $(OUT)/libsluice.a ## the program and the library

ifneq ($(PKG_OK),1)
$(B)/%.o: | missing
missing:
	@echo "Libraries are missing; 'make deps' installs them." >&2; exit 1
.PHONY: missing
endif

$(OUT)/libsluice.a: $(call obj,$(LIB_SRC))
	@rm -f $@
	$(AR) rcs $@ $^

$(OUT)/sluice: $(call obj,$(PROG_SRC)) $(OUT)/libsluice.a
	$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LDLIBS)

$(B)/%.o: %.c Makefile VERSION
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(ISA) -c -o $@ $<

$(B)/tests/%: $(B)/tests/%.o $(call obj,$(HELP_SRC)) $(OUT)/libsluice.a
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS)

$(B)/kerncheck: $(call obj,$(KERN_SRC)) $(OUT)/libsluice.a
	$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LDLIBS)

$(B)/replay/%: $(B)/tests/fuzz/%.o $(B)/tests/fuzz/replay.o $(OUT)/libsluice.a
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LDLIBS)

test: all layers symbols headers $(TESTS) ## everything below a minute
	scripts/run-tests --quick --build $(B) --out $(OUT)

check: deps deps-check ## all tests; within 15 minutes on two cores
	$(MAKE) WERROR=1 all
	scripts/check

check-full: deps deps-check deps-dev ## sanitizers and whole matrices; an hour
	$(MAKE) WERROR=1 all
	scripts/check --full

tests: all $(TESTS) # built, not run

demo: deps ## build, then let the embedded model answer three prompts
	@$(MAKE) -s all
	@scripts/demo

layers: ## who may include whom
	scripts/check-layers src

symbols: $(OUT)/libsluice.a ## no global symbol without the prefix
	@nm -A -g --defined-only $< | awk '$$NF !~ /^_?sl_/ && NF > 2 \
	    {print; bad=1} END {exit bad}'

headers: ## every header compiles alone
	@for h in $$(find src include -name '*.h'); do \
	    case $$h in */banned.h|*_tmpl.h|*_avx2.h|*_neon.h) continue;; esac; \
	    echo "#include \"$${h#*/}\"" | sed 's,"include/,",' | \
	    $(CC) $(filter-out -MMD -MP,$(ALL_CFLAGS)) -fsyntax-only -x c - \
	    || exit 1; done

# make fuzz F=safetensors T=60
fuzz: ## search with libFuzzer: make fuzz F=target T=seconds
	$(MAKE) V=fuzz CC=clang build/fuzz/$(F)
	mkdir -p build/fuzz/corpus/$(F)
	build/fuzz/$(F) -max_total_time=$(or $(T),60) -timeout=10 \
	    -rss_limit_mb=2048 build/fuzz/corpus/$(F) tests/fuzz/corpus/$(F)
CFLAGS.fuzz := -O1 -g -DSL_DEBUG=1 -fsanitize=fuzzer-no-link,address,undefined \
               -fno-sanitize-recover=all
build/fuzz/%: $(B)/tests/fuzz/%.o $(OUT)/libsluice.a
	$(CC) $(ALL_LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(LDLIBS)

deps: ## install the libraries of the build
	@scripts/deps build
deps-check: ## install what the tests need
	@scripts/deps check
deps-dev: ## install what developers need
	@scripts/deps dev

fmt: ## format every C file
	clang-format -i $$(git ls-files '*.[ch]')

clean: ## remove build/
	rm -rf build

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) \
	    | expand -t 24

.SECONDARY:
-include $(patsubst %.o,%.d,$(call obj,$(LIB_SRC) $(PROG_SRC) $(KERN_SRC) \
    $(UNIT_SRC) $(PROP_SRC) $(FUZZ_SRC) $(HELP_SRC)))
