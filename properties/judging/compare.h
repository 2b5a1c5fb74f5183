// SPDX-License-Identifier: Apache-2.0
// Comparing outputs, element by element. Every comparison is written so that
// NaN fails.
#ifndef QKVET_PROPERTIES_JUDGING_COMPARE_H_
#define QKVET_PROPERTIES_JUDGING_COMPARE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "properties/judging/law.h"

namespace qkvet::properties {

// A packed output as doubles; f64, f32, f16 or bf16.
std::vector<double> as_doubles(const std::vector<std::byte>& bytes,
                               Dtype dtype);
// The storage type of lse where o is stored as `o`.
Dtype lse_dtype(Dtype o);

// "o[b=0,h=1,i=2,c=3]" for the n-th element of a packed output.
std::string element_name(TensorName tensor, const Shape& shape, int64_t n);

// Shortest text that distinguishes the number from its neighbours in `dtype`.
std::string number_text(double value, Dtype dtype);

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

// Judges one output against the oracle: accepts y exactly if
// RN(o - B) <= y <= RN(o + B), rounded to the storage type. Rows without a
// visible key are judged by the kernel's dialect. Adds to `judgement`.
void compare_with_truth(const JudgeInput& input, const CallView& call,
                        TensorName tensor, Judgement& judgement);

// The same for o, with a right answer that the law provides itself: only the
// bound is the reference's, so that a mistake in the oracle cannot hide.
void compare_with_known(const JudgeInput& input, const CallView& call,
                        std::vector<double> known, Judgement& judgement);

// The same for lse, natural.
void compare_lse_with_known(const JudgeInput& input, const CallView& call,
                            std::vector<double> known, Judgement& judgement);

// Records an element that must be exactly zero (+0 or -0).
void compare_with_zero(TensorName tensor, const Shape& shape, int64_t n,
                       double actual, Dtype dtype, Judgement& judgement);

// The weights of row n of [B,H,Tq], added up, which must be 1 within the bound.
// Infinite: scores overflow on the way, and the weights may be anything,
// including NaN.
void compare_sum_with_one(const Shape& shape, int64_t n, double sum,
                          double bound, Judgement& judgement);

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

// Which of the law's calls it is; -1: none of them.
int32_t number_of_call(const JudgeInput& input, const CallView& call);

// A ratio that belongs to no single number, such as that of a sum.
void keep_ratio(Judgement& judgement, double ratio);
// Keeps the nearer of the two.
void keep_nearest(Judgement& judgement, const Judgement& other);

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
