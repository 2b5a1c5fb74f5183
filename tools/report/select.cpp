// SPDX-License-Identifier: Apache-2.0
// What several commands share.
#include <fnmatch.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "core/base/printable.h"
#include "properties/judging/law.h"
#include "tools/report/commands.h"

namespace qkvet::tools {

ExitCode wrong_use(const std::string& line) {
  std::fprintf(stderr, "qkvet: %s\n", printable(line).c_str());
  return kWrongUse;
}

std::vector<const Law*> select_laws(const std::vector<std::string>& globs,
                                    std::string* error) {
  std::vector<bool> used(globs.size());
  std::vector<const Law*> laws;
  for (const Law* law : all_laws()) {
    bool wanted = globs.empty();
    for (size_t i = 0; i < globs.size(); ++i)
      if (fnmatch(globs[i].c_str(), law->id, 0) == 0) wanted = used[i] = true;
    if (wanted) laws.push_back(law);
  }
  for (size_t i = 0; i < globs.size(); ++i)
    if (!used[i]) {
      *error =
          "no law is named \"" + globs[i] + "\"; `qkvet list laws` shows all";
      return {};
    }
  return laws;
}

bool colour_wanted() {
  const char* no_colour = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) != 0 &&
         (no_colour == nullptr || *no_colour == 0);
}

size_t screen_width() {
  constexpr size_t kElsewhere = 100, kLeast = 20;
  if (const char* columns = std::getenv("COLUMNS")) {
    const unsigned long width = std::strtoul(columns, nullptr, 10);
    if (width > 0 && width <= 10000) return std::max(kLeast, size_t{width});
  }
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    return kElsewhere;
  return std::max<size_t>(kLeast, size.ws_col);
}

}  // namespace qkvet::tools
