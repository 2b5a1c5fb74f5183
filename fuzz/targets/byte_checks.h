// SPDX-License-Identifier: Apache-2.0
// The checks of parsers by the targets of bytes: "" or the problem. The parsers
// are arguments, so that tests can give each check a wrong one.
#ifndef QKVET_FUZZ_TARGETS_BYTE_CHECKS_H_
#define QKVET_FUZZ_TARGETS_BYTE_CHECKS_H_

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/case/case.h"
#include "core/door/call_reply.h"
#include "core/files/npy.h"
#include "core/files/npz.h"
#include "core/files/onnx_tensor.h"
#include "core/files/safetensors.h"
#include "core/story/story_log.h"
#include "properties/conditions/condition.h"

namespace qkvet::fuzz {

inline std::string_view as_text(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A reason that can be printed in one line of a terminal, for any input.
inline bool is_one_line(const std::string& reason) {
  return !reason.empty() &&
         std::none_of(reason.begin(), reason.end(), [](char c) {
           return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
         });
}

// The subject of a refusal, without the words of the input that it repeats:
// these are before the last ": ", or between quotes.
inline std::string kind_of(const std::string& refusal) {
  const size_t colon = refusal.rfind(": ");
  std::string kind;
  bool quoted = false;
  for (size_t n = colon == std::string::npos ? 0 : colon + 2;
       n < refusal.size(); ++n) {
    quoted ^= refusal[n] == '"';
    if (!quoted && refusal[n] >= 'A') kind += refusal[n];
  }
  return kind;
}

using CaseParse = decltype(&parse_case);
std::string case_text_problem(std::string_view text, CaseParse parse,
                              std::string* said);

using StoryParse = decltype(&parse_story_log);
std::string story_text_problem(std::string_view text, StoryParse parse,
                               std::string* said);

using ConditionParse = decltype(&parse_condition);
std::string condition_text_problem(std::string_view text, ConditionParse parse,
                                   std::string* said);

using ReplyRead = decltype(&outcome_of);
std::string worker_reply_problem(std::span<const uint8_t> bytes, ReplyRead read,
                                 std::string* said);

using NpyParse = decltype(&parse_npy);
std::string npy_problem(std::span<const std::byte> file, NpyParse parse,
                        std::string* said);

using SafetensorsParse = decltype(&parse_safetensors);
std::string safetensors_problem(std::span<const std::byte> file,
                                SafetensorsParse parse, std::string* said);

using NpzParse = decltype(&parse_npz);
std::string npz_problem(std::span<const std::byte> file, NpzParse parse,
                        std::string* said);

using OnnxTensorParse = decltype(&parse_onnx_tensor);
std::string onnx_tensor_problem(std::span<const std::byte> file,
                                OnnxTensorParse parse, std::string* said);

using OnnxNodeParse = decltype(&parse_onnx_node);
std::string onnx_node_problem(std::span<const std::byte> file,
                              OnnxNodeParse parse, std::string* said);

}  // namespace qkvet::fuzz

#endif  // QKVET_FUZZ_TARGETS_BYTE_CHECKS_H_
