// SPDX-License-Identifier: Apache-2.0
#include "cli/mutate/schemata.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "cli/mutate/mutation_run.h"
#include "core/base/read_file.h"
#include "report/written_file.h"

namespace qkvet::cli {
namespace {

namespace fs = std::filesystem;

// The text before the number, which occurs only once in the library.
constexpr std::string_view kMark = "qkvet: which mutant runs 7e1c4a";
constexpr size_t kBytesOfNumber = 2;
// The compiler names the lines of a mutant's body by this and its number.
constexpr std::string_view kFile = "qkvet-mutant-";
// Compilers stop after the first errors, so the rest may have more.
constexpr int kMostRounds = 6;

bool is_one_of(std::string_view text,
               std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

// The ) of the arguments of the function with a body that opens at `open`;
// absent if it is none.
std::optional<size_t> end_of_arguments(const Tokens& tokens, size_t open) {
  size_t i = open;
  bool is_returned_type = false;  // after ->
  while (i-- > 0) {
    const std::string_view text = tokens.text(i);
    if (text == ")") {
      const size_t begin = tokens[i].partner;
      if (begin == 0 || begin >= i) return std::nullopt;
      if (tokens.text(begin - 1) == "noexcept") {
        i = begin - 1;
        continue;
      }
      const std::string_view name = tokens.text(begin - 1);
      const bool is_none =
          is_returned_type ||
          is_one_of(name,
                    {"if", "for", "while", "switch", "catch", "alignas",
                     "decltype", "requires", "__attribute__", "__declspec"});
      return is_none ? std::nullopt : std::optional(i);
    }
    if (text == "->") {
      is_returned_type = false;
      continue;
    }
    if (is_one_of(text, {"const", "noexcept", "override", "final", "mutable",
                         "&", "&&"}))
      continue;
    const bool is_type =
        tokens.is_word(i) || is_one_of(text, {"::", "<", ">", ">>", "*", ","});
    if (!is_type || is_one_of(text, {"namespace", "struct", "class", "union",
                                     "enum", "else", "do", "try"}))
      return std::nullopt;
    is_returned_type = true;
  }
  return std::nullopt;
}

// A constant's function cannot read the number, and a device's has no data of
// the host's.
bool has_several_bodies(const Tokens& tokens, size_t open) {
  const std::optional<size_t> end = end_of_arguments(tokens, open);
  if (!end) return false;
  for (size_t i = tokens[*end].partner; i-- > 0;) {
    const std::string_view text = tokens.text(i);
    if (is_one_of(text, {";", "}", "{"})) break;
    if (is_one_of(text, {"constexpr", "consteval", "__device__", "__global__"}))
      return false;
    if (tokens[i].partner < i) i = tokens[i].partner;
  }
  return true;
}

// The mutated source, from `from` to `to`: bytes of the source as it was, with
// all edits between them.
std::string mutated_part(const std::string& source, const Mutation& mutation,
                         size_t from, size_t to) {
  const std::string whole = mutated(source, mutation);
  return whole.substr(from, whole.size() - source.size() + to - from);
}

// The numbers of the mutants that the compiler rejects: those with an error in
// their lines, or, for an error in a header, those that led there.
std::set<size_t> refused_by(const std::string& said) {
  static const std::regex kNumber(std::string(kFile) + "([0-9]+):");
  std::set<size_t> direct, mentioned;
  std::istringstream lines(said);
  for (std::string line; std::getline(lines, line);)
    for (std::sregex_iterator it(line.begin(), line.end(), kNumber), end;
         it != end; ++it) {
      const size_t number = std::stoul((*it)[1]);
      mentioned.insert(number);
      if (it->position() == 0 && line.find("error: ") != std::string::npos)
        direct.insert(number);
    }
  return direct.empty() ? mentioned : direct;
}

}  // namespace

std::optional<FunctionBody> body_around(const Tokens& tokens,
                                        const Mutation& mutation) {
  if (mutation.edits.empty()) return std::nullopt;
  const Edit& last = mutation.edits.back();
  return body_around(tokens, mutation.edits.front().at, last.at + last.size);
}

std::optional<FunctionBody> body_around(const Tokens& tokens, size_t begin,
                                        size_t end) {
  if (tokens.is_rust()) return std::nullopt;
  size_t i = 0;
  while (i + 1 < tokens.size() && tokens[i + 1].at <= begin) ++i;
  std::optional<FunctionBody> found;
  for (size_t around = i < tokens.size() ? tokens[i].inside : kNoToken;
       around != kNoToken; around = tokens[around].inside) {
    const size_t close = tokens[around].partner;
    if (tokens.text(around) != "{" || close <= around) continue;
    if (tokens[around].at < begin && end <= tokens[close].at &&
        has_several_bodies(tokens, around))
      found = FunctionBody{around, close};
  }
  return found;
}

std::string schemata_text(const MutantCompiler& compiler, const Tokens& tokens,
                          std::span<const Mutation> mutations,
                          std::span<const size_t> chosen) {
  struct Bodies {
    FunctionBody body;
    std::vector<size_t> numbers;  // into `chosen`
  };
  std::map<size_t, Bodies> by_place;
  for (size_t n = 0; n < chosen.size(); ++n)
    if (const auto body = body_around(tokens, mutations[chosen[n]])) {
      Bodies& bodies = by_place[body->open];
      bodies.body = *body;
      bodies.numbers.push_back(n);
    }
  const bool is_c = compiler.language == Language::kC;
  const std::string& source = tokens.source();
  const auto back_to = [&](int line) {
    return "\n" + line_directive(compiler, line);
  };
  std::string text = fmt::format(
      "static volatile struct {{ char mark[{}]; unsigned char number[{}]; }} "
      "qkvet_which_mutant __attribute__((used)) = {{\"{}\", {{0}}}};",
      kMark.size() + 1, kBytesOfNumber, kMark);
  text += back_to(1);
  size_t at = 0;
  for (const auto& [open, bodies] : by_place) {
    const Token& first = tokens[open];
    const Token& last = tokens[bodies.body.close];
    // Its columns are those of the source, too, for the compiler's messages.
    text += source.substr(at, first.at - at);
    text += fmt::format(
        "{{ switch ({}qkvet_which_mutant.number[0] + "
        "256 * {}qkvet_which_mutant.number[1]) {{",
        is_c ? "" : "::", is_c ? "" : "::");
    for (const size_t n : bodies.numbers) {
      text +=
          fmt::format("\ncase {}:\n#line 1 \"{}{}\"\n", n + 1, kFile, n + 1);
      text += mutated_part(source, mutations[chosen[n]], first.at,
                           last.at + last.size);
      text += " break;";
    }
    text += "\ndefault:" + back_to(first.line);
    text += source.substr(first.at, last.at + last.size - first.at);
    text += "} }" + back_to(last.line);
    at = last.at + last.size;
  }
  return text + source.substr(at);
}

Schemata build_schemata(const MutantCompiler& compiler, const Tokens& tokens,
                        std::span<const Mutation> mutations,
                        std::span<const size_t> chosen,
                        const std::string& folder) {
  Schemata out;
  // Without line directives, errors cannot be attributed to mutants.
  if (line_directive(compiler, 1).empty()) return out;
  std::vector<size_t> left(chosen.begin(), chosen.end());
  const std::string library = (fs::path(folder) / "schemata.so").string();
  for (int round = 0; round < kMostRounds && !left.empty(); ++round) {
    const std::string said =
        build_mutant(compiler, schemata_text(compiler, tokens, mutations, left),
                     folder, library);
    if (said.empty()) {
      out.library = library;
      out.mutants = left;
      break;
    }
    const std::set<size_t> refused = refused_by(said);
    if (refused.empty()) break;
    std::vector<size_t> next;
    for (size_t n = 0; n < left.size(); ++n)
      (refused.count(n + 1) > 0 ? out.refused : next).push_back(left[n]);
    left = std::move(next);
  }
  if (out.library.empty()) out.refused.clear();
  return out;
}

std::string choose_mutant(const std::string& library, size_t number,
                          const std::string& copy) {
  std::string bytes;
  if (const std::string error = read_file(library, &bytes); !error.empty())
    return error;
  const size_t at = bytes.find(kMark);
  if (at == std::string::npos) return library + ": holds no number of a mutant";
  // After the text and its 0, least byte first.
  for (size_t n = 0; n < kBytesOfNumber; ++n)
    bytes[at + kMark.size() + 1 + n] =
        static_cast<char>(uint64_t{number} >> (8 * n));
  return write_file(copy, bytes);
}

}  // namespace qkvet::cli
