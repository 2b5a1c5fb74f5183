// SPDX-License-Identifier: Apache-2.0
// For cache_kinds_test: caches with one mistake each, those of impl/faulty
// among them, and the question that has to notice it.
#ifndef QKVET_IMPL_TESTING_CACHE_WRONG_KINDS_H_
#define QKVET_IMPL_TESTING_CACHE_WRONG_KINDS_H_

#include <vector>

#include "qkvet/kernel.h"

namespace qkvet::impl {

struct WrongKind {
  const char* question;
  const qkvet_kernel* kernel;
};
std::vector<WrongKind> wrong_kinds();

// A right one: kv_cache/prefix where hashes tell nothing apart.
const qkvet_kernel* prefixes_of_one_hash();

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_TESTING_CACHE_WRONG_KINDS_H_
