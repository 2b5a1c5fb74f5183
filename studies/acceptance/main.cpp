// SPDX-License-Identifier: Apache-2.0
// acceptance [--quick] [--out FILE]: writes others.md. Exit code 1 if the
// correct kernel was refused by the bound, or by a rule on the data of its own
// suite: the rule then differs from that of its suite.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "studies/acceptance/page.h"

int main(int argc, char** argv) {
  using namespace qkvet::studies;
  Effort effort = full_effort();
  const char* file = nullptr;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0) {
      effort = quick_effort();
    } else if (std::strcmp(argv[i], "--out") == 0 && i + 1 < argc) {
      file = argv[++i];
    } else {
      std::fprintf(stderr, "usage: acceptance [--quick] [--out FILE]\n");
      return 2;
    }
  }
  const auto comparisons = compare_rules(effort, rules(), declared_model);
  const std::string page = page_text(comparisons, effort);
  if (file == nullptr) {
    std::fputs(page.c_str(), stdout);
  } else {
    std::ofstream out(file);
    out << page;
    if (!out.flush()) {
      std::fprintf(stderr, "%s: cannot be written\n", file);
      return 2;
    }
  }
  const int code = exit_code(comparisons);
  if (code != 0)
    std::fprintf(stderr,
                 "the correct kernel was refused: %lld cells of the bound, "
                 "%lld of rules on their own data\n",
                 static_cast<long long>(alarms_of_ours(comparisons)),
                 static_cast<long long>(alarms_of_theirs(comparisons)));
  return code;
}
