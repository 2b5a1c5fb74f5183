// SPDX-License-Identifier: Apache-2.0
// Memory of a call, or a refusal with a reason.
#ifndef QKVET_IMPL_CALL_SCRATCH_H_
#define QKVET_IMPL_CALL_SCRATCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "impl/call/tensor_view.h"

namespace qkvet::impl {

template <class T>
qkvet_status allocate(int64_t count, std::unique_ptr<T[]>* memory,
                      qkvet_text* why,
                      const char* reason = "no memory for the scores") {
  memory->reset(new (std::nothrow) T[static_cast<size_t>(count)]);
  return *memory != nullptr ? QKVET_OK
                            : refuse(why, QKVET_OUT_OF_MEMORY, reason);
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CALL_SCRATCH_H_
