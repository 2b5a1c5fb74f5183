// SPDX-License-Identifier: Apache-2.0
// Classifies wrong weights by where they went wrong: weights that a kernel
// returned, or the output for one-hot values, which equals the weights.
#ifndef QKVET_DIAGNOSIS_INSTEAD_WEIGHTS_ROW_H_
#define QKVET_DIAGNOSIS_INSTEAD_WEIGHTS_ROW_H_

#include <vector>

#include "diagnosis/instead/wrong_answer.h"

namespace qkvet::diagnosis {

enum class RowOfWeights : uint8_t {
  kNothing,      // or rows differ in kind
  kOtherKeys,    // hidden keys have weight or visible ones none, in proportion
  kOneMissing,   // outputs only: a key has none, all others are right
  kImpossible,   // one of them is negative or infinite
  kOtherSum,     // the sum is not 1
  kOtherScores,  // a sum of 1, of visible keys alone, and not in proportion
};

// The kind that all wrong rows share, for outputs or for returned weights.
RowOfWeights said_of_rows(const std::vector<const WrongAnswer*>& answers,
                          bool of_output);
RowOfWeights said_of_rows(const std::vector<WrongAnswer>& answers,
                          bool of_output);

// For outputs with V = 1 and a sum below 1: whether keys of score 0 and value 0
// have the missing weight, a whole number of them in each row.
bool are_keys_of_score_zero(const std::vector<WrongAnswer>& of_ones,
                            bool lse_in_base2);

// For outputs of one-hot values: whether consecutive keys of a row have weights
// with the same factor, and other keys another one, as after rescaling tile by
// tile.
bool are_rescaled_by_tiles(const std::vector<WrongAnswer>& shown);

// For outputs of one-hot values: whether most have a row that is no multiple of
// the right weights of any row of the answer.
bool are_of_no_row(const std::vector<WrongAnswer>& shown);

// Compares the same calls with one-hot values and with those of the next key in
// each channel. True if channels follow the keys, so that a product with V was
// made, or if they stay, so that V was not read. A change of channels after the
// product does neither.
bool are_of_keys(const std::vector<WrongAnswer>& shown,
                 const std::vector<WrongAnswer>& of_next_keys);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_INSTEAD_WEIGHTS_ROW_H_
