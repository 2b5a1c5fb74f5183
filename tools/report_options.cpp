// SPDX-License-Identifier: Apache-2.0
#include "tools/report.h"

namespace qkvet {

std::string undeclared_options(const RunResult& result) {
  uint64_t declared = 0;
  for (const KernelResult& kernel : result.kernels)
    declared |= kernel.kernel.judged.info.capabilities.options;
  constexpr std::pair<uint64_t, const char*> kNames[] = {
      {QKVET_OPTION_MASK, "masks"},
      {QKVET_OPTION_BIAS, "biases"},
      {QKVET_OPTION_WINDOW, "windows"},
      {QKVET_OPTION_SOFTCAP, "softcap"},
      {QKVET_OPTION_ALIBI, "ALiBi"},
      {QKVET_OPTION_SINK, "sinks"},
      {QKVET_OPTION_ROPE, "RoPE"},
      {QKVET_OPTION_LENGTHS, "lengths"},
      {QKVET_OPTION_PACKED, "packed batches"},
      {QKVET_OPTION_EMPTY_EXTENTS, "empty extents"}};
  std::string out;
  for (const auto& [option, name] : kNames)
    if ((declared & option) == 0)
      out += (out.empty() ? "" : ", ") + std::string(name);
  return out;
}

}  // namespace qkvet
