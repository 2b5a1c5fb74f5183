// SPDX-License-Identifier: Apache-2.0
// Extents at which a kernel takes another path, as it declares them.
#ifndef QKVET_CORE_CAPABILITY_PATHS_H_
#define QKVET_CORE_CAPABILITY_PATHS_H_

#include <string>
#include <string_view>
#include <vector>

#include "qkvet/kernel.h"

namespace qkvet {

// "" or what no kernel can mean.
std::string bad_paths(const qkvet_capabilities& declared);

// The declared paths.
std::vector<qkvet_path> paths_of(const qkvet_capabilities& declared);

std::string path_text(const qkvet_path& path);  // "Tk=64"

// "Tk=64 Tk=512", as declarations spell them; read_paths() returns "" or what
// is wrong with the text.
std::string paths_text(const qkvet_capabilities& declared);
std::string read_paths(std::string_view text, qkvet_capabilities& declared);

// "QKVET_AXIS_TK" of a path that is not bad.
std::string axis_constant(const qkvet_path& path);

}  // namespace qkvet

#endif  // QKVET_CORE_CAPABILITY_PATHS_H_
