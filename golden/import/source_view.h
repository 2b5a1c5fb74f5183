// SPDX-License-Identifier: Apache-2.0
// For verification: the source of a set's numbers as a kernel that returned
// them.
#ifndef QKVET_GOLDEN_IMPORT_SOURCE_VIEW_H_
#define QKVET_GOLDEN_IMPORT_SOURCE_VIEW_H_

#include <vector>

#include "golden/format/set.h"
#include "properties/checking/case_work.h"

namespace qkvet::golden {

class SourceView {
 public:
  // The set must outlive this. Numbers computed in float64 appear as those of a
  // kernel of f64 storage with the same inputs. For layers and stories f64 has
  // no bound, so they are rounded to their storage.
  SourceView(const GoldenSet& set, TimeUse& time);

  // As a law of the set's subject finds it.
  Judgement judge();
  // How far the numbers of a call may be from the truth.
  CallBounds bounds(size_t call) {
    return work_.bounds(kernel_, call, kernel_.model);
  }
  // The output of call number `call` as it was written down, in f64; null:
  // none.
  const std::vector<double>* numbers(size_t call, TensorName output) const;
  const KernelInfo& info() const { return kernel_.info; }

 private:
  struct Numbers {
    size_t call;
    TensorName output;
    std::vector<double> values;
  };
  void put(const OutputName& name, const RecordedOutput& output);

  Case value_;
  JudgedKernel kernel_;
  CaseWork work_;
  std::vector<Numbers> numbers_;
  std::vector<CallOutcome> outcomes_;
};

// The number of the agreement law's call for an output: a story begins with the
// call that creates its cache.
size_t call_of(const OutputName& name);

}  // namespace qkvet::golden

#endif  // QKVET_GOLDEN_IMPORT_SOURCE_VIEW_H_
