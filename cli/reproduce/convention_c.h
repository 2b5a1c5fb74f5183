// SPDX-License-Identifier: Apache-2.0
// What a kernel's author writes in C to declare a convention.
#ifndef QKVET_CLI_REPRODUCE_CONVENTION_C_H_
#define QKVET_CLI_REPRODUCE_CONVENTION_C_H_

#include <string>

#include "properties/conventions/conventions.h"

namespace qkvet::cli {

// kCapabilities, and kDialect and kLayerOptions if there is something to
// declare: definitions in C11, for use after #include "qkvet/kernel.h".
std::string convention_c(const Convention& convention);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_REPRODUCE_CONVENTION_C_H_
