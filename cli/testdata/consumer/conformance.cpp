// SPDX-License-Identifier: Apache-2.0
#include <qkvet/gtest.h>

QKVET_CONFORMANCE_TEST(Good, qkvet::Plugin(GOOD).cases(60));
QKVET_CONFORMANCE_TEST(
    Broken, qkvet::Plugin(BROKEN).kernel("consumer/attention").cases(200));
QKVET_CONFORMANCE_TEST(Missing, "no_such_file.so");
