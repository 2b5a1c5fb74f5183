// SPDX-License-Identifier: Apache-2.0
// worker_reply: what a kernel that has run wild may leave in the memory that it
// shares with the program. Nothing of it is believed unchecked.
#include <algorithm>
#include <cstddef>

#include "core/sandbox/wire.h"
#include "fuzz/targets/byte_checks.h"
#include "fuzz/targets/target.h"

namespace qkvet::fuzz {
namespace {

// The fields of a reply, out of the bytes in front.
void fill(CallReply& reply, std::span<const uint8_t> bytes) {
  size_t at = 0;
  const auto take = [&](auto& field) {
    const size_t n = std::min(sizeof(field), bytes.size() - at);
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), n,
                reinterpret_cast<uint8_t*>(&field));
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
  take(reply.device_trace);
  take(reply.device_tensor);
  take(reply.device_bytes);
  take(reply.lengths);
  take(reply.text);
  take(reply.reason_damaged);
  take(reply.reason_damage);
}

std::string kernels_problem(std::string_view bytes, std::string* said) {
  std::vector<KernelInfo> kernels;
  if (!unpack_kernels(bytes, &kernels)) return "";
  *said += " kernels " + std::string(kernels.size(), 'k');
  std::vector<KernelInfo> again;
  if (!unpack_kernels(pack_kernels(kernels), &again))
    return "kernels that were unpacked cannot be packed";
  return again.size() == kernels.size() ? "" : "kernels are lost";
}

}  // namespace

std::string worker_reply_problem(std::span<const uint8_t> bytes, ReplyRead read,
                                 std::string* said) {
  CallReply reply;
  fill(reply, bytes);
  CallPlan plan;
  plan.sequences = 3;
  const CallOutcome outcome = read(reply, plan);
  *said = static_cast<char>('a' + static_cast<int>(outcome.status) % 26);
  if (outcome.status > CallStatus::kNotRun)
    return "a status that there is not is believed";
  if (outcome.text.size() > CallReply::kTextBytes)
    return "the text of a reply is longer than its place";
  if (outcome.lengths.size() > 3) return "lengths of sequences that are not";
  for (const auto& touched : {outcome.fault, outcome.damage})
    if (touched && touched->tensor &&
        static_cast<int>(*touched->tensor) >= kTensorCount)
      return "a tensor that there is not was touched";
  if (outcome.cache_bytes < -1) return "a cache of less than nothing";
  return kernels_problem(as_text(bytes), said);
}

namespace {

std::string check(std::span<const uint8_t> bytes, std::string* said) {
  return worker_reply_problem(bytes, outcome_of, said);
}

}  // namespace

extern constinit const FuzzTarget fuzz_worker_reply = {
    .name = "worker_reply",
    .sentence =
        "Every reply of a worker is read without harm, and an unknown status "
        "is rejected.",
    .check = check};

}  // namespace qkvet::fuzz
