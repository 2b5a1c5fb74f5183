// SPDX-License-Identifier: Apache-2.0
// For cache_kinds_test: caches with one mistake each, and the question that has
// to notice it.
#ifndef QKVET_IMPL_CACHE_WRONG_KINDS_H_
#define QKVET_IMPL_CACHE_WRONG_KINDS_H_

#include <vector>

#include "qkvet/kernel.h"

namespace qkvet::impl {

struct WrongKind {
  const char* question;
  const qkvet_kernel* kernel;
};
std::vector<WrongKind> wrong_kinds();

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CACHE_WRONG_KINDS_H_
