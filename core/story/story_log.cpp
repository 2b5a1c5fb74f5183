// SPDX-License-Identifier: Apache-2.0
#include "core/story/story_log.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "core/base/printable.h"
#include "core/call/call.h"
#include "core/case/case_text.h"

namespace qkvet {
namespace {

constexpr std::string_view kFirstLine = "qkvet-story 1";
// A cache is created before the story: its case has some command all the same.
constexpr std::string_view kStandIn = ",B1,story=step.a.1";
constexpr std::string_view kAllowed =
    "write append ID N, attend ID N, step ID N, truncate ID N, evict ID F N, "
    "reset ID, fork ID NEWID or reorder ID=ID ID=ID ...";

// The words of a line up to a comment.
std::vector<std::string_view> words_of(std::string_view line) {
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

// Reads words[at]: "" or what is wrong with it.
std::string read_number(const std::vector<std::string_view>& words, size_t at,
                        int64_t least, int64_t& tokens) {
  tokens = number<int64_t>(words[at]).value_or(-1);
  if (least <= tokens && tokens <= kMostStoryTokens) return "";
  return quoted(words[at]) + ": " + std::string(words[0]) +
         " takes a number, " + std::to_string(least) + " .. " +
         std::to_string(kMostStoryTokens);
}

class Parser {
 public:
  std::string parse(std::string_view text, StoryLog& log);
  int64_t line() const { return line_; }

 private:
  std::string read(const std::vector<std::string_view>& words);
  std::string read_geometry(const std::vector<std::string_view>& words);
  std::string read_command(const std::vector<std::string_view>& words);
  std::string read_moves(const std::vector<std::string_view>& words,
                         LogCommand& command);
  std::string read_id(std::string_view word, int64_t& number);
  std::string check_places(const LogCommand& command);
  std::optional<int64_t> number_of(std::string_view id);

  StoryLog* log_ = nullptr;
  std::unordered_map<std::string, int64_t> numbers_;
  LogPlaces places_;
  int64_t line_ = 0;
  bool begun_ = false, has_geometry_ = false;
};

std::string Parser::parse(std::string_view text, StoryLog& log) {
  log_ = &log;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const auto words = words_of(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line_;
    // The first line names the format: nothing may come before it.
    if (words.empty() && begun_) continue;
    if (std::string wrong = read(words); !wrong.empty()) return wrong;
  }
  if (!begun_) return "is empty; the first line is " + std::string(kFirstLine);
  if (!has_geometry_) return "ends before its line \"cache ...\"";
  if (log.commands.empty()) return "holds no command; " + std::string(kAllowed);
  log.geometry.shape.B = places_.most();
  return "";
}

std::string Parser::read(const std::vector<std::string_view>& words) {
  if (begun_) return has_geometry_ ? read_command(words) : read_geometry(words);
  begun_ = true;
  const bool ours = words.size() == 2 && words[0] == "qkvet-story";
  if (ours && words[1] == "1") return "";
  return ours ? "version \"" + std::string(words[1]) +
                    "\": this program reads version 1"
              : "the first line must be \"" + std::string(kFirstLine) + "\"";
}

std::string Parser::read_geometry(const std::vector<std::string_view>& words) {
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

std::optional<int64_t> Parser::number_of(std::string_view id) {
  if (id.empty() || id.find('=') != std::string_view::npos) return std::nullopt;
  const auto next = static_cast<int64_t>(numbers_.size());
  const auto [found, is_new] = numbers_.emplace(std::string(id), next);
  if (is_new) log_->ids.emplace_back(id);
  return found->second;
}

std::string Parser::read_moves(const std::vector<std::string_view>& words,
                               LogCommand& command) {
  for (size_t i = 1; i < words.size(); ++i) {
    const size_t equals = std::min(words[i].find('='), words[i].size());
    const auto id = number_of(words[i].substr(0, equals));
    const auto from = equals < words[i].size()
                          ? number_of(words[i].substr(equals + 1))
                          : std::nullopt;
    if (!id || !from)
      return "\"" + std::string(words[i]) +
             "\": reorder takes ID=ID ..., each with what it becomes";
    const bool twice =
        std::any_of(command.moves.begin(), command.moves.end(),
                    [&](const auto& move) { return move.first == *id; });
    if (twice)
      return "\"" + std::string(words[i]) + "\": this id was given one already";
    command.moves.emplace_back(*id, *from);
  }
  command.id = command.moves.front().first;
  return "";
}

std::string Parser::read_id(std::string_view word, int64_t& number) {
  const auto id = number_of(word);
  if (!id) return "\"" + std::string(word) + "\": an id has no \"=\"";
  number = *id;
  return "";
}

std::string Parser::read_command(const std::vector<std::string_view>& words) {
  const auto verb = parse_verb(words[0]);
  if (!verb)
    return "\"" + std::string(words[0]) + "\": " + std::string(kAllowed);
  if (log_->commands.size() == kMostLogCommands)
    return "more than " + std::to_string(kMostLogCommands) + " commands";
  LogCommand command;
  command.verb = *verb;
  command.line = line_;
  command.number = static_cast<int64_t>(log_->commands.size()) + 1;
  const size_t needed = *verb == StoryVerb::kReset   ? 2
                        : *verb == StoryVerb::kEvict ? 4
                                                     : 3;
  const bool many = *verb == StoryVerb::kReorder;
  if (many ? words.size() < 2 : words.size() != needed)
    return std::string(words[0]) + " with " + std::to_string(words.size() - 1) +
           " words: " + std::string(kAllowed);
  std::string why =
      many ? read_moves(words, command) : read_id(words[1], command.id);
  if (why.empty() && *verb == StoryVerb::kEvict)
    why = read_number(words, 2, 0, command.first);
  if (why.empty() && *verb == StoryVerb::kFork)
    why = read_id(words[2], command.count);
  else if (why.empty() && needed > 2 && !many)
    why = read_number(words, needed - 1, least_count(*verb), command.count);
  if (why.empty()) why = check_places(command);
  if (why.empty()) log_->commands.push_back(std::move(command));
  return why;
}

std::string Parser::check_places(const LogCommand& command) {
  places_.follow(command);
  if (places_.most() <= kMostCacheSequences) return "";
  return std::to_string(places_.most()) +
         " sequences are live at once; at most " +
         std::to_string(kMostCacheSequences) +
         " can be (reset ID ends a request)";
}

}  // namespace

int64_t LogPlaces::take(int64_t id) {
  const auto n = static_cast<size_t>(id);
  if (n >= place_.size()) place_.resize(n + 1, -1);
  if (place_[n] >= 0) return place_[n];
  const auto free = std::find(taken_.begin(), taken_.end(), false);
  place_[n] = free - taken_.begin();
  if (free == taken_.end())
    taken_.push_back(true);
  else
    *free = true;
  return place_[n];
}

void LogPlaces::leave(int64_t id) {
  int64_t& place = place_[static_cast<size_t>(id)];
  taken_[static_cast<size_t>(place)] = false;
  place = -1;
}

void LogPlaces::follow(const LogCommand& command) {
  for_each_id(command, [&](int64_t id) { take(id); });
  if (command.verb == StoryVerb::kReset) leave(command.id);
}

int64_t places_needed(const LogCommands& commands) {
  LogPlaces places;
  for (const LogCommand& command : commands) places.follow(command);
  return std::max<int64_t>(places.most(), 1);
}

LogSnapshot LogPlayer::play(const LogCommand& command) {
  // Places in the order in which the parser took them.
  for_each_id(command, [&](int64_t id) { places_.take(id); });
  const bool reorders = command.verb == StoryVerb::kReorder;
  StoryCommand one = {command.verb, reorders ? 0 : places_.take(command.id),
                      command.count, /*parents=*/{}, command.first};
  if (command.verb == StoryVerb::kFork) one.count = places_.take(command.count);
  std::vector<int64_t> parents(static_cast<size_t>(reorders ? sequences_ : 0));
  std::iota(parents.begin(), parents.end(), 0);
  for (const auto& [to, from] : command.moves)
    parents[static_cast<size_t>(places_.take(to))] = places_.take(from);
  for (const int64_t parent : parents) one.parents += parent_letter(parent);
  const auto id = static_cast<size_t>(command.id);
  if (id >= tags_.size()) tags_.resize(id + 1);
  Tags& next = tags_[id];
  LogSnapshot played = {
      held_.play(one, command.id, next.token, next.query, parents), command.id};
  next.token += played.snapshot.new_tokens;
  next.query += played.snapshot.queries;
  if (command.verb == StoryVerb::kReset) places_.leave(command.id);
  return played;
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

std::string log_command_text(const StoryLog& log, const LogCommand& command) {
  const auto id = [&](int64_t n) { return log.ids[static_cast<size_t>(n)]; };
  std::string text(verb_name(command.verb));
  if (command.verb == StoryVerb::kReorder) {
    for (const auto& [to, from] : command.moves)
      text += " " + id(to) + "=" + id(from);
    return text;
  }
  text += " " + id(command.id);
  if (command.verb == StoryVerb::kReset) return text;
  if (command.verb == StoryVerb::kEvict)
    text += " " + std::to_string(command.first);
  return text + " " +
         (command.verb == StoryVerb::kFork ? id(command.count)
                                           : std::to_string(command.count));
}

std::string story_log_text(const StoryLog& log, const LogCommands& commands) {
  Case keys = log.geometry;
  keys.shape.B = 1;
  std::string geometry = to_string(keys);
  // The stand-in's tokens, which are the last key, and B, which is none.
  geometry.resize(geometry.rfind(",story="));
  if (const size_t b = geometry.find(",B1,"); b != std::string::npos)
    geometry.erase(b, 3);
  std::string text = std::string(kFirstLine) + "\ncache " + geometry + "\n";
  for (const LogCommand& command : commands)
    text += log_command_text(log, command) + "\n";
  return text;
}

}  // namespace qkvet
