// SPDX-License-Identifier: Apache-2.0
// The emulator instead of a device. A launch fails with the place and the
// thread if its kernel did something that no GPU allows.
#include <cstdlib>
#include <cstring>

#include "impl/call/tensor_view.h"
#include "impl/cuda/device_call.h"
#include "impl/cuda/on_device.h"
#include "impl/cuda/simt/machine.h"

namespace qkvet::impl {
namespace {

// forward, reverse or random in QKVET_SIMT_ORDER; else an order derived from
// the shape of the call, so that a case replays and all orders occur.
simt::Schedule schedule_of(const DeviceCall& call) {
  const unsigned shape = static_cast<unsigned>(
      call.batch + 3 * call.heads + 5 * call.queries + 7 * call.keys +
      11 * call.width + 13 * call.value_width);
  const char* const name = std::getenv("QKVET_SIMT_ORDER");
  unsigned order = shape % 3;
  if (name != nullptr) {
    order = std::strcmp(name, "forward") == 0   ? 0
            : std::strcmp(name, "reverse") == 0 ? 1
                                                : 2;
  }
  return {static_cast<simt::Order>(order), shape};
}

}  // namespace

qkvet_status open_device(const qkvet_kernel*, const qkvet_exec*,
                         qkvet_context** context, qkvet_text*) {
  *context = nullptr;
  return QKVET_OK;
}

void close_device(const qkvet_kernel*, qkvet_context*) {}

size_t most_shared_bytes() { return simt::kMostShared; }

qkvet_status prepare_launch(const void*, size_t shared_bytes,
                            const DeviceCall& call, qkvet_text* why) {
  if (shared_bytes > simt::kMostShared) {
    return refuse(why, QKVET_INTERNAL, "more shared memory than a block has");
  }
  simt::set_schedule(schedule_of(call));
  return QKVET_OK;
}

qkvet_status end_launch(bool launched, qkvet_text* why) {
  if (launched) {
    return QKVET_OK;
  }
  char text[256];
  simt::describe(simt::take_fault(), text, sizeof(text));
  return refuse(why, QKVET_INTERNAL, text);
}

qkvet_status device_alloc(size_t bytes, void** memory, qkvet_text* why) {
  *memory = std::malloc(bytes);
  return *memory != nullptr ? QKVET_OK
                            : refuse(why, QKVET_OUT_OF_MEMORY,
                                     "no memory of the emulator is left");
}

void device_free(void* memory) { std::free(memory); }

qkvet_status copy_to_device(void* to, const void* from, size_t bytes, void*,
                            qkvet_text*) {
  std::memcpy(to, from, bytes);
  return QKVET_OK;
}

qkvet_status copy_from_device(void* to, const void* from, size_t bytes,
                              void* stream, qkvet_text* why) {
  return copy_to_device(to, from, bytes, stream, why);
}

}  // namespace qkvet::impl
