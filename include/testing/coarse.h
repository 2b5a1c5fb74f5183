// SPDX-License-Identifier: Apache-2.0
// For tests that hold kernels to numbers which are exact: it is not installed.
#ifndef QKVET_INCLUDE_TESTING_COARSE_H_
#define QKVET_INCLUDE_TESTING_COARSE_H_

#include <cstdint>

#include "qkvet/precision.h"

// Whether an arithmetic of f32 is declared to be farther off than `fine`, or
// to round on the way; as far as these knobs say it.
inline bool is_coarse(const qkvet_precision& p, double fine,
                      uint64_t knobs = ~uint64_t{0}) {
  const auto declares = [&](uint64_t knob) {
    return (p.declared & knobs & knob) != 0;
  };
  return (declares(QKVET_KNOB_EXP_ERROR) && p.exp_error > fine) ||
         (declares(QKVET_KNOB_TANH_ERROR) &&
          (p.tanh_error > fine || p.tanh_floor > fine)) ||
         (declares(QKVET_KNOB_LOG_ERROR) && p.log_error > fine) ||
         (declares(QKVET_KNOB_SCORE_DTYPE) && p.score_dtype.bits != 0) ||
         (declares(QKVET_KNOB_OPERAND_DTYPE) && p.operand_dtype.bits != 0) ||
         (declares(QKVET_KNOB_LSE_DTYPE) && p.lse_dtype.bits != 0) ||
         (declares(QKVET_KNOB_SINK_DTYPE) && p.sink_dtype.bits != 0) ||
         (declares(QKVET_KNOB_DOT_SUM_DTYPE) && p.dot_sum_dtype.bits != 0) ||
         (declares(QKVET_KNOB_VALUE_SUM_DTYPE) &&
          p.value_sum_dtype.bits != 0) ||
         (declares(QKVET_KNOB_SOFTMAX_DTYPE) && p.softmax_dtype.bits != 0);
}

#endif  // QKVET_INCLUDE_TESTING_COARSE_H_
