// SPDX-License-Identifier: Apache-2.0
// The functions that a library calls if it was compiled for a fuzzing engine
// (-fsanitize=fuzzer-no-link). A worker has no engine, but must load such a
// library to shrink and explain the engine's findings. Names and types: clang's
// "SanitizerCoverage" and libFuzzer's FuzzerTracePC.
#include <cstdint>

#define QKVET_STUB extern "C" __attribute__((visibility("default"), used))

// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {
__attribute__((visibility("default"),
               used)) thread_local uintptr_t __sancov_lowest_stack = 0;
}
QKVET_STUB void __sanitizer_cov_8bit_counters_init(uint8_t*, uint8_t*) {}
QKVET_STUB void __sanitizer_cov_bool_flag_init(bool*, bool*) {}
QKVET_STUB void __sanitizer_cov_pcs_init(const uintptr_t*, const uintptr_t*) {}
QKVET_STUB void __sanitizer_cov_trace_pc_guard(uint32_t*) {}
QKVET_STUB void __sanitizer_cov_trace_pc_guard_init(uint32_t*, uint32_t*) {}
QKVET_STUB void __sanitizer_cov_trace_pc_indir(uintptr_t) {}
QKVET_STUB void __sanitizer_cov_trace_cmp1(uint8_t, uint8_t) {}
QKVET_STUB void __sanitizer_cov_trace_cmp2(uint16_t, uint16_t) {}
QKVET_STUB void __sanitizer_cov_trace_cmp4(uint32_t, uint32_t) {}
QKVET_STUB void __sanitizer_cov_trace_cmp8(uint64_t, uint64_t) {}
QKVET_STUB void __sanitizer_cov_trace_const_cmp1(uint8_t, uint8_t) {}
QKVET_STUB void __sanitizer_cov_trace_const_cmp2(uint16_t, uint16_t) {}
QKVET_STUB void __sanitizer_cov_trace_const_cmp4(uint32_t, uint32_t) {}
QKVET_STUB void __sanitizer_cov_trace_const_cmp8(uint64_t, uint64_t) {}
QKVET_STUB void __sanitizer_cov_trace_switch(uint64_t, uint64_t*) {}
QKVET_STUB void __sanitizer_cov_trace_div4(uint32_t) {}
QKVET_STUB void __sanitizer_cov_trace_div8(uint64_t) {}
QKVET_STUB void __sanitizer_cov_trace_gep(uintptr_t) {}
// NOLINTEND(bugprone-reserved-identifier)
