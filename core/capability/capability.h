// SPDX-License-Identifier: Apache-2.0
// Whether what a kernel declares covers a call. Pure: the kernel is not called.
#ifndef QKVET_CORE_CAPABILITY_CAPABILITY_H_
#define QKVET_CORE_CAPABILITY_CAPABILITY_H_

#include <string>

#include "core/call/call.h"
#include "core/capability/kernel_info.h"

namespace qkvet {

// Whether it declares the storage types of the call.
bool takes_storage(const KernelInfo& kernel, const KernelCall& call);

// "" or what is not declared of the table that the operation is in.
std::string missing_table(const KernelInfo& kernel, const KernelCall& call);

// "" or what is declared apart from the options that meet in the call.
std::string refused_pair(const KernelInfo& kernel, const KernelCall& call);

// False with a reason of one line in *why.
bool capability_allows(const KernelInfo& kernel, const KernelCall& call,
                       std::string* why);

}  // namespace qkvet

#endif  // QKVET_CORE_CAPABILITY_CAPABILITY_H_
