// SPDX-License-Identifier: Apache-2.0
#include "cli/inspect/screen.h"

#include <strings.h>

#include <cstdlib>
#include <string>

#include "cli/terminal/select.h"

namespace qkvet::cli {
namespace {

// Decided by name: even a locale that is not installed on this machine
// describes the terminal at the other end.
bool is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* locale = std::getenv(name);
    if (locale == nullptr || *locale == 0) continue;
    const std::string text = locale;
    const std::string charset = text.substr(text.find('.') + 1);
    return strncasecmp(charset.c_str(), "UTF-8", 5) == 0 ||
           strncasecmp(charset.c_str(), "utf8", 4) == 0;
  }
  return false;
}

}  // namespace

Ink screen_ink() {
  if (!is_utf8()) return Ink::kAscii;
  return colour_wanted() ? Ink::kColour : Ink::kUnicode;
}

}  // namespace qkvet::cli
