// SPDX-License-Identifier: Apache-2.0
// The kernel of attention.c, whose entry is renamed to plain_open, in a library
// that uses the C++ library of its own: streams, locales, exceptions. None of
// it may meet the one in the program that loads it.
#include <iostream>
#include <regex>
#include <sstream>
#include <string>

#include "qkvet/kernel.h"

extern "C" qkvet_status plain_open(const qkvet_host* host, const char* config,
                                   qkvet_library* out, qkvet_text* why);

namespace {

// Does nothing that a C++ library does not do, and much of it.
bool cxx_library_works() {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text << 0.5 << ' ' << 17;
  std::cout << text.str() << std::endl;
  try {
    (void)std::stoi("no number");
  } catch (const std::invalid_argument&) {
    return std::regex_match(text.str(), std::regex("0\\.5 [0-9]+"));
  }
  return false;
}

}  // namespace

extern "C" QKVET_EXPORT qkvet_status qkvet_open(const qkvet_host* host,
                                                const char* config,
                                                qkvet_library* out,
                                                qkvet_text* why) {
  if (!cxx_library_works()) return QKVET_INTERNAL;
  return plain_open(host, config, out, why);
}
