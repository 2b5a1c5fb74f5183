// SPDX-License-Identifier: Apache-2.0
// The same call with one thing read differently: an edit of its problem, which
// the oracle then computes.
#ifndef QKVET_DIAGNOSIS_INSTEAD_READING_H_
#define QKVET_DIAGNOSIS_INSTEAD_READING_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "diagnosis/evidence/cause.h"
#include "diagnosis/instead/description.h"

namespace qkvet::diagnosis {

// The storage of edited problems.
class Room {
 public:
  Room() = default;
  explicit Room(const Case& value)
      : page(value.paging.size), block(value.listed.block) {}

  template <class T>
  const T* keep(std::vector<T> values) {
    auto kept = std::make_shared<std::vector<T>>(std::move(values));
    kept_.push_back(kept);
    return kept->data();
  }
  // A copy, with each number replaced by `of` it.
  template <class T, class Of>
  const T* changed(const T* from, int64_t n, Of of) {
    std::vector<T> out(from, from + n);
    for (T& value : out) value = of(value);
    return keep(std::move(out));
  }
  // Scores that were computed here round like those of the call.
  bool has_own_scores = false;
  int64_t page = 0;   // tokens of a page; 0: there are none
  int64_t block = 1;  // keys of an entry of a list

 private:
  std::vector<std::shared_ptr<void>> kept_;
};

// Leaves the problem unchanged if there is nothing to edit.
using Edit = std::function<void(Problem& problem, Room& room)>;

// A computation of a wrong kernel: the description of its numbers, and perhaps
// a cause.
struct OtherReading {
  std::string text;  // "the result without the mask"
  Stage stage;
  Edit edit;
  Cause cause = {};  // without a name: a description alone
};
using Readings = std::vector<OtherReading>;

// Every computation instead of attention that is known, the simplest first: for
// symptoms, for causes, and for kernels with unknown conventions.
Readings readings_of_attention(const KernelInfo& kernel);

// The case with the truth of the edited problem. All must outlive it.
CaseWork work_as(const Edit& edit, Room& room, const Law& law,
                 const Case& value, TimeUse& time);

// The oracle's result for the edited problem: o with lse and the weights, or
// lse.
std::optional<Predicted> read_as(const Edit& edit, const JudgedKernel& kernel,
                                 TimeUse& time, const WrongAnswer& answer,
                                 const WrongOutput& output);

// by_formula.cpp: q and k after their rotation.
void turn_first(Problem& problem, Room& room);

// readings_of_scores.cpp: a number of the call times a factor; a bias that
// hides a key stays infinite.
void turn_scale(Problem& problem, double factor);
void turn_bias(Problem& problem, Room& room, double factor);
void turn_slopes(Problem& problem, Room& room, double factor);

// The scales that may be mistaken for the right one.
struct OtherScale {
  const char* text;
  double (*of)(const Problem& problem);
};
std::span<const OtherScale> other_scales();

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
