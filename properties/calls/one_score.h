// SPDX-License-Identifier: Apache-2.0
// One channel of q and of one key is nonzero, so every score is 0 except one,
// which is t. The output in a channel that is 1 only at that key is
//   w = e^t / (e^t + n - 1),
// from which the score that the kernel really used follows:
//   t = ln w - ln(1 - w) + ln(n - 1).
#ifndef QKVET_PROPERTIES_CALLS_ONE_SCORE_H_
#define QKVET_PROPERTIES_CALLS_ONE_SCORE_H_

#include <optional>
#include <vector>

#include "properties/judging/law.h"

namespace qkvet::properties {

// A case for such data: some row sees two keys, and the scale is not 0.
Case with_one_score(Case value);

// One call with data that `edit` puts there, and with its truth.
Plan plan_one_score(const Case& value, InputEdit edit);

// The data. `product` is that of q with the one key, which is key 0 of every
// head; it is in a channel that the seed picks.
void put_one_score(const Case& value, double product, Inputs& inputs);

// w of every row, in every channel of o.
std::vector<double> weights_of_one_score(const Case& value, double score);

// t of the row that sees the most keys; nullopt if no score gives its output.
std::optional<double> score_seen(const JudgeInput& input);

// Whether the score gives every element of o, within its bound and the rounding
// of a measured score, and the right score gives none of the elements in which
// the two differ.
bool gives_all(const JudgeInput& input, double score, double right);
// Whether rows see different numbers of keys. A score can be fitted to one
// number; two numbers check it.
bool has_two_numbers(const Case& value);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CALLS_ONE_SCORE_H_
