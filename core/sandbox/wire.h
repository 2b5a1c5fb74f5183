// SPDX-License-Identifier: Apache-2.0
// KernelInfo as bytes, from the worker to the program that started it. Both are
// of one build; only strings and counts need a form of their own.
#ifndef QKVET_CORE_SANDBOX_WIRE_H_
#define QKVET_CORE_SANDBOX_WIRE_H_

#include <string>
#include <string_view>
#include <vector>

#include "core/capability/kernel_info.h"

namespace qkvet {

std::string pack_kernels(const std::vector<KernelInfo>& kernels);
// False if the bytes are cut off or make no sense.
bool unpack_kernels(std::string_view bytes, std::vector<KernelInfo>* kernels);

}  // namespace qkvet

#endif  // QKVET_CORE_SANDBOX_WIRE_H_
