// SPDX-License-Identifier: Apache-2.0
// The subjects of laws and cases: a row each, with the differences between
// them. Other code must not branch on a subject's name. The rows are in
// checking/subjects.cpp, which includes everything that they refer to.
#ifndef QKVET_PROPERTIES_JUDGING_SUBJECT_H_
#define QKVET_PROPERTIES_JUDGING_SUBJECT_H_

#include <span>
#include <string>
#include <vector>

#include "properties/judging/law.h"

namespace qkvet::properties {

class Collector;  // checking/simpler.h
class Draw;       // cases/draw.h
struct Scope;     // cases/scope.h

struct SubjectRow {
  Subject subject;
  const char* id;       // "layer_backward"
  const char* text;     // "gradients of layers"
  const char* missing;  // "the kernel declares no cache"
  bool (*is_declared)(const KernelInfo& kernel);
  const char* agreement;  // the law that holds numbers against the definition
  // The law that owns touches outside of a tensor; null: the law that made the
  // call.
  const char* memory_law;
  // Gradients: their bounds are not derived for every model.
  bool is_gradient;
  // "", or an undeclared property of the kernel on which cases depend; null:
  // none.
  std::string (*unsettled)(const Case& value, const KernelInfo& kernel);

  // A case, constrained to the law.
  Case (*draw)(Draw& draw, const Law& law, const Scope& scope);
  void (*simplify)(const Case& value, Collector& simpler);
  // A small case, whole (checking/picture.h).
  std::vector<std::string> (*picture)(const JudgeInput& input,
                                      const Judgement& judgement);
};

// In the order in which they are judged and listed.
std::span<const SubjectRow> all_subjects();
const SubjectRow& subject_row(Subject subject);

const Law& agreement_about(Subject subject);

// Why a kernel is not asked about plans.
inline constexpr const char* kNoPlans = "not declared: plans";

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_JUDGING_SUBJECT_H_
