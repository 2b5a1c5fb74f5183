// SPDX-License-Identifier: Apache-2.0
#include "golden/format/set.h"

#include <algorithm>
#include <array>

#include "core/capability/declaration.h"

namespace qkvet::golden {
namespace {

constexpr std::array<std::string_view, 4> kArithmetics = {"exact", "f64",
                                                          "storage", "kernel"};

// Metadata of every set; "dialect" and "finding" may be left out.
constexpr std::string_view kNeeded[] = {"qkvet",  "case",      "pins",
                                        "source", "generator", "arithmetic"};
constexpr std::string_view kOptional[] = {"dialect", "finding", "digest"};

std::string missing_text(const SafetensorsMetadata& metadata) {
  const auto format = metadata.find("qkvet");
  if (format == metadata.end() || format->second != kGoldenFormat)
    return "no golden set: the metadata say " +
           (format == metadata.end() ? "nothing under \"qkvet\""
                                     : "qkvet = " + shown(format->second)) +
           "; allowed " + shown(kGoldenFormat);
  for (const std::string_view key : kNeeded)
    if (!metadata.contains(key)) return "the metadata have no " + shown(key);
  for (const auto& [key, value] : metadata) {
    const auto is_key = [&, &name = key](std::string_view one) {
      return one == name;
    };
    if (std::none_of(std::begin(kNeeded), std::end(kNeeded), is_key) &&
        std::none_of(std::begin(kOptional), std::end(kOptional), is_key))
      return "metadata " + shown(key) +
             ": unknown; allowed: qkvet case pins "
             "source generator arithmetic dialect finding digest";
  }
  return "";
}

// Recipes have versions: outputs recorded with other inputs are meaningless.
std::string wrong_digest(const SafetensorsMetadata& metadata,
                         const Case& value) {
  const std::string recorded = value_of(metadata, "digest");
  if (recorded.empty() || !can_store(value.q_dtype)) return "";
  const std::string digest = digest_text(value);
  return recorded == digest ? ""
                            : "its inputs had the digest " + shown(recorded) +
                                  ", here the case has " + digest;
}

std::string read_arithmetic(const std::string& text, Arithmetic* arithmetic) {
  const auto* const found =
      std::find(kArithmetics.begin(), kArithmetics.end(), text);
  if (found == kArithmetics.end())
    return "arithmetic " + shown(text) +
           ": allowed exact, f64, storage, kernel";
  *arithmetic = static_cast<Arithmetic>(found - kArithmetics.begin());
  return "";
}

}  // namespace

std::string digest_text(const Case& value) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const uint32_t digest = input_digest(make_inputs(value));
  std::string text;
  for (int shift = 28; shift >= 0; shift -= 4)
    text += kDigits[digest >> shift & 15];
  return text;
}

std::string_view arithmetic_name(Arithmetic arithmetic) {
  return kArithmetics[static_cast<size_t>(arithmetic)];
}

std::string value_of(const SafetensorsMetadata& metadata,
                     std::string_view key) {
  const auto found = metadata.find(key);
  return found != metadata.end() ? found->second : "";
}

bool is_set_name(std::string_view name) {
  constexpr size_t kLongest = 64;
  return !name.empty() && name.size() <= kLongest &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") ==
             name.npos;
}

std::optional<GoldenSet> read_golden_set(std::span<const std::byte> file,
                                         const std::string& name,
                                         const std::string& path,
                                         std::string* error) {
  const auto read = parse_safetensors(file, error);
  if (!read) return std::nullopt;
  const SafetensorsMetadata& metadata = read->metadata;
  *error = missing_text(metadata);
  GoldenSet set;
  if (error->empty())
    *error = read_arithmetic(value_of(metadata, "arithmetic"), &set.arithmetic);
  if (error->empty())
    *error =
        parse_dialect("dialect", value_of(metadata, "dialect"), set.dialect);
  if (!error->empty()) return std::nullopt;
  auto recording = make_recording(named_tensors(*read, file),
                                  value_of(metadata, "case"), path, error);
  if (!recording) return std::nullopt;
  *error = wrong_digest(metadata, recording->value);
  if (!error->empty()) return std::nullopt;
  set.name = name;
  set.recording = std::move(*recording);
  set.pins = value_of(metadata, "pins");
  set.source = value_of(metadata, "source");
  set.generator = value_of(metadata, "generator");
  set.finding = value_of(metadata, "finding");
  set.metadata = metadata;
  return set;
}

}  // namespace qkvet::golden
