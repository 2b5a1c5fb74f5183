// SPDX-License-Identifier: Apache-2.0
// The same call with one thing read differently: an edit of its problem, which
// the oracle then computes.
#ifndef QKVET_DIAGNOSIS_INSTEAD_READING_H_
#define QKVET_DIAGNOSIS_INSTEAD_READING_H_

#include <functional>
#include <string>
#include <vector>

#include "diagnosis/instead/description.h"

namespace qkvet::diagnosis {

// The storage of edited problems.
class Room {
 public:
  const double* keep(std::vector<double> values) {
    numbers_.push_back(std::move(values));
    return numbers_.back().data();
  }
  const uint8_t* keep(std::vector<uint8_t> values) {
    masks_.push_back(std::move(values));
    return masks_.back().data();
  }
  const int64_t* keep(std::vector<int64_t> values) {
    lengths_.push_back(std::move(values));
    return lengths_.back().data();
  }
  const int32_t* keep(std::vector<int32_t> values) {
    lists_.push_back(std::move(values));
    return lists_.back().data();
  }
  // Scores that were computed here round like those of the call.
  bool has_own_scores = false;
  int64_t page = 0;  // tokens of a page; 0: there are none

 private:
  std::vector<std::vector<double>> numbers_;
  std::vector<std::vector<uint8_t>> masks_;
  std::vector<std::vector<int64_t>> lengths_;
  std::vector<std::vector<int32_t>> lists_;
};

// Leaves the problem unchanged if there is nothing to edit.
using Edit = std::function<void(Problem& problem, Room& room)>;

struct OtherReading {
  std::string text;
  Stage stage;
  Edit edit;
};
using Readings = std::vector<OtherReading>;

// The oracle's result for the edited problem: o with lse and the weights, or
// lse.
std::optional<Predicted> read_as(const Edit& edit, const JudgedKernel& kernel,
                                 TimeUse& time, const WrongAnswer& answer,
                                 const WrongOutput& output);

// by_formula.cpp: q and k after their rotation.
void turn_first(Problem& problem, Room& room);

// readings_of_*.cpp
void add_readings_of_scores(Readings& rows);
void add_readings_of_keys(Readings& rows);
// Those of them that only remove keys or add them with their usual weight.
void add_readings_of_key_sets(Readings& rows);
void add_readings_of_places(Readings& rows);
void add_readings_of_merges(Readings& rows);
// For masks given as a few numbers, if the kernel declares them.
void add_readings_of_fields(const KernelInfo& kernel, Readings& rows);
// Every row sees every key.
Edit seeing_every_key();
// by_formula.cpp: scores that are another function of q k, bias and slopes.
void add_formulas(Readings& rows);
// by_stride.cpp: a tensor read at the address that another stride gives.
void add_strides(const JudgedKernel& kernel, TimeUse& time,
                 std::vector<Description>& out);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_INSTEAD_READING_H_
