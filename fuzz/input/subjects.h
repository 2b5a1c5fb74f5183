// SPDX-License-Identifier: Apache-2.0
// How cases of each subject are changed and cut down: a row each.
#ifndef QKVET_FUZZ_INPUT_SUBJECTS_H_
#define QKVET_FUZZ_INPUT_SUBJECTS_H_

#include <array>
#include <cstdint>
#include <span>

#include "properties/cases/draw.h"

namespace qkvet::fuzz {

// A part that two cases can swap. If a piece does not fit the rest, the nearest
// legal case is taken.
using Piece = void (*)(const Case& from, Case& to);

struct FuzzedSubject {
  Subject subject;
  std::span<const Piece> pieces;        // beside those of all cases
  std::span<const TensorName> tensors;  // single values of these are set
  // Reduces the case until it is judged in a moment.
  void (*trim)(Case& value, int64_t most_work);
  bool has_options = false;  // each is also a piece (case_options.h)
  std::array<Recipe Case::*, 3> recipes = {&Case::q, &Case::k, &Case::v};
  bool one_preset = true;    // recipes that belong together (draw_data())
  int64_t least_extent = 1;  // of members, rows and keys
  // T, Tq or the capacity.
  int64_t& (*rows)(Case&) = [](Case& value) -> int64_t& {
    return value.shape.Tq;
  };
  bool has_model_width = false;  // D
  // Changes properties that only cases of this subject have; null: there are
  // none.
  void (*change_own)(Case& value, Draw& draw) = nullptr;
};

const FuzzedSubject& fuzzed_subject(const Case& value);

// Not below `least`.
void change_number(int64_t& number, int64_t least, Draw& draw);

}  // namespace qkvet::fuzz

#endif  // QKVET_FUZZ_INPUT_SUBJECTS_H_
