// SPDX-License-Identifier: Apache-2.0
#include "core/sandbox/undeclared.h"

#include <iterator>

#include "core/base/dtype.h"
#include "core/capability/option_table.h"

namespace qkvet {
namespace {

// For q, for k and v, and for o.
constexpr Dtype kStorage[][3] = {{Dtype::kF32, Dtype::kF32, Dtype::kF32},
                                 {Dtype::kF16, Dtype::kF16, Dtype::kF16},
                                 {Dtype::kBf16, Dtype::kBf16, Dtype::kBf16},
                                 {Dtype::kF64, Dtype::kF64, Dtype::kF64},
                                 {Dtype::kF32, Dtype::kF16, Dtype::kF32},
                                 {Dtype::kF32, Dtype::kBf16, Dtype::kF32},
                                 {Dtype::kF16, Dtype::kF16, Dtype::kF32},
                                 {Dtype::kBf16, Dtype::kBf16, Dtype::kF32}};

}  // namespace

void undeclare(KernelInfo& info) {
  const qkvet_capabilities declared = info.capabilities;
  qkvet_capabilities& can = info.capabilities;
  can = {};
  can.struct_size = sizeof can;
  can.devices = declared.devices;
  can.alignment = declared.alignment;
  can.flags = declared.flags & kFlagsOfHowToCall;
  for (const OptionRow& row : option_rows()) can.options |= row.option;
  can.layouts = QKVET_LAYOUT_BHTD | QKVET_LAYOUT_BTHD |
                QKVET_LAYOUT_PACKED_QKV | QKVET_LAYOUT_ANY_STRIDES;
  for (const auto& [q, kv, o] : kStorage)
    can.dtypes[can.dtype_count++] = {dtype_to_abi(q), dtype_to_abi(kv),
                                     dtype_to_abi(o)};
  info.dialect = {};
  info.precision = {};
}

}  // namespace qkvet
