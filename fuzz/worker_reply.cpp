// SPDX-License-Identifier: Apache-2.0
// worker_reply: what a kernel that has run wild may leave in the memory that it
// shares with the program. Nothing of it is believed unchecked.
#include <algorithm>
#include <cstring>
#include <vector>

#include "core/call_reply.h"
#include "core/wire.h"
#include "fuzz/target.h"

namespace qkvet {
namespace {

// The fields of a reply, out of the bytes in front.
void fill(CallReply& reply, std::span<const uint8_t> bytes) {
  size_t at = 0;
  const auto take = [&](auto& field) {
    const size_t n = std::min(sizeof(field), bytes.size() - at);
    std::memcpy(&field, bytes.data() + at, n);
    at += n;
  };
  uint32_t phase = 0;
  take(phase);
  reply.phase = phase;
  take(reply.status);
  take(reply.gave_reason);
  take(reply.dirty_environment);
  take(reply.workspace_damaged);
  take(reply.lengths_known);
  take(reply.seconds);
  take(reply.cache_bytes);
  take(reply.workspace);
  take(reply.workspace_bytes);
  take(reply.workspace_damage);
  take(reply.lengths);
  take(reply.text);
}

std::string check_reply(std::span<const uint8_t> bytes, std::string* said) {
  CallReply reply;
  fill(reply, bytes);
  KernelCall call;
  CallPlan plan;
  std::string reason;
  if (!plan_call(call, KernelInfo{}, &plan, &reason)) return reason;
  const CallOutcome outcome = outcome_of(reply, plan);
  *said =
      std::string(1, static_cast<char>('a' + static_cast<int>(outcome.status)));
  if (outcome.text.size() > CallReply::kTextBytes + 64)
    return "the text of a reply is longer than its place";
  return outcome.status <= CallStatus::kNotRun ? ""
                                               : "a status that there is not";
}

std::string check(std::span<const uint8_t> bytes, std::string* said) {
  if (std::string wrong = check_reply(bytes, said); !wrong.empty())
    return wrong;
  std::vector<KernelInfo> kernels;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              bytes.size());
  if (!unpack_kernels(text, &kernels)) return "";
  *said += " kernels " + std::string(kernels.size(), 'k');
  std::vector<KernelInfo> again;
  if (!unpack_kernels(pack_kernels(kernels), &again))
    return "kernels that were unpacked cannot be packed";
  return again.size() == kernels.size() ? "" : "kernels are lost";
}

}  // namespace

extern constinit const FuzzTarget fuzz_worker_reply = {
    .name = "worker_reply",
    .sentence =
        "Whatever a worker left behind is read without harm, and no status is "
        "believed that there is not.",
    .check = check};

}  // namespace qkvet
