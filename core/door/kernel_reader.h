// SPDX-License-Identifier: Apache-2.0
// Reads a library's declarations of its kernels. The library may be older or
// newer than this program: every struct is copied as far as both sides know it.
#ifndef QKVET_CORE_DOOR_KERNEL_READER_H_
#define QKVET_CORE_DOOR_KERNEL_READER_H_

#include <algorithm>
#include <cstring>
#include <string>

#include "core/capability/kernel_info.h"
#include "qkvet/plan.h"

namespace qkvet {

// A shorter struct has a zero tail; a longer one is cut.
template <class Sized>
Sized copy_sized(const Sized* from) {
  Sized to{};
  std::memcpy(&to, from, std::min(from->struct_size, sizeof to));
  to.struct_size = sizeof to;
  return to;
}

// One line of at most `most` bytes, for printing untrusted text of a library.
std::string one_line(const char* text, size_t most);

// The table of its plans, as far as both sides know it. Without any, all zero.
qkvet_plan_table plan_table_of(const qkvet_kernel* self);

// "" or one line that names what is wrong, starting with the kernel.
std::string read_kernel(const qkvet_kernel* kernel, int number,
                        KernelInfo* info);

}  // namespace qkvet

#endif  // QKVET_CORE_DOOR_KERNEL_READER_H_
