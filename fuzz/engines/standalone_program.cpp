// SPDX-License-Identifier: Apache-2.0
// The part that differs between standalone programs, compiled for each:
// QKVET_FUZZ_TARGET_NAME is its target as in targets.cpp, QKVET_FUZZ_FAMILIES
// are its families as QKVET_LINKED(name) QKVET_LINKED(name).
#include "fuzz/engines/standalone.h"

#ifndef QKVET_FUZZ_TARGET_NAME
#error "QKVET_FUZZ_TARGET_NAME is the name of a fuzz target"
#endif
#ifndef QKVET_FUZZ_FAMILIES
#define QKVET_FUZZ_FAMILIES
#endif

#define QKVET_LINKED(name)                                                  \
  extern "C" qkvet_status qkvet_open_##name(const qkvet_host*, const char*, \
                                            qkvet_library*, qkvet_text*);
QKVET_FUZZ_FAMILIES
#undef QKVET_LINKED

#define QKVET_JOINED(a, b) a##b
#define QKVET_TARGET(name) QKVET_JOINED(fuzz_, name)

namespace qkvet::fuzz {

extern const FuzzTarget QKVET_TARGET(QKVET_FUZZ_TARGET_NAME);

namespace {

// The end is there for targets without kernels: an array has an element.
#define QKVET_LINKED(name) {#name, qkvet_open_##name},
constexpr LinkedFamily kFamilies[] = {QKVET_FUZZ_FAMILIES{nullptr, nullptr}};
#undef QKVET_LINKED

}  // namespace

extern constinit const StandaloneProgram kStandaloneProgram = {
    QKVET_TARGET(QKVET_FUZZ_TARGET_NAME),
    {kFamilies, std::size(kFamilies) - 1}};

}  // namespace qkvet::fuzz
