// SPDX-License-Identifier: Apache-2.0
// The oracle's answer to one call, and the bounds of all models about it.
#ifndef QKVET_PROPERTIES_JUDGING_ANSWER_H_
#define QKVET_PROPERTIES_JUDGING_ANSWER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "properties/judging/law.h"

namespace qkvet::properties {

// The reference for laws; replaced only in tests of the vote.
using Oracle = OracleOutput (*)(const Problem&);

// Another way to read a case, for kernels with other conventions.
using Reading = std::function<Problem(Problem)>;

// The dialects under which the definition differs for this case, as a small
// number; 0 if no dialect matters.
inline constexpr int kReadings = 8;
int reading_of(const Case& value, const qkvet_dialect& dialect);

// The truth of the case under `oracle`. For f64 storage it is the twin instead
// of plain_forward, which is no finer than the answers that it would judge.
Oracle truth_of(const Case& value, Oracle oracle);

// Owns the data of a Problem.
class OwnedProblem {
 public:
  // `inputs` are those of `value`, and outlive this.
  OwnedProblem(const Case& value, const Inputs& inputs, int reading);
  OwnedProblem(const OwnedProblem&) = delete;
  OwnedProblem& operator=(const OwnedProblem&) = delete;

  const Problem& problem() const { return problem_; }

 private:
  void list_keys(const Case& value, const Inputs& inputs);

  std::vector<uint8_t> mask_;
  std::vector<double> bias_;
  Inputs expanded_;  // lists of keys instead of lists of blocks
  Problem problem_;
};

// A case about a layer as a problem; points into the inputs.
LayerProblem layer_problem(const Case& value, const Inputs& inputs);

class Answer {
 public:
  // `with_twin`: `oracle` is compared with the twin; the twin itself, if it is
  // the oracle, with plain_forward. `errors`: how far the inputs may be off.
  // `problem`, and the data that it and they point to, outlive this.
  Answer(const Problem& problem, Oracle oracle, bool with_twin,
         const InputErrors& errors = {});

  // "" or where oracle and twin differ.
  const std::string& twin_disagrees() const { return twin_disagrees_; }
  // The truth in the units of the kernel, with the bound of its model, which is
  // computed once.
  const Truth& truth_for(const KernelInfo& kernel, const PrecisionModel& model,
                         bool want_weights);

 private:
  struct Known {
    PrecisionModel model;
    bool with_weights;
    bool base2;
    Bound bound;
    std::vector<double> reach;
    Truth truth;
  };

  // The facts of a model; those of all models are the same without a rotation.
  const BoundFacts& facts_for(const PrecisionModel& model);

  Problem problem_;
  InputErrors errors_;
  OracleOutput oracle_;
  std::optional<BoundFacts> facts_;
  std::optional<PrecisionModel> facts_of_;  // with a rotation
  std::string twin_disagrees_;
  std::vector<std::unique_ptr<Known>> known_;
};

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_JUDGING_ANSWER_H_
