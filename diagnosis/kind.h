// SPDX-License-Identifier: Apache-2.0
// The known faults that a kernel can have at all, by its declaration and
// theirs.
#ifndef QKVET_DIAGNOSIS_KIND_H_
#define QKVET_DIAGNOSIS_KIND_H_

#include <map>

#include "properties/cases/scope.h"
#include "properties/checking/case_work.h"

namespace qkvet::diagnosis {

class KernelKind {
 public:
  // `kernel` must outlive this. With `is_recorded`, answers were recorded
  // before: they show neither damage to memory, nor threads, nor a second
  // answer, and such faults are no cause of the failures that they do show.
  KernelKind(const JudgedKernel& kernel, bool is_recorded);

  // Kernels without GPU threads cannot have faults of these; the same holds for
  // page tables and appended tokens. A fault is also impossible if no law about
  // the failure's subject kills it, or only laws that do not apply to this
  // kernel, such as those of masks.
  bool can_have(const KernelInfo& fault, Subject subject);

 private:
  bool can_be_asked(const Law& law);

  const JudgedKernel* kernel_;
  bool is_recorded_;
  Scope scope_;
  std::map<const Law*, bool> asked_;
};

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_KIND_H_
