// SPDX-License-Identifier: Apache-2.0
// libFuzzer as a library in the ordinary program: no instrumentation is needed,
// the counters of the guide are its only signal, beside the coverage of
// plug-ins that were built for it.
#include "fuzz/engines/engine.h"

extern "C" int LLVMFuzzerRunDriver(int* argc, char*** argv,
                                   int (*run)(const uint8_t*, size_t));

namespace qkvet::fuzz {
namespace {

int run_one(const uint8_t* data, size_t size) {
  engine_hooks().run({data, size});
  return 0;
}

}  // namespace

bool has_engine() { return true; }

int run_engine(int argc, char** argv) {
  return LLVMFuzzerRunDriver(&argc, &argv, run_one);
}

}  // namespace qkvet::fuzz
