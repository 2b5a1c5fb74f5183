// SPDX-License-Identifier: Apache-2.0
// The symbols that libFuzzer looks up by name, in the program itself and in
// standalone targets: extra counters, and functions that change inputs.
#include <algorithm>

#include "core/base/philox.h"
#include "fuzz/engines/engine.h"
#include "fuzz/input/mutate.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most)
    __attribute__((weak));

namespace {

// In a section of its own, which libFuzzer finds by its name.
__attribute__((used, section("__libfuzzer_extra_counters")))
uint8_t g_counters[qkvet::fuzz::kGuideCounters];

// One in so many inputs is changed byte by byte: what is no case any more is a
// source of choices, and so a case that no small step leads to.
constexpr int kBytesPercent = 2;

size_t plain_change(uint8_t* data, size_t size, size_t most) {
  return LLVMFuzzerMutate != nullptr ? LLVMFuzzerMutate(data, size, most)
                                     : size;
}

size_t put(const qkvet::fuzz::FuzzInput& input, uint8_t* out, size_t most) {
  const std::string text = qkvet::fuzz::encode_input(input);
  if (text.size() > most) return 0;
  std::copy(text.begin(), text.end(), out);
  return text.size();
}

qkvet::fuzz::Draw draw_from(unsigned seed) {
  return qkvet::fuzz::Draw([seed, n = uint32_t{0}]() mutable {
    return qkvet::philox_u64(seed, ++n, 0, 0);
  });
}

}  // namespace

namespace qkvet::fuzz {

const char* const kNoEngine =
    "this program was built without libFuzzer; install libclang-rt-dev and "
    "configure again (on Debian ci/install_deps.sh does)";

EngineHooks& engine_hooks() {
  static EngineHooks hooks;
  return hooks;
}

std::span<uint8_t> engine_counters() { return g_counters; }

}  // namespace qkvet::fuzz

extern "C" {

__attribute__((visibility("default"))) size_t LLVMFuzzerCustomMutator(
    uint8_t* data, size_t size, size_t most, unsigned seed) {
  const qkvet::fuzz::EngineHooks& hooks = qkvet::fuzz::engine_hooks();
  if (hooks.rules == nullptr) return plain_change(data, size, most);
  qkvet::fuzz::Draw draw = draw_from(seed);
  if (draw.chance(kBytesPercent)) return plain_change(data, size, most);
  const qkvet::fuzz::FuzzInput input =
      qkvet::fuzz::decode_input({data, size}, *hooks.rules);
  const size_t changed =
      put(qkvet::fuzz::mutated(input, *hooks.rules, hooks.values_percent, draw),
          data, most);
  return changed > 0 ? changed : size;
}

__attribute__((visibility("default"))) size_t LLVMFuzzerCustomCrossOver(
    const uint8_t* a, size_t a_size, const uint8_t* b, size_t b_size,
    uint8_t* out, size_t most, unsigned seed) {
  const qkvet::fuzz::EngineHooks& hooks = qkvet::fuzz::engine_hooks();
  if (hooks.rules == nullptr) {
    // The front of one and the rest of the other.
    qkvet::fuzz::Draw cut = draw_from(seed);
    const size_t front =
        std::min(cut.bits() % (a_size + 1), static_cast<uint64_t>(most));
    const size_t from = cut.bits() % (b_size + 1);
    const size_t rest = std::min(b_size - from, most - front);
    std::copy_n(a, front, out);
    std::copy_n(b + from, rest, out + front);
    return front + rest;
  }
  qkvet::fuzz::Draw draw = draw_from(seed);
  return put(
      qkvet::fuzz::crossed(qkvet::fuzz::decode_input({a, a_size}, *hooks.rules),
                           qkvet::fuzz::decode_input({b, b_size}, *hooks.rules),
                           *hooks.rules, draw),
      out, most);
}

}  // extern "C"
