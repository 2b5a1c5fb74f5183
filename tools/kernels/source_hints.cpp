// SPDX-License-Identifier: Apache-2.0
#include "tools/kernels/source_hints.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>

namespace qkvet::tools {
namespace {

// Up to 24 keys and rows nine of ten cases have anyway, and a number that a
// source has is no news there.
constexpr int64_t kLeast = 25, kMost = 65536;
// Each further one takes cases from those in front of it.
constexpr size_t kMostConstants = 12;
// Calls are drawn at so many times a hint, too.
constexpr int64_t kMostTimes = 3;
// Of a source that is no longer one file of a kernel, the first of it.
constexpr size_t kMostBytes = size_t{1} << 22;

// How likely a number is where another path begins.
enum Likely : int { kCompared, kSize, kOther };

template <size_t n>
bool is_one_of(std::string_view text,
               const std::array<std::string_view, n>& words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

// Directives are no tokens, and constants of C stand in them. Without the word
// that makes them directives their rest is read as all else is.
std::string with_directives(std::string text) {
  static constexpr auto kRead =
      std::to_array<std::string_view>({"define", "if", "elif"});
  for (size_t line = 0; line < text.size();) {
    const size_t end = std::min(text.find('\n', line), text.size());
    size_t at = std::min(text.find_first_not_of(" \t", line), end);
    if (at < end && text[at] == '#') {
      const size_t word = std::min(text.find_first_not_of(" \t", at + 1), end);
      size_t behind = word;
      while (behind < end &&
             std::isalpha(static_cast<unsigned char>(text[behind])) != 0)
        ++behind;
      if (is_one_of(std::string_view(text).substr(word, behind - word), kRead))
        std::fill(text.begin() + static_cast<std::ptrdiff_t>(at),
                  text.begin() + static_cast<std::ptrdiff_t>(behind), ' ');
    }
    line = end + 1;
  }
  return text;
}

// Nothing for what is no whole number: 1e4, 0.5f, 64f32.
std::optional<int64_t> integer_of(std::string_view written) {
  std::string text;
  for (const char c : written)
    if (c != '\'' && c != '_') text += c;
  int base = 10;
  size_t digits = 0;
  if (text.size() > 2 && text[0] == '0') {
    const char kind = static_cast<char>(text[1] | 0x20);
    base = kind == 'x' ? 16 : kind == 'b' ? 2 : kind == 'o' ? 8 : 10;
    if (base != 10) digits = 2;
  }
  int64_t value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, code] =
      std::from_chars(text.data() + digits, last, value, base);
  if (code != std::errc()) return std::nullopt;
  constexpr std::string_view kSuffixes = "uUlLzZi";
  if (end != last && kSuffixes.find(*end) == std::string_view::npos)
    return std::nullopt;
  return value;
}

struct Constant {
  int64_t value = 0;
  int line = 0;
  int likely = kOther;
};

class Constants {
 public:
  Constants(const std::string& text, Language language)
      : tokens_(text, language) {
    find_names();
    for (size_t i = 0; i < tokens_.size();) {
      const auto chain = chain_at(i);
      if (chain) add(*chain);
      i = chain ? chain->last + 1 : i + 1;
    }
  }

  // The likeliest first, then in the order of the source.
  std::vector<Constant> all() const {
    std::vector<Constant> all = found_;
    std::stable_sort(all.begin(), all.end(),
                     [](const Constant& a, const Constant& b) {
                       return a.likely < b.likely;
                     });
    return all;
  }

 private:
  // Numbers and names of such, multiplied or shifted: 4 * kTile, 1 << 10.
  struct Chain {
    int64_t value = 0;
    size_t first = 0, last = 0;
  };

  std::optional<int64_t> operand_at(size_t i) const {
    if (tokens_.is_number(i)) return integer_of(tokens_.text(i));
    if (!tokens_.is_word(i)) return std::nullopt;
    const auto named = names_.find(tokens_.text(i));
    if (named == names_.end()) return std::nullopt;
    return found_of_names_[named->second].value;
  }

  std::optional<Chain> chain_at(size_t first) const {
    const auto value = operand_at(first);
    if (!value) return std::nullopt;
    Chain chain{*value, first, first};
    for (;;) {
      const std::string_view by = tokens_.text(chain.last + 1);
      const auto next = operand_at(chain.last + 2);
      constexpr int64_t kFar = int64_t{1} << 31;
      constexpr int64_t kMostShift = 31;
      if (!next || *next < 0 || *next > kFar || chain.value > kFar) break;
      if (by == "*")
        chain.value *= *next;
      else if (by == "<<" && *next <= kMostShift)
        chain.value <<= *next;
      else
        break;
      chain.last += 2;
    }
    return chain;
  }

  bool begins_line(size_t i) const {
    return i == 0 || tokens_[i - 1].line != tokens_[i].line;
  }

  // What "name = 64" and "#define NAME 64" name, and no other number.
  void find_names() {
    static constexpr auto kEnds =
        std::to_array<std::string_view>({";", ",", ")", "}"});
    for (size_t i = 0; i + 1 < tokens_.size(); ++i) {
      if (!tokens_.is_word(i) || tokens_.is_keyword(i)) continue;
      // In Rust and Python a type may stand between.
      size_t equals = i + 1;
      if (tokens_.text(equals) == ":")
        while (equals < i + 6 && tokens_.text(equals) != "=") ++equals;
      const bool assigned = tokens_.text(equals) == "=";
      const bool defined = begins_line(i) && tokens_.is_number(i + 1);
      if (!assigned && !defined) continue;
      const auto chain = chain_at(assigned ? equals + 1 : i + 1);
      if (!chain) continue;
      const size_t behind = chain->last + 1;
      if (behind < tokens_.size() && !begins_line(behind) &&
          !is_one_of(tokens_.text(behind), kEnds))
        continue;
      if (names_.emplace(std::string(tokens_.text(i)), found_of_names_.size())
              .second)
        found_of_names_.push_back(
            {chain->value, tokens_[chain->first].line, kOther});
    }
  }

  int likely_at(const Chain& chain) const {
    static constexpr auto kCompares =
        std::to_array<std::string_view>({"<", "<=", ">", ">=", "==", "!="});
    static constexpr auto kSizes = std::to_array<std::string_view>(
        {"%", "/", "//", "+=", "-=", "=", "*", "+", "-"});
    int likely = kOther;
    for (const size_t beside : {chain.first - 1, chain.last + 1}) {
      if (beside >= tokens_.size()) continue;
      const std::string_view text = tokens_.text(beside);
      if (is_one_of(text, kCompares))
        likely = std::min<int>(
            likely, tokens_[beside].of_type ? int{kSize} : int{kCompared});
      if (is_one_of(text, kSizes)) likely = std::min<int>(likely, kSize);
    }
    return likely;
  }

  // One record for a value, at the first place where it is written out.
  void add(const Chain& chain) {
    Constant now{chain.value, tokens_[chain.first].line, likely_at(chain)};
    if (chain.first == chain.last && tokens_.is_word(chain.first))
      now.line =
          found_of_names_[names_.find(tokens_.text(chain.first))->second].line;
    const auto had = std::find_if(
        found_.begin(), found_.end(),
        [&now](const Constant& one) { return one.value == now.value; });
    if (had == found_.end())
      found_.push_back(now);
    else
      had->likely = std::min(had->likely, now.likely);
  }

  const Tokens tokens_;
  std::map<std::string, size_t, std::less<>> names_;
  std::vector<Constant> found_of_names_;
  std::vector<Constant> found_;
};

}  // namespace

std::vector<Hint> source_hints(const std::string& text, Language language) {
  const bool has_directives =
      language == Language::kC || language == Language::kCxx;
  std::vector<int64_t> kept;
  std::vector<Hint> hints;
  const Constants constants(has_directives ? with_directives(text) : text,
                            language);
  for (const Constant& one : constants.all()) {
    if (one.value < kLeast || one.value > kMost ||
        kept.size() == kMostConstants)
      continue;
    if (std::any_of(kept.begin(), kept.end(), [&one](int64_t had) {
          return one.value % had == 0 && one.value / had <= kMostTimes;
        }))
      continue;
    kept.push_back(one.value);
    for (const int32_t axis : {QKVET_AXIS_TK, QKVET_AXIS_TQ})
      hints.push_back({{axis, static_cast<int32_t>(one.value)},
                       "the source, line " + std::to_string(one.line)});
  }
  return hints;
}

std::vector<Hint> source_hints_of_file(const std::string& path,
                                       Language language) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  text.resize(kMostBytes);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return source_hints(text, language);
}

}  // namespace qkvet::tools
