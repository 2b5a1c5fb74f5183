// SPDX-License-Identifier: Apache-2.0
// The cases that laws draw, their spellings and the bytes of their inputs are
// those of studies/freeze/drawn_cases.txt: a hash for each law and seed.
// QKVET_REWRITE_FREEZE=1 writes the file anew.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>

#include "core/case/case.h"
#include "properties/cases/generate.h"
#include "properties/judging/law.h"

namespace qkvet::properties::drawn_cases_test {
namespace {

constexpr uint64_t kSeeds = 3;
constexpr int64_t kCasesPerLaw = 42;  // of each seed: 20,000 in all

const char* const kFile = QKVET_DRAWN_CASES;

// FNV-1a, 64 bits.
void add(std::string_view text, uint64_t& hash) {
  for (const char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
}

std::map<std::string, uint64_t> hashes() {
  std::map<std::string, uint64_t> all;
  for (const Law* law : all_laws())
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      uint64_t& hash = all[std::string(law->id) + " " + std::to_string(seed)];
      hash = 14695981039346656037U;
      for (int64_t n = 1; n <= kCasesPerLaw; ++n) {
        const Case value = planned_case(*law, seed, n);
        const std::string text = to_string(value);
        EXPECT_EQ(parse_case(text).value, value) << text;
        add(text, hash);
        add(std::to_string(input_digest(make_inputs(value))), hash);
      }
    }
  return all;
}

TEST(Freeze, DrawnCasesAndTheirBytesAreWhatTheyWere) {
  std::ostringstream now;
  for (const auto& [name, hash] : hashes())
    now << name << ' ' << std::hex << hash << std::dec << '\n';
  if (std::getenv("QKVET_REWRITE_FREEZE") != nullptr)
    std::ofstream(kFile) << now.str();
  std::stringstream recorded;
  recorded << std::ifstream(kFile).rdbuf();
  std::map<std::string, std::string> was;
  for (std::string law, seed, hash; recorded >> law >> seed >> hash;)
    was[law + " " + seed] = hash;
  std::istringstream lines(now.str());
  for (std::string law, seed, hash; lines >> law >> seed >> hash;)
    EXPECT_EQ(hash, was[law + " " + seed]) << law << ", seed " << seed;
  EXPECT_EQ(was.size(), all_laws().size() * kSeeds);
}

}  // namespace
}  // namespace qkvet::properties::drawn_cases_test
