// SPDX-License-Identifier: Apache-2.0
#include "core/story/story_log.h"

#include <algorithm>
#include <span>
#include <unordered_map>
#include <utility>

#include "core/base/printable.h"
#include "core/call/call.h"
#include "core/case/case_text.h"

namespace qkvet {
namespace {

constexpr std::string_view kFirstLine = "qkvet-story 1";
// A cache is created before the story: its case has some command all the same.
constexpr std::string_view kStandIn = ",B1,story=step.a.1";

// The words of a line up to a comment.
std::vector<std::string_view> line_words(std::string_view line) {
  constexpr std::string_view kSpace = " \t\r";
  std::vector<std::string_view> words;
  for (;;) {
    const size_t from = line.find_first_not_of(kSpace);
    if (from == std::string_view::npos || line[from] == '#') return words;
    line.remove_prefix(from);
    const size_t size = std::min(line.find_first_of(kSpace), line.size());
    words.push_back(line.substr(0, size));
    line.remove_prefix(size);
  }
}

class Parser {
 public:
  std::string parse(std::string_view text, StoryLog& log);
  int64_t line() const { return line_; }

 private:
  using Words = std::vector<std::string_view>;

  std::string read(const Words& words);
  std::string read_geometry(const Words& words);
  std::string read_line(const Words& words);
  std::string read_reorder(const Words& words, StoryCommand& command);
  std::optional<int64_t> place_of(std::string_view id);
  void leave(std::string_view id);

  StoryLog* log_ = nullptr;
  std::unordered_map<std::string, int64_t> places_;  // of all ids; -1: none
  std::vector<bool> taken_;  // places: as many as were ever taken at once
  int64_t line_ = 0;
  bool begun_ = false, has_geometry_ = false;
};

std::string Parser::parse(std::string_view text, StoryLog& log) {
  log_ = &log;
  log.text = text;
  text = log.text;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const auto words = line_words(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line_;
    // The first line names the format: nothing may come before it.
    if (words.empty() && begun_) continue;
    if (std::string wrong = read(words); !wrong.empty()) return wrong;
  }
  if (!begun_) return "is empty; the first line is " + std::string(kFirstLine);
  if (!has_geometry_) return "ends before its line \"cache ...\"";
  if (log.story.empty())
    return "holds no command; " + std::string(kCommandWords);
  log.ids = std::ssize(places_);
  log.geometry.shape.B = std::ssize(taken_);
  for (StoryCommand& command : log.story)
    if (command.verb == StoryVerb::kReorder)
      command.parents +=
          own_parents(log.geometry.shape.B).substr(command.parents.size());
  return "";
}

std::string Parser::read(const Words& words) {
  if (begun_) return has_geometry_ ? read_line(words) : read_geometry(words);
  begun_ = true;
  const bool ours = words.size() == 2 && words[0] == "qkvet-story";
  if (ours && words[1] == "1") return "";
  return ours ? "version \"" + std::string(words[1]) +
                    "\": this program reads version 1"
              : "the first line must be \"" + std::string(kFirstLine) + "\"";
}

std::string Parser::read_geometry(const Words& words) {
  has_geometry_ = true;
  const std::string form =
      "the second line is \"cache KEYS\", such as cache "
      "f32,H2,Hkv1,d4,cap64";
  if (words.size() != 2 || words[0] != "cache") return form;
  const std::string keys(words[1]);
  const std::string all = "," + keys;
  for (size_t at = all.find(",B"); at != std::string::npos;
       at = all.find(",B", at + 1))
    if (at + 2 < all.size() && all[at + 2] >= '0' && all[at + 2] <= '9')
      return "B: the sequences of a recording are its ids, no number is given";
  if (all.find(",story=") != std::string::npos)
    return "story=: the commands of a recording follow, one a line";
  ParsedCase parsed = parse_case(keys + std::string(kStandIn));
  if (!parsed.value) return "cache " + keys + ": " + parsed.error;
  if (!parsed.value->set.empty())
    return "set=: the values of a recording are its recipes' alone";
  if (parsed.value->cache.per_channel())
    return "stored=: scales per channel need all of the data beforehand; "
           "int8token and fp8token can be recorded";
  log_->geometry = std::move(*parsed.value);
  return "";
}

std::optional<int64_t> Parser::place_of(std::string_view id) {
  if (id.empty() || id.find('=') != std::string_view::npos) return std::nullopt;
  int64_t& place = places_.emplace(std::string(id), -1).first->second;
  if (place >= 0) return place;
  const auto free = std::find(taken_.begin(), taken_.end(), false);
  place = free - taken_.begin();
  if (free == taken_.end())
    taken_.push_back(true);
  else
    *free = true;
  return place;
}

void Parser::leave(std::string_view id) {
  int64_t& place = places_.at(std::string(id));
  taken_[static_cast<size_t>(place)] = false;
  place = -1;
}

// Those that change take their places before those that they become, as if all
// sequences were named in order: so a recording that is written out is read
// with the same places.
std::string Parser::read_reorder(const Words& words, StoryCommand& command) {
  command.verb = StoryVerb::kReorder;
  if (words.size() < 2)
    return "reorder with 0 words: " + std::string(kCommandWords);
  std::vector<int64_t> changed;
  for (const std::string_view word : std::span(words).subspan(1)) {
    const auto id = place_of(word.substr(0, word.find('=')));
    if (id && std::ranges::count(changed, *id) > 0)
      return quoted(word) + ": this id was given one already";
    changed.push_back(id.value_or(-1));
  }
  std::vector<int64_t> parents;
  for (size_t n = 0; n < changed.size(); ++n) {
    const std::string_view word = words[n + 1];
    const size_t equals = word.find('=');
    const auto from = equals == std::string_view::npos
                          ? std::nullopt
                          : place_of(word.substr(equals + 1));
    if (changed[n] < 0 || !from)
      return quoted(word) +
             ": reorder takes ID=ID ..., each with what it becomes";
    parents.push_back(*from);
  }
  command.parents = own_parents(std::ssize(taken_));
  for (size_t n = 0; n < changed.size(); ++n)
    command.parents[static_cast<size_t>(changed[n])] =
        parent_letter(parents[n]);
  return "";
}

std::string Parser::read_line(const Words& words) {
  if (log_->story.size() == kMostLogCommands)
    return "more than " + std::to_string(kMostLogCommands) + " commands";
  StoryCommand command;
  std::string wrong =
      words[0] == verb_name(StoryVerb::kReorder)
          ? read_reorder(words, command)
          : read_command(
                words, [this](std::string_view id) { return place_of(id); },
                &command);
  if (!wrong.empty()) return wrong;
  if (std::ssize(taken_) > kMostCacheSequences)
    return std::to_string(taken_.size()) +
           " sequences are live at once; at most " +
           std::to_string(kMostCacheSequences) +
           " can be (reset ID ends a request)";
  if (command.verb == StoryVerb::kReset) leave(words[1]);
  log_->story.push_back(std::move(command));
  const std::string_view last = words.back();
  log_->lines.push_back(
      {line_, static_cast<size_t>(words[0].data() - log_->text.data()),
       static_cast<size_t>(last.data() + last.size() - words[0].data())});
  return "";
}

}  // namespace

std::string_view StoryLog::command_text(size_t command) const {
  return std::string_view(text).substr(lines[command].begin,
                                       lines[command].size);
}

std::string_view StoryLog::first_id(size_t command) const {
  const std::string_view id = line_words(command_text(command))[1];
  return id.substr(0, id.find('='));
}

std::optional<StoryLog> parse_story_log(std::string_view text,
                                        const std::string& name,
                                        std::string* error) {
  StoryLog log;
  Parser parser;
  const std::string wrong = parser.parse(text, log);
  if (wrong.empty()) return log;
  *error = name + ":" + std::to_string(std::max<int64_t>(parser.line(), 1)) +
           ": " + printable(wrong);
  return std::nullopt;
}

std::string log_command_text(const StoryCommand& command) {
  constexpr int64_t kLetters = 26;
  const auto id = [](int64_t place) {
    return place < kLetters ? std::string(1, parent_letter(place))
                            : "s" + std::to_string(place);
  };
  std::string text(verb_name(command.verb));
  if (command.verb == StoryVerb::kReorder) {
    for (size_t to = 0; to < command.parents.size(); ++to)
      text += " " + id(static_cast<int64_t>(to)) + "=" +
              id(parent_place(command.parents[to]));
    return text;
  }
  text += " " + id(command.sequence);
  if (command.verb == StoryVerb::kReset) return text;
  if (command.verb == StoryVerb::kEvict)
    text += " " + std::to_string(command.first);
  return text + " " +
         (command.verb == StoryVerb::kFork ? id(command.count)
                                           : std::to_string(command.count));
}

std::string story_log_text(const Case& geometry, const Story& story) {
  Case keys = geometry;
  keys.shape.B = 1;
  std::string text = to_string(keys);
  // The stand-in's tokens, which are the last key, and B, which is none.
  text.resize(text.rfind(",story="));
  if (const size_t b = text.find(",B1,"); b != std::string::npos)
    text.erase(b, 3);
  text = std::string(kFirstLine) + "\ncache " + text + "\n";
  for (const StoryCommand& command : story)
    text += log_command_text(command) + "\n";
  return text;
}

}  // namespace qkvet
