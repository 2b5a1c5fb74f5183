// SPDX-License-Identifier: Apache-2.0
#include "cli/mutate/lines_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "cli/mutate/mutation_run.h"
#include "cli/mutate/schemata.h"
#include "cli/mutate/trap.h"
#include "core/base/read_file.h"
#include "report/written_file.h"

namespace qkvet::cli {
namespace {

// Whether these braces contain statements, and not numbers or members.
bool is_block(const Tokens& tokens, size_t open) {
  if (tokens.text(open) != "{" || open == 0) return false;
  for (const std::string_view before :
       {")", "else", "do", "try", ";", "{", "}", "const", "noexcept"})
    if (tokens.text(open - 1) == before) return true;
  return false;
}

// The statement around token `i` of a function, by its first token; kNoToken.
size_t statement_around(const Tokens& tokens, size_t i) {
  for (;;) {
    while (tokens[i].inside != kNoToken && !is_block(tokens, tokens[i].inside))
      i = tokens[i].inside;
    if (tokens[i].inside == kNoToken) return kNoToken;
    const size_t first = begin_of_statement(tokens, i);
    // After the brace of a list the statement continues.
    if (first == kNoToken || first == 0 || tokens.text(first - 1) != "}" ||
        is_block(tokens, tokens[first - 1].partner))
      return first;
    i = tokens[first - 1].partner;
  }
}

// A statement without a place before it, or without one that is reached.
bool is_part(const Tokens& tokens, size_t first) {
  const std::string_view text = tokens.text(first);
  return text == "else" || text == "catch" || text == "case" ||
         text == "default" ||
         (text == "while" && tokens.text(first - 1) == "}");
}

// One that ends at its semicolon and leaves no loop.
bool is_plain(const Tokens& tokens, size_t first) {
  for (size_t i = first; i < tokens.size(); i = tokens.behind(i)) {
    const std::string_view text = tokens.text(i);
    if (text == ";") return true;
    if (text == "{" || text == "}" || text == "break" || text == "else" ||
        text == "if" || text == "for" || text == "while" || text == "do" ||
        text == "switch")
      return false;
  }
  return false;
}

}  // namespace

LinesRun::LinesRun(const MutantCompiler& compiler, const Tokens& tokens,
                   const std::string& folder)
    : compiler_(&compiler), tokens_(&tokens), file_(folder + "/lines-run") {
  find_marks();
  forget();
}

void LinesRun::find_marks() {
  const Tokens& tokens = *tokens_;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string_view text = tokens.text(i);
    if (text == "{" || text == "}" || tokens.is_rust()) continue;
    const size_t first = statement_around(tokens, i);
    if (first == kNoToken || first == 0) continue;
    const Token& token = tokens[first];
    if (marks_.count(token.at) > 0 ||
        !body_around(tokens, token.at, token.at + token.size))
      continue;
    const std::string_view before = tokens.text(first - 1);
    const bool is_among_others =
        before == ";" || before == "{" || before == "}";
    if (is_part(tokens, first) ||
        (!is_among_others && !is_plain(tokens, first)))
      continue;
    marks_[token.at] = {first, is_among_others};
  }
}

std::string LinesRun::text() const {
  const char* const scope = compiler_->language == Language::kC ? "" : "::";
  std::string text = fmt::format(
      R"(#include <fcntl.h>
#include <sys/mman.h>
static void qkvet_line_run(int line) {{
  static unsigned char* lines = 0;
  if (lines == 0)
    lines = (unsigned char*)mmap(0, {}, PROT_READ | PROT_WRITE, MAP_SHARED,
                                 open("{}", O_RDWR), 0);
  if (lines != (unsigned char*)MAP_FAILED) lines[line] = 1;
}}
{})",
      file_bytes().size(), file_, line_directive(*compiler_, 1));
  const std::string& source = tokens_->source();
  size_t at = 0;
  for (const auto& [byte, mark] : marks_) {
    text += source.substr(at, byte - at);
    const std::string call =
        fmt::format("{}qkvet_line_run({})", scope, (*tokens_)[mark.token].line);
    // Not an if, which would take the else of another.
    text += mark.is_among_others
                ? call + "; "
                : fmt::format("switch ({}, 0) default: ", call);
    at = byte;
  }
  return text + source.substr(at);
}

// A byte per line, and one for the place before the first.
std::string LinesRun::file_bytes() const {
  const std::string& source = tokens_->source();
  return std::string(
      static_cast<size_t>(std::count(source.begin(), source.end(), '\n')) + 2,
      '\0');
}

// Overwritten, not replaced: workers that have it mapped continue to write to
// it.
void LinesRun::forget() {
  const std::string none = file_bytes();
  std::fstream file(file_, std::ios::in | std::ios::out | std::ios::binary);
  if (!file) {
    write_file(file_, none);
    return;
  }
  file.write(none.data(), static_cast<std::streamsize>(none.size()));
}

std::set<int> LinesRun::lines() const {
  std::string bytes;
  std::set<int> lines;
  if (!read_file(file_, &bytes).empty()) return lines;
  for (size_t n = 0; n < bytes.size(); ++n)
    if (bytes[n] != 0) lines.insert(static_cast<int>(n));
  return lines;
}

int LinesRun::line_of(const Mutation& mutation) const {
  if (mutation.edits.empty() || tokens_->size() == 0) return 0;
  size_t i = 0;
  while (i + 1 < tokens_->size() &&
         (*tokens_)[i + 1].at <= mutation.edits[0].at)
    ++i;
  // A part without a mark belongs to the statement around it.
  for (size_t first = i;;) {
    first = statement_around(*tokens_, first);
    if (first == kNoToken) return 0;
    const auto mark = marks_.find((*tokens_)[first].at);
    if (mark != marks_.end()) return (*tokens_)[first].line;
    if (first > 0 && tokens_->text(first - 1) == ")") {
      first = (*tokens_)[first - 1].partner;  // of the for or if in front
      continue;
    }
    const size_t around = (*tokens_)[first].inside;
    if (around == kNoToken || around >= first) return 0;
    first = around;
  }
}

double LineCount::suspicion(int all_failing) const {
  const double runs = failing + passing;
  return failing == 0
             ? 0
             : failing / std::sqrt(static_cast<double>(all_failing) * runs);
}

}  // namespace qkvet::cli
