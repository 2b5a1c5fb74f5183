// SPDX-License-Identifier: Apache-2.0
// Descriptions of wrong numbers, and the stage of the computation at which they
// go wrong.
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
  kOutput,   // place and type of the stored result
  kLse,
  kEmptyRows,  // rows without a visible key, which are a separate case
  // Stages of caches.
  kWritten,   // the place at which a token is appended or looked up
  kMoved,     // tokens that a later command moves or takes away
  kRead,      // which of them a query attends over
  kAttended,  // the attention over them
  // Stages of layers.
  kProjectQ,
  kProjectK,
  kProjectV,
  kInLayer,  // the attention between the projections
  kProjectOut,
  // Stages of merges; their lse is kLse.
  kMergeWeights,
  kMergeMaximum,
  // Stages of gradients; kKeys is the set of visible keys.
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
  std::vector<double> bounds;  // of each, as far as it is known
  // The lse and weights that go with this o; empty if they are left open.
  std::vector<double> lse = {}, lse_bounds = {};
  std::vector<double> weights = {}, weights_bounds = {};
};

// One way to be wrong. `predict` returns nullopt for an answer that cannot be
// wrong in this way; it is called for answers that live as long as the
// description.
struct Description {
  std::string text;  // "the right value times sqrt(d)"
  Stage stage = Stage::kUnknown;
  std::function<std::optional<Predicted>(const WrongAnswer& answer,
                                         const WrongOutput& output)>
      predict;
  // Predicted NaN means that the element is unknown: any number fits.
  bool leaves_open = false;
  // Whether the answer distinguishes it from simpler ones, as an exchange of
  // two axes needs both longer than 1. Null: every answer does.
  std::function<bool(const WrongAnswer& answer)> is_told_by = nullptr;
  // Other explanations that some answers would not exclude, a bit each, and
  // those that an answer excludes: one answer is enough.
  unsigned alternatives = 0;
  std::function<unsigned(const WrongAnswer& answer)> told_from = nullptr;
};

// The right numbers of an output, moved, scaled or without a term, the simplest
// first.
std::vector<Description> descriptions_by_number(TensorName output);
// The numbers of the same call under another reading: o and lse of attention
// and merges.
std::vector<Description> descriptions_by_reading(const JudgedKernel& kernel,
                                                 TimeUse& time,
                                                 Subject subject);

// by_dropout.cpp: o with the mask that the answer shows, and its bound; nullopt
// if none is derived. And o with other masks and factors.
std::optional<Predicted> right_with_dropout(const WrongAnswer& answer,
                                            const JudgedKernel& kernel);
std::vector<Description> descriptions_of_dropout(const JudgedKernel& kernel);

// by_formula.cpp: for o, rows that are weighed by scores; for lse, the
// logarithm of their sum.
void add_scores_as_weights(TensorName output, std::vector<Description>& out);

// The share of a row's largest exponential: of its scores and of its sink.
double largest_share(const WrongAnswer& answer, int64_t row);

// Numbers of wrong elements that have the predicted number, and that are
// numbers without a prediction.
struct LeftOpen {
  size_t known = 0, open = 0;
};

// Whether all wrong elements are as predicted, and, for a wrong o, the rest of
// the answer.
bool fits(const Description& description, const WrongAnswer& answer,
          const WrongOutput& output, LeftOpen* left_open = nullptr);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_INSTEAD_DESCRIPTION_H_
