// SPDX-License-Identifier: Apache-2.0
// What wrong numbers may be instead of the right ones, and the stage of the
// computation at which that is decided.
#ifndef QKVET_DIAGNOSIS_INSTEAD_DESCRIPTION_H_
#define QKVET_DIAGNOSIS_INSTEAD_DESCRIPTION_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "diagnosis/instead/wrong_answer.h"

namespace qkvet::diagnosis {

// In the order in which a row is computed.
enum class Stage : uint8_t {
  kUnknown,
  kScores,   // q k^T, scale, rotation, cap, up to the exponential of each
  kBias,     // what is added to the scores
  kKeys,     // which keys a row sees
  kSoftmax,  // maximum, exponentials and their sum
  kValues,   // the product of weights and V
  kOutput,   // where and as what the result is stored
  kLse,
  kEmptyRows,  // rows that see no key, which are a case of their own
  // Of caches.
  kWritten,   // a token's place, as it is appended or looked up
  kMoved,     // tokens that a later command moves or takes away
  kRead,      // which of them a query attends over
  kAttended,  // the attention over them
  // Of layers.
  kProjectQ,
  kProjectK,
  kProjectV,
  kInLayer,  // the attention between the projections
  kProjectOut,
  // Of merges, whose lse is kLse.
  kMergeWeights,
  kMergeMaximum,
  // Of gradients; which keys a row sees is kKeys.
  kGradientWeights,  // P, computed once more
  kGradientDP,
  kGradientDelta,
  kGradientScores,  // dS of these
  kGradientDQ,
  kGradientDK,
  kGradientDV,
  kGradientHeads,  // what dk and dv add up over
  kGradientDBias,
  kGradientDSink
};
// "scores": what JSON calls it; "" for kUnknown.
const char* stage_name(Stage stage);
// "the scores: q k^T, its scale, ..."
const char* stage_text(Stage stage);

struct Predicted {
  std::vector<double> values;  // of the whole output, packed
  std::vector<double> bounds;  // of the same, as far as anybody knows
  // Beside o: what lse and the weights are then; empty if that is left open.
  std::vector<double> lse = {}, lse_bounds = {};
  std::vector<double> weights = {}, weights_bounds = {};
};

// One way to be wrong. `predict` says nothing of an answer that cannot be wrong
// in this way; it is called for answers that live as long as the description.
struct Description {
  std::string text;  // "the right value times sqrt(d)"
  Stage stage = Stage::kUnknown;
  std::function<std::optional<Predicted>(const WrongAnswer& answer,
                                         const WrongOutput& output)>
      predict;
  // NaN is predicted where nobody knows what stands there: anything may come.
  bool leaves_open = false;
  bool nan_is_said = false;  // but of what nobody writes
  // Whether the answer tells it from simpler ones, as an exchange of two axes
  // is told where both are longer than 1. Null: every answer does.
  std::function<bool(const WrongAnswer& answer)> is_told_by = nullptr;
  // What else would be the same in some answers, a bit each, and what of that
  // an answer tells it from: one answer is enough.
  unsigned alternatives = 0;
  std::function<unsigned(const WrongAnswer& answer)> told_from = nullptr;
};

// The right numbers, moved, scaled or without a term: of an output. The first
// is the simplest.
std::vector<Description> descriptions_by_number(TensorName output);
// The numbers of the same call, read otherwise: o and lse of what attends or
// merges.
std::vector<Description> descriptions_by_reading(const JudgedKernel& kernel,
                                                 TimeUse& time,
                                                 Subject subject);

// by_stride.cpp: of o, lse and the weights, written to the address that another
// stride gives.
void add_strides_of_writing(TensorName output, const JudgedKernel& kernel,
                            std::vector<Description>& out);

// by_dropout.cpp: o with the mask that the answer shows, and its bound; nothing
// where it is not derived. And o with other masks and factors.
std::optional<Predicted> right_with_dropout(const WrongAnswer& answer,
                                            const JudgedKernel& kernel);
std::vector<Description> descriptions_of_dropout(const JudgedKernel& kernel);

// by_formula.cpp: of o, rows that are weighed by scores; of lse, the logarithm
// of their sum.
void add_scores_as_weights(TensorName output, std::vector<Description>& out);

// The share of a row's largest exponential: of its scores and of its sink.
double largest_share(const WrongAnswer& answer, int64_t row);

// How many wrong elements have a number that it says, are NaN as it says, and
// are numbers where it says nothing.
struct LeftOpen {
  size_t known = 0, nan = 0, open = 0;
};

// Whether all wrong elements are what it says, and of a wrong o the rest of the
// answer, too.
bool fits(const Description& description, const WrongAnswer& answer,
          const WrongOutput& output, LeftOpen* left_open = nullptr);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_INSTEAD_DESCRIPTION_H_
