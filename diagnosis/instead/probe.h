// SPDX-License-Identifier: Apache-2.0
// Runs failing cases again with one thing changed: the results show which stage
// of the computation is wrong.
#ifndef QKVET_DIAGNOSIS_INSTEAD_PROBE_H_
#define QKVET_DIAGNOSIS_INSTEAD_PROBE_H_

#include "diagnosis/instead/wrong_answer.h"

namespace qkvet::diagnosis {

// All of so many results must agree; no more are needed.
inline constexpr size_t kFewestProbed = 3;
inline constexpr size_t kMostProbed = 6;

enum class Came : uint8_t { kUnknown, kRight, kWrong };

struct Probed {
  Came came = Came::kUnknown;
  std::optional<WrongAnswer> answer = {};  // of kWrong

  bool is_right() const { return came == Came::kRight; }
  bool is_wrong() const { return came == Came::kWrong; }
  bool is_known() const { return came != Came::kUnknown; }
};

// Whether agreement holds: for attention, whether o is right, with finite
// numbers in unwritten memory; for others, whether all outputs are. kUnknown:
// the call was not judged, or did not end with numbers.
Probed probed(const Case& value, Witness& witness);

struct ProbedCounts {
  size_t right = 0, wrong = 0, unknown = 0;
  std::vector<WrongAnswer> answers;

  void add(Probed one) {
    ++(one.is_right() ? right : one.is_wrong() ? wrong : unknown);
    if (one.is_wrong()) answers.push_back(std::move(*one.answer));
  }
  bool are_right() const { return wrong == 0 && right >= kFewestProbed; }
  bool are_wrong() const { return right == 0 && wrong >= kFewestProbed; }
  // The same, and more than the results that are not known.
  bool are_all_right() const { return are_right() && unknown < right; }
  bool are_all_wrong() const { return are_wrong() && unknown < wrong; }
};

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_INSTEAD_PROBE_H_
