// SPDX-License-Identifier: Apache-2.0
// What wrong weights say about where they went wrong: weights that a kernel
// returned, or those that an output of one-hot values is.
#ifndef QKVET_DIAGNOSIS_INSTEAD_WEIGHTS_ROW_H_
#define QKVET_DIAGNOSIS_INSTEAD_WEIGHTS_ROW_H_

#include <vector>

#include "diagnosis/instead/wrong_answer.h"

namespace qkvet::diagnosis {

enum class RowOfWeights : uint8_t {
  kNothing,      // or not all rows say the same
  kOtherKeys,    // hidden keys have weight or visible ones none, in proportion
  kOneMissing,   // of an output: a key has none, all others are right
  kImpossible,   // one of them is negative or infinite
  kOtherSum,     // the sum is not 1
  kOtherScores,  // a sum of 1, of visible keys alone, and not in proportion
};

// What all wrong rows say, of outputs or of weights that were returned.
RowOfWeights said_of_rows(const std::vector<const WrongAnswer*>& answers,
                          bool of_output);
RowOfWeights said_of_rows(const std::vector<WrongAnswer>& answers,
                          bool of_output);

// Of outputs for V = 1, which lack weight: whether keys of score 0 and value 0
// have it, a whole number of them in each row.
bool are_keys_of_score_zero(const std::vector<WrongAnswer>& of_ones,
                            bool lse_in_base2);

// Of outputs of one-hot values: whether the weights of some keys in a row, one
// behind the other, are all the same factor too large, and others are another
// one: rescaled as they were added up, tile by tile.
bool are_rescaled_by_tiles(const std::vector<WrongAnswer>& shown);

// Of outputs of one-hot values: whether most have a row that is no multiple of
// the right weights of any row of the answer.
bool are_of_no_row(const std::vector<WrongAnswer>& shown);

// Of the same calls with one-hot values and with those of the next key in each
// channel: whether what stands in a channel goes with the key, so that a
// product with V was made, or stays, so that V was not looked at. What is done
// to channels afterwards does neither.
bool are_of_keys(const std::vector<WrongAnswer>& shown,
                 const std::vector<WrongAnswer>& of_next_keys);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_INSTEAD_WEIGHTS_ROW_H_
