// SPDX-License-Identifier: Apache-2.0
// Sources become shared libraries that stay in a folder of the user's. A
// library's name contains a hash of its source, of every word of the command,
// of the compiler and of the working folder; a file next to it lists the
// headers that were read, with their hashes. A build is skipped if all of these
// are unchanged.
#ifndef QKVET_CLI_KERNELS_BUILD_CACHE_H_
#define QKVET_CLI_KERNELS_BUILD_CACHE_H_

#include <string>

namespace qkvet::cli {

struct BuiltKernel {
  std::string library;  // path of the shared library
  std::string error;    // one line; if set, there is no library
};

// Compiles if necessary, announces it in one line on stdout, and forwards the
// compiler's output to stderr. `flags` are words as in a shell.
BuiltKernel build_kernel(const std::string& source, const std::string& flags);

// $XDG_CACHE_HOME/qkvet, ~/.cache/qkvet, or a folder of the user among the
// temporary files; created if necessary. "" with one line in *error.
std::string cache_directory(std::string* error);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_KERNELS_BUILD_CACHE_H_
