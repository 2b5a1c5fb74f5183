// SPDX-License-Identifier: Apache-2.0
// Only for CaseWork: the data of one distinct call.
#ifndef QKVET_PROPERTIES_CHECKING_CASE_PREPARED_H_
#define QKVET_PROPERTIES_CHECKING_CASE_PREPARED_H_

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "properties/checking/case_work.h"
#include "properties/judging/gradient_answer.h"

namespace qkvet::properties {

struct CaseWork::Prepared {
  Case value;  // the kernel's case, without its data
  Inputs inputs;
  Inputs fresh;  // of a story: the keys and values that the command brings
  std::array<std::unique_ptr<OwnedProblem>, kReadings> problems;
  std::array<std::optional<Answer>, kReadings> answers;
  std::unique_ptr<GradientAnswer> gradient;             // of a backward call
  std::unique_ptr<LayerGradientAnswer> layer_gradient;  // of a layer's
  bool twin_asked = false;                              // of a layer
  std::string twin_disagrees;  // of a layer: "" or where oracle and twin differ
  double oracle_seconds = 0;
};

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CHECKING_CASE_PREPARED_H_
