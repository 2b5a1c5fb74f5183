// SPDX-License-Identifier: Apache-2.0
#include "properties/judging/needs_a_run.h"

#include <string_view>

namespace qkvet::properties {
namespace {

// The laws of all subjects, by the end of their names.
struct Row {
  std::string_view laws;
  const char* why;
};
constexpr Row kRows[] = {
    {"reads_only_its_inputs", "what a kernel does to memory is in no file"},
    {"same_call_same_bits", "a call is answered once"},
    {"calls_before_change_nothing", "a call is answered by itself"},
    {"long_use_changes_nothing", "a call is answered once"},
    {"threads_change_nothing", "a plan asks for no number of threads"},
    {"calls_at_once_change_nothing", "a plan asks for one call at a time"},
    {"magnitude_moves_to_queries", "a plan has keys of ordinary size"},
    {"layout_changes_nothing", "files are contiguous"}};

}  // namespace

std::string needs_a_run(const Law& law) {
  if (law.domain.plans) return "a call of a file is made without plan()";
  for (const Row& row : kRows)
    if (std::string_view(law.id).ends_with(row.laws)) return row.why;
  return "";
}

}  // namespace qkvet::properties
