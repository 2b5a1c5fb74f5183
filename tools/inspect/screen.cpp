// SPDX-License-Identifier: Apache-2.0
#include "tools/inspect/screen.h"

#include <strings.h>

#include <cstdlib>
#include <string>

#include "tools/report/select.h"

namespace qkvet::tools {
namespace {

// By name: a locale that this machine has not installed says what the terminal
// at the other end shows all the same.
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

}  // namespace qkvet::tools
