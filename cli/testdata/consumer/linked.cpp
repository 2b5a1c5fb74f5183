// SPDX-License-Identifier: Apache-2.0
// Kernels that are linked into their test program.
#include <qkvet/gtest.h>

extern "C" {
qkvet_status good_open(const qkvet_host* host, const char* config,
                       qkvet_library* out, qkvet_text* why);
qkvet_status broken_open(const qkvet_host* host, const char* config,
                         qkvet_library* out, qkvet_text* why);
}

QKVET_LINKED_CONFORMANCE_TEST(Good, qkvet::Linked(good_open).cases(60));
QKVET_LINKED_CONFORMANCE_TEST(
    Broken, qkvet::Linked(broken_open).kernel("consumer/attention").cases(200));
