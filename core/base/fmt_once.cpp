// SPDX-License-Identifier: Apache-2.0
// The functions of fmt that every other file only declares, compiled once: the
// distribution's own library is a shared one, which neither the portable
// program nor a test program with a linked kernel may need. All other files
// include <fmt/core.h> alone, whose templates need no other function.
#define FMT_HEADER_ONLY
#include <fmt/format.h>

#include <string>

namespace qkvet {
namespace {

// An inline function is emitted where its address is taken.
[[gnu::used]] std::string (*const kFormat)(fmt::string_view,
                                           fmt::format_args) = fmt::vformat;
[[gnu::used]] void (*const kPrint)(fmt::string_view,
                                   fmt::format_args) = fmt::vprint;
[[gnu::used]] void (*const kPrintTo)(std::FILE*, fmt::string_view,
                                     fmt::format_args) = fmt::vprint;

}  // namespace
}  // namespace qkvet
