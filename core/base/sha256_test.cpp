// SPDX-License-Identifier: Apache-2.0
// The examples of FIPS 180 and of its secure hash standard's validation.
#include "core/base/sha256.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace qkvet::sha256_test {
namespace {

std::string hash_of(std::string_view text) {
  return sha256_hex(std::as_bytes(std::span(text.data(), text.size())));
}

TEST(Sha256, AgreesWithTheStandard) {
  EXPECT_EQ(hash_of(""),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex({}), hash_of(""));
  EXPECT_EQ(hash_of("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  // 448 bits: the length no longer fits into the first block.
  EXPECT_EQ(hash_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hash_of(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, AnyBitAndAnyLengthCount) {
  const std::string text(70, 'q');
  const std::string whole = hash_of(text);
  for (size_t n = 0; n < text.size(); ++n) {
    EXPECT_NE(hash_of(text.substr(0, n)), whole) << n;
    std::string other = text;
    other[n] = static_cast<char>(other[n] ^ 1);
    EXPECT_NE(hash_of(other), whole) << n;
  }
}

}  // namespace
}  // namespace qkvet::sha256_test
