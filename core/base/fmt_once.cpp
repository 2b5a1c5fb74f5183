// SPDX-License-Identifier: Apache-2.0
// Compiles the functions of fmt that every other file only declares. The
// distribution's own library is a shared one, which neither the portable
// program nor a test program with a linked kernel may need. All other files
// include only <fmt/core.h>; its templates need no other function.
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
