// SPDX-License-Identifier: Apache-2.0
// A program whose target is wrong about every input with an x in front.
#include "fuzz/engines/standalone.h"

namespace qkvet::fuzz {
namespace {

std::string check(std::span<const uint8_t> bytes, std::string* said) {
  *said = "read";
  return !bytes.empty() && bytes[0] == 'x' ? "an x" : "";
}

constexpr FuzzTarget kTarget = {
    .name = "wrong", .sentence = "No input begins with x.", .check = check};

}  // namespace

extern constinit const StandaloneProgram kStandaloneProgram = {kTarget, {}};

}  // namespace qkvet::fuzz
