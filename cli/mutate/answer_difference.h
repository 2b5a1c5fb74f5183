// SPDX-License-Identifier: Apache-2.0
// The distance between the answers of two kernels to one call.
#ifndef QKVET_CLI_MUTATE_ANSWER_DIFFERENCE_H_
#define QKVET_CLI_MUTATE_ANSWER_DIFFERENCE_H_

#include "properties/checking/case_work.h"

namespace qkvet::cli {

// The storage types of the tensors of a call.
struct CallTypes {
  Dtype o = Dtype::kF32, q = Dtype::kF32, kv = Dtype::kF32;
};

// Over the elements with a finite bound other than 0: the largest difference in
// units of the bound, and the same in units of the last place.
struct AnswerDifference {
  double bounds = 0;
  double ulps = 0;
};

// Every output, lengths of caches included; times and sizes apart.
bool same_bits(const CallOutcome& a, const CallOutcome& b);

AnswerDifference difference_of(const CallOutcome& own, const CallOutcome& right,
                               const CallBounds& bounds,
                               const CallTypes& types);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_MUTATE_ANSWER_DIFFERENCE_H_
