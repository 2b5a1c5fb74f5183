// SPDX-License-Identifier: Apache-2.0
// Comparing outputs, element by element. Every comparison is written so that
// NaN fails.
#ifndef QKVET_PROPERTIES_JUDGING_COMPARE_H_
#define QKVET_PROPERTIES_JUDGING_COMPARE_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "properties/judging/outputs.h"

namespace qkvet::properties {

// Shortest text that distinguishes the number from its neighbours in `dtype`.
std::string number_text(double value, Dtype dtype);

// Whether both are NaN, or the same number; +0 is -0.
bool equal_numbers(double a, double b);

// One number against [truth - bound, truth + bound], rounded to its storage
// type. `reach`: the largest change by any choice of inputs; 0: unknown. A
// finding without a place, or nullopt if the number is right or outdone. Adds
// to `judgement`.
struct Bounded {
  double actual = 0, truth = 0, bound = 0, reach = 0;
  Dtype dtype = Dtype::kF32;
  bool before_rounding = false;  // the last rounding is no part of the bound
  Spot at = {};
};
std::optional<Finding> compare_with_bound(const Bounded& number,
                                          Judgement& judgement);

// A number that must be exactly `expected` (+0 and -0 are equal).
std::optional<Finding> compare_exactly(double actual, double expected,
                                       Dtype dtype, Judgement& judgement);

// Judges one output against the oracle, whatever the operation: accepts y
// exactly if RN(o - B) <= y <= RN(o + B), rounded to the storage type. Rows
// without a visible key are judged by the kernel's dialect, and elements that
// do not count not at all. Adds to `judgement`.
void compare_with_truth(const JudgeInput& input, const CallView& call,
                        TensorName tensor, Judgement& judgement);
// The same of every output that the call returned: of all gradients, and of
// others up to the first that is wrong. Users ask about a wrong o; lse and
// weights only explain it.
void compare_with_truth(const JudgeInput& input, const CallView& call,
                        Judgement& judgement);
// The same with a truth that the law computes itself.
void compare_with_truth(const JudgeInput& input, const CallView& call,
                        TensorName tensor, const TensorTruth& truth,
                        Judgement& judgement);

// The same for o, with a right answer that the law provides itself: only the
// bound is the reference's, so that a mistake in the oracle cannot hide.
void compare_with_known(const JudgeInput& input, const CallView& call,
                        std::vector<double> known, Judgement& judgement);

// The same for lse, natural.
void compare_lse_with_known(const JudgeInput& input, const CallView& call,
                            std::vector<double> known, Judgement& judgement);

// Requires exactly the expected number (+0 and -0 are equal) of every element
// of an output for which there is one.
using Expected = std::function<std::optional<double>(const Element& at)>;
void compare_exactly(const JudgeInput& input, const CallView& call,
                     TensorName tensor, const Expected& expected,
                     Judgement& judgement, const char* looks = "");
// Requires 0 of these elements.
void compare_with_zero(const JudgeInput& input, const CallView& call,
                       Outputs tensors,
                       const std::function<bool(const Element& at)>& is_zero,
                       const char* looks, Judgement& judgement);

// One number that was computed in two ways, each within its own bound and its
// own rounding to storage.
struct TwoWays {
  double first = 0, second = 0;
  double bounds = 0;  // of both, added
  double reach = 0;   // largest change by any choice of keys; 0: unknown
  Dtype dtype = Dtype::kF32;
  const char* first_name = "";  // "in the whole call"
  const char* second_name = "";
  Spot at = {};
};
// The largest distance between the two. NaN and infinities add nothing to it:
// no number is near them.
double allowed_difference(double first, double second, double bounds,
                          Dtype dtype);
// A finding without a place, or nullopt. Adds to `judgement`. If both are NaN
// they do not differ, and nothing was compared: the laws about the oracle find
// such a NaN.
std::optional<Finding> compare_two_ways(const TwoWays& pair,
                                        Judgement& judgement);

// An element of one output and one of another, or of the same, that must be
// equal: each within its own bound.
std::optional<Finding> compare_two_ways(const CallOutput& first, size_t n,
                                        const char* first_name,
                                        const CallOutput& second, size_t m,
                                        const char* second_name, Spot at,
                                        Judgement& judgement);

// Which of the law's calls it is; -1: none of them.
int32_t number_of_call(const JudgeInput& input, const CallView& call);

// A ratio that belongs to no single number, such as that of a sum.
void keep_ratio(Judgement& judgement, double ratio);
// Adds the numbers of comparisons of a part, and keeps the nearer of both.
void add_counts(Judgement& judgement, const Judgement& part);

// Adds what a part of a law has found.
void add_judgement(const Judgement& part, Judgement& judgement);

// Keeps the finding with the largest ratio; the first among equals.
void add_failure(Judgement& judgement, Finding finding);

// Whether a finding of this ratio would be dropped. If so, it is only counted
// as a failure, without a text, which costs more than the comparison if
// everything is wrong.
bool note_if_outdone(Judgement& judgement, double ratio);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_JUDGING_COMPARE_H_
