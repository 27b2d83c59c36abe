# Sluice: one file, no recursion.
#
#   make            build/sluice and build/libsluice.a, optimised
#   make demo       what a newcomer types first: packages, build, three answers
#   make check      packages, build, every test; ends with "N passed, N failed"
#   make V=asan test   in a variant: rel dbg asan tsan small cov fuzz arm64
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
ifeq ($(V),arm64)
# The library alone: make V=arm64 build/arm64/libsluice.a. Headers of other
# libraries are the host's, behind those of the cross compiler; to link a
# program needs the libraries of that machine.
CC      := aarch64-linux-gnu-gcc
endif
# The library's binary interface: it changes with the first two numbers.
SOVERSION := $(word 1,$(subst ., ,$(VERSION))).$(word 2,$(subst ., ,$(VERSION)))
ARCH    := $(shell $(CC) -dumpmachine | cut -d- -f1)

# The libraries of the build. `make deps` installs what is missing.
PKGS   := jansson libpcre2-8 libutf8proc hwloc libcrypto
PROG   := libedit # of the program alone
NET    := libevent_core libevent_openssl libssl libcrypto libcurl # of server and bundle
PKG_OK := $(shell pkg-config --exists $(PKGS) $(PROG) $(NET) 2>/dev/null && echo 1)
LDLIBS := $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lm -pthread
# http_parser has no file for pkg-config.
NET_LDLIBS := $(shell pkg-config --libs $(NET) 2>/dev/null) -lhttp_parser
PROG_LDLIBS := $(shell pkg-config --libs $(PROG) 2>/dev/null)

# One line per file, or the whole command with VERBOSE=1.
say = $(if $(VERBOSE),,@echo '  $(1)  $(patsubst build/%,%,$(2))';)

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
CFLAGS.arm64 := -O2 -g -idirafter /usr/include \
                -idirafter /usr/include/$(shell uname -m)-linux-gnu
CFLAGS.small := -O1 -g -DSL_DEBUG=1 -DSL_SMALL=1
CFLAGS.cov   := -O0 -g -DSL_DEBUG=1 --coverage
CFLAGS.fuzz  := -O1 -g -DSL_DEBUG=1 -fno-sanitize-recover=all \
                -fsanitize=fuzzer-no-link,address,undefined
LDFLAGS.rel  := -Wl,-z,relro,-z,now -Wl,-z,noexecstack

ALL_CFLAGS  := -std=c11 -D_GNU_SOURCE -Isrc -Iinclude -fvisibility=hidden \
               -fPIC -MMD -MP -DSL_VERSION='"$(VERSION)"' -DSL_FLAGS='"$(V): $(strip $(CFLAGS.$(V)) $(CFLAGS))"' $(WARN) \
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
SERV_SRC := $(wildcard src/server/*.c)
BUND_SRC := $(wildcard src/bundle/*.c)
KERN_SRC := $(wildcard tests/kern/*.c)
# Every other file of these folders is a program of its own.
UNIT_SRC := $(wildcard tests/unit/*.c)
PROP_SRC := $(wildcard tests/prop/*.c)
FUZZ_SRC := $(filter-out tests/fuzz/replay.c,$(wildcard tests/fuzz/*.c))
HELP_SRC := $(wildcard tests/golden/*.c) $(wildcard tests/help/*.c)
obj = $(patsubst %.c,$(B)/%.o,$(1))
bin = $(patsubst %.c,$(B)/%,$(1))
TESTS := $(call bin,$(UNIT_SRC) $(PROP_SRC)) \
         $(B)/kerncheck $(if $(filter x86_64rel,$(ARCH)$(V)),$(B)/kerncheck-simde \
             $(B)/kerncheck-arm) \
         $(patsubst tests/fuzz/%.c,$(B)/replay/%,$(FUZZ_SRC))

# Only files named after a feature may use it: everything else has to run on
# the oldest machine. -O3 for kernels: they are what it was made for.
$(B)/src/kern/%.o:            ISA := -O3
# Zeroing arrays that live in registers costs attention 47 us instead of 31
# for four queries and one block.
NO_INIT := $(call try,-ftrivial-auto-var-init=uninitialized)
$(B)/src/kern/x86/%_avx2.o:   ISA := -O3 -mavx2 -mfma -mf16c $(NO_INIT)
$(B)/src/kern/arm/%_dotprod.o: ISA := -O3 -march=armv8.2-a+dotprod
$(B)/src/kern/arm/%_i8mm.o:    ISA := -O3 -march=armv8.2-a+dotprod+i8mm
# Below -O2 gcc leaves the upper halves of registers in use, and everything that
# is compiled for the oldest machine runs many times slower behind that.
CLEAN      := $(call try,-fexpensive-optimizations)
ISA_VNNI   := -mavx2 -mfma -mf16c -mavxvnni
ISA_AVX512 := -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512vnni
$(B)/src/kern/x86/%_vnni.o:   ISA := -O3 $(ISA_VNNI) $(NO_INIT)
$(B)/src/kern/x86/%_avx512.o: ISA := -O3 $(ISA_AVX512) $(NO_INIT)
# The test of small sizes runs them where a machine has them; no need for speed.
ifeq ($(V),small)
$(B)/src/kern/x86/%_vnni.o:   ISA := -Og $(CLEAN) $(ISA_VNNI)
$(B)/src/kern/x86/%_avx512.o: ISA := -Og $(CLEAN) $(ISA_AVX512)
endif
ifneq ($(filter dbg asan tsan cov,$(V)),)
$(B)/src/kern/%.o:            ISA :=
$(B)/src/kern/x86/%_avx2.o:   ISA := $(CLEAN) -mavx2 -mfma -mf16c
# Operands that must be constants are, once functions are inlined.
$(B)/src/kern/x86/%_vnni.o:   ISA := -O1 $(CLEAN) $(ISA_VNNI)
$(B)/src/kern/x86/%_avx512.o: ISA := -O1 $(CLEAN) $(ISA_AVX512)
endif
ifeq ($(V),fuzz)
# No fuzzer is after these.
$(B)/src/kern/x86/%_avx2.o $(B)/src/kern/x86/%_vnni.o \
$(B)/src/kern/x86/%_avx512.o: ISA += -O1 -fno-sanitize=all
endif
ifeq ($(V),asan)
# Unrolled kernels take the undefined-behaviour pass minutes a file. The scalar
# contracts keep it, and bits are compared with them.
$(B)/src/kern/x86/%_avx2.o $(B)/src/kern/x86/%_vnni.o \
$(B)/src/kern/x86/%_avx512.o: ISA += -fno-sanitize=undefined
endif
ifneq ($(filter asan tsan,$(V)),)
# It takes the address pass more than ten minutes. The buffers of its tester lie
# between guard pages.
$(B)/src/kern/x86/quant_mul_avx512.o: ISA += -fno-sanitize=all
endif

.DEFAULT_GOAL := all
.PHONY: all demo test tests list-tests check check-full fuzz layers symbols \
        headers exports counts counts-write load manuals deps deps-check deps-dev fmt lint tidy analyze \
        install uninstall clean help
all: $(OUT)/sluice $(OUT)/libsluice.a ## the program and the library

ifneq ($(PKG_OK),1)
$(B)/%.o: | missing
missing:
	@echo "Libraries are missing; 'make deps' installs them." >&2; exit 1
.PHONY: missing
endif

$(OUT)/libsluice.a: $(call obj,$(LIB_SRC))
	@rm -f $@
	$(call say,ar  ,$@)$(AR) rcs $@ $^

# The server and the bundles are linked by the program and its tests; a program
# that embeds the engine needs neither them nor their libraries.
# The page is in the program.
PAGE := $(foreach x,html css js,page_$(x)=src/server/page/page.$(x))
$(B)/page.c: scripts/embed $(wildcard src/server/page/*)
	@mkdir -p $(@D)
	$(call say,gen ,$@)scripts/embed $(PAGE) > $@.part && mv $@.part $@
$(B)/page.o: $(B)/page.c
	$(call say,cc  ,$@)$(CC) $(ALL_CFLAGS) -c -o $@ $<

$(B)/server.a: $(call obj,$(SERV_SRC)) $(B)/page.o
	@rm -f $@
	$(call say,ar  ,$@)$(AR) rcs $@ $^

$(B)/bundle.a: $(call obj,$(BUND_SRC))
	@rm -f $@
	$(call say,ar  ,$@)$(AR) rcs $@ $^

# Only what is marked SL_API can be seen from outside.
SO := libsluice.so.$(VERSION)
$(OUT)/$(SO): $(call obj,$(LIB_SRC))
	$(call say,link,$@)$(CC) -shared -Wl,-soname,libsluice.so.$(SOVERSION) $(ALL_LDFLAGS) \
	    -o $@ $^ $(LDLIBS)

$(OUT)/sluice: $(call obj,$(PROG_SRC)) $(B)/server.a $(B)/bundle.a $(OUT)/libsluice.a
	$(call say,link,$@)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(PROG_LDLIBS) $(NET_LDLIBS) $(LDLIBS)

# The example of the manual is compiled as a stranger would.
$(OUT)/minimal: doc/examples/minimal.c $(OUT)/libsluice.a
	$(call say,link,$@)$(CC) -std=c11 -Wall -Wextra -Iinclude $(CFLAGS.$(V)) $(CFLAGS) \
	    $(ALL_LDFLAGS) -o $@ $^ $(LDLIBS)

$(B)/%.o: %.c Makefile VERSION
	@mkdir -p $(@D)
	$(call say,cc  ,$@)$(CC) $(ALL_CFLAGS) $(ISA) -c -o $@ $<

$(B)/tests/%: $(B)/tests/%.o $(call obj,$(HELP_SRC)) $(B)/server.a $(B)/bundle.a $(OUT)/libsluice.a
	$(call say,link,$@)$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcmocka $(NET_LDLIBS) $(LDLIBS)

$(B)/kerncheck: $(call obj,$(KERN_SRC)) $(OUT)/libsluice.a
	$(call say,link,$@)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LDLIBS)

# The levels that this machine may lack, compiled for AVX2 with SIMDe.
SIMDE_SRC := $(filter-out %/peak_vnni.c %/peak_avx512.c,\
                 $(wildcard src/kern/x86/*_vnni.c src/kern/x86/*_avx512.c))
SIMDE_OBJ := $(patsubst %.c,$(B)/simde/%.o,$(SIMDE_SRC) tests/kern/main.c)
$(B)/simde/src/%.o: src/%.c tests/kern/simde.h Makefile
	@mkdir -p $(@D)
	$(call say,simd,$@)$(CC) $(filter-out -W%,$(ALL_CFLAGS)) -O1 $(CLEAN) \
	    -mavx2 -mfma -mf16c -g0 -w -Wno-psabi -include tests/kern/simde.h -c -o $@ $<
$(B)/simde/tests/%.o: tests/%.c Makefile
	@mkdir -p $(@D)
	$(call say,cc  ,$@)$(CC) $(ALL_CFLAGS) -DSL_SIMDE=1 -c -o $@ $<
# Objects before the library: its own of these files are not taken then.
$(B)/kerncheck-simde: $(SIMDE_OBJ) $(filter-out %/main.o,$(call obj,$(KERN_SRC))) \
                      $(OUT)/libsluice.a
	$(call say,link,$@)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LDLIBS)

# The kernels of ARM and their tester, linked statically: qemu-user runs it.
CROSS   := aarch64-linux-gnu-gcc
ARM_SRC := $(wildcard src/kern/*.c src/kern/ref/*.c src/kern/arm/*.c) \
           $(addprefix src/base/,base.c dtype.c err.c mem.c num.c \
             plain.c) $(KERN_SRC)
ARM_OBJ := $(patsubst %.c,$(B)/aarch64/%.o,$(ARM_SRC))
# -O1 compiles fast; the bits do not depend on it.
$(B)/aarch64/%_dotprod.o: ISA := -march=armv8.2-a+dotprod
$(B)/aarch64/%_i8mm.o:    ISA := -march=armv8.2-a+dotprod+i8mm
$(B)/aarch64/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(call say,arm ,$@)$(CROSS) $(filter-out -W% $(HARD),$(ALL_CFLAGS)) -O1 -Wall \
	    -Wextra -Wconversion $(if $(WERROR),-Werror) -g0 $(ISA) -c -o $@ $<
$(B)/kerncheck-arm: $(ARM_OBJ)
	$(call say,link,$@)$(CROSS) -static -o $@ $^ -lm -pthread

$(B)/replay/%: $(B)/tests/fuzz/%.o $(B)/tests/fuzz/replay.o $(B)/server.a $(B)/bundle.a $(OUT)/libsluice.a
	@mkdir -p $(@D)
	$(call say,link,$@)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(NET_LDLIBS) $(LDLIBS)

test: ## everything below a minute; in a variant with V=
	@scripts/check --quick $(V)

check: deps deps-check ## all tests; within 15 minutes on two cores
	@scripts/check

check-full: deps deps-check deps-dev ## sanitizers and whole matrices; an hour
	@scripts/check --full

EXAMPLES := $(if $(wildcard doc/examples/minimal.c),$(OUT)/minimal)
tests: all $(TESTS) $(EXAMPLES) # built, not run
list-tests:
	@printf '%s\n' $(TESTS)

demo: deps ## build, then let the embedded model answer three prompts
	@$(MAKE) -s $(if $(filter -j%,$(MAKEFLAGS)),,-j$$(getconf \
	    _NPROCESSORS_ONLN)) all
	@scripts/demo

layers: ## who may include whom
	scripts/check-layers src

symbols: $(OUT)/libsluice.a $(B)/server.a $(B)/bundle.a ## no global symbol without the prefix
	@nm -A -g --defined-only $^ | awk '$$NF !~ /^_?sl_/ && NF > 2 \
	    {print; bad=1} END {exit bad}'

headers: ## every header compiles alone
	@for h in $$(find src include -name '*.h'); do \
	    case $$h in */banned.h|*_tmpl.h|*_avx2.h|*_vnni.h|*_avx512.h|*_neon.h|*/simde.h) continue;; esac; \
	    echo "#include \"$${h#*/}\"" | sed 's,"include/,",' | \
	    $(CC) $(filter-out -MMD -MP,$(ALL_CFLAGS)) -fsyntax-only -x c - \
	    || exit 1; done

exports: $(OUT)/$(SO) ## the shared library shows doc/symbols.txt, no more
	@nm -D --defined-only $< | sed 's/.* //' | LC_ALL=C sort | \
	    diff doc/symbols.txt -

# Instructions do not depend on how busy the machine is.
counts: $(B)/tests/bench/layers ## instructions of each layer are as committed
	@scripts/counts $< "$(CC)"
counts-write: $(B)/tests/bench/layers ## after a change that is meant
	@scripts/counts $< "$(CC)" --write

# Times are no test: this is run by hand, on a machine that does nothing else.
load: $(OUT)/sluice $(B)/tests/bench/callers ## a server under load beside its goals
	SLUICE=$(OUT)/sluice CALLERS=$(B)/tests/bench/callers tests/bench/load.py

# Every verb has a page, made from the option table.
PAGES := $(patsubst doc/man/%,%,$(wildcard doc/man/*.1))
manuals: $(OUT)/sluice ## doc/man and doc/completion are what the program says
	@scripts/manuals --check $<

# Found inputs stay in build/; what is worth keeping is copied to the corpus.
fuzz: ## search with libFuzzer: make fuzz F=safetensors T=60
	$(MAKE) V=fuzz CC=clang build/fuzz/fuzz_$(F)
	mkdir -p build/fuzz/corpus/$(F)
	build/fuzz/fuzz_$(F) -max_total_time=$(or $(T),60) -timeout=10 \
	    -rss_limit_mb=2048 build/fuzz/corpus/$(F) tests/fuzz/corpus/$(F)
build/fuzz/fuzz_%: $(B)/tests/fuzz/fuzz_%.o $(B)/server.a $(B)/bundle.a $(OUT)/libsluice.a
	$(call say,link,$@)$(CC) $(ALL_LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(NET_LDLIBS) $(LDLIBS)

deps: ## install the libraries of the build
	@scripts/deps build
deps-check: ## install what the tests need
	@scripts/deps check
deps-dev: ## install what developers need
	@scripts/deps dev

fmt: ## format every C file
	clang-format -i $$(git ls-files '*.[ch]')

lint: layers headers tidy analyze ## what a reviewer need not look for

# A short list of checks that we obey; rule Q12.
TIDY := -*,bugprone-*,-bugprone-easily-swappable-parameters,$\
        -bugprone-narrowing-conversions,-bugprone-reserved-identifier,$\
        -bugprone-implicit-widening-of-multiplication-result,$\
        -bugprone-assignment-in-if-condition,-bugprone-macro-parentheses,$\
        -bugprone-suspicious-string-compare
tidy: ## clang-tidy on the library and the program
	@clang-tidy --quiet --warnings-as-errors='*' --checks='$(TIDY)' \
	    $(LIB_SRC) $(SERV_SRC) $(BUND_SRC) $(PROG_SRC) -- -std=c11 -D_GNU_SOURCE -Isrc -Iinclude \
	    -DSL_VERSION='""' -DSL_FLAGS='""' $(if $(filter x86_64,$(ARCH)),-mavx2 -mfma -mf16c)

# gcc 12 does not see that sl_fail never returns 0, and so takes every output of
# a failed call for uninitialised; valgrind and the sanitizers watch that.
analyze: ## gcc's analyzer on what reads bytes from outside
	@for f in $(wildcard src/base/*.c src/file/*.c src/text/*.c \
	    src/server/*.c src/bundle/*.c src/cli/*.c); do \
	    $(CC) $(filter-out -MMD -MP,$(ALL_CFLAGS)) -O1 -fanalyzer -Werror \
	    -Wno-analyzer-use-of-uninitialized-value -c -o /dev/null $$f || exit 1; done

# The list that uninstall removes is the list that install wrote.
DIR_BIN := $(DESTDIR)$(PREFIX)/bin
DIR_LIB := $(DESTDIR)$(PREFIX)/lib
DIR_INC := $(DESTDIR)$(PREFIX)/include/sluice
DIR_MAN := $(DESTDIR)$(PREFIX)/share/man/man1
DIR_BASH := $(DESTDIR)$(PREFIX)/share/bash-completion/completions
DIR_ZSH := $(DESTDIR)$(PREFIX)/share/zsh/site-functions
DIR_DEMO := $(DESTDIR)$(PREFIX)/share/sluice/models/demo
HEADERS := $(notdir $(wildcard include/sluice/*.h))
DIR_BUNDLE := $(DESTDIR)$(PREFIX)/share/sluice/bundles/demo
DEMO    := $(notdir $(wildcard models/demo/*.json models/demo/*.safetensors \
           models/demo/*.jinja))

install: all $(OUT)/$(SO) ## DESTDIR= PREFIX=/usr/local
	$(INSTALL) -d $(DIR_BIN) $(DIR_LIB)/pkgconfig $(DIR_INC) $(DIR_MAN)
	$(INSTALL) -m 755 $(OUT)/sluice $(DIR_BIN)/sluice
	$(INSTALL) -m 644 $(OUT)/libsluice.a $(DIR_LIB)/libsluice.a
	$(INSTALL) -m 755 $(OUT)/$(SO) $(DIR_LIB)/$(SO)
	ln -sf $(SO) $(DIR_LIB)/libsluice.so.$(SOVERSION)
	ln -sf $(SO) $(DIR_LIB)/libsluice.so
	sed 's,@PREFIX@,$(PREFIX),; s,@VERSION@,$(VERSION),' sluice.pc.in \
	    > $(DIR_LIB)/pkgconfig/sluice.pc
	$(INSTALL) -m 644 $(addprefix include/sluice/,$(HEADERS)) $(DIR_INC)
	$(INSTALL) -m 644 $(addprefix doc/man/,$(PAGES)) $(DIR_MAN)
	$(INSTALL) -d $(DIR_BASH) $(DIR_ZSH)
	$(INSTALL) -m 644 doc/completion/sluice $(DIR_BASH)/sluice
	$(INSTALL) -m 644 doc/completion/_sluice $(DIR_ZSH)/_sluice
ifneq ($(DEMO),)
	$(INSTALL) -d $(DIR_DEMO)
	$(INSTALL) -m 644 $(addprefix models/demo/,$(DEMO)) $(DIR_DEMO)
	$(INSTALL) -d $(DIR_BUNDLE)
	$(INSTALL) -m 644 bundles/demo/bundle.json $(DIR_BUNDLE)
endif

uninstall: ## removes exactly what install wrote
	rm -f $(DIR_BIN)/sluice $(DIR_LIB)/libsluice.a \
	    $(addprefix $(DIR_LIB)/,$(SO) libsluice.so.$(SOVERSION) libsluice.so) \
	    $(DIR_LIB)/pkgconfig/sluice.pc $(addprefix $(DIR_INC)/,$(HEADERS)) \
	    $(DIR_BUNDLE)/bundle.json $(DIR_BASH)/sluice $(DIR_ZSH)/_sluice \
	    $(addprefix $(DIR_MAN)/,$(PAGES)) $(addprefix $(DIR_DEMO)/,$(DEMO))
	-rmdir $(DIR_BUNDLE) $(dir $(DIR_BUNDLE)) $(DIR_INC) $(DIR_DEMO) $(dir $(DIR_DEMO)) \
	    $(DESTDIR)$(PREFIX)/share/sluice 2>/dev/null

clean: ## remove build/
	rm -rf build

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) \
	    | expand -t 24

.SECONDARY:
-include $(patsubst %.o,%.d,$(call obj,$(LIB_SRC) $(SERV_SRC) $(BUND_SRC) $(PROG_SRC) $(KERN_SRC) \
    $(UNIT_SRC) $(PROP_SRC) $(FUZZ_SRC) $(HELP_SRC) $(wildcard tests/bench/*.c)))
