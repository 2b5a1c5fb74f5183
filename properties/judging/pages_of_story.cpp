// SPDX-License-Identifier: Apache-2.0
#include "properties/judging/pages_of_story.h"

#include <algorithm>
#include <utility>

namespace qkvet::properties {

PagesOfStory::Table& PagesOfStory::table(int64_t sequence) {
  const auto s = static_cast<size_t>(sequence);
  if (tables_.size() <= s) tables_.resize(s + 1), held_.resize(s + 1);
  return tables_[s];
}

std::vector<Token>& PagesOfStory::held(int64_t sequence) {
  table(sequence);
  return held_[static_cast<size_t>(sequence)];
}

size_t PagesOfStory::take() {
  ++taken_.all;
  if (free_.empty()) {
    ++taken_.made;
    free_.push_back(pages_.size());
    pages_.emplace_back();
  }
  const size_t page = free_.back();
  free_.pop_back();
  pages_[page].holders = 1;
  return page;
}

void PagesOfStory::give_back(size_t page) {
  const bool is_last = --pages_[page].holders <= 0;
  if (is_last || !takes_care(PageCare::kKeepUntilLast)) free_.push_back(page);
}

void PagesOfStory::copy_shared(size_t& page) {
  if (pages_[page].holders < 2) return;
  const size_t own = take();
  ++taken_.copies;
  pages_[own].tokens = pages_[page].tokens;
  give_back(page);
  page = own;
}

void PagesOfStory::release(Table& pages, size_t tokens) {
  for (; pages.size() > pages_for(tokens); pages.pop_back())
    give_back(pages.back());
}

void PagesOfStory::append(const Snapshot& snapshot) {
  const int64_t sequence = snapshot.command.sequence;
  const size_t before = held(sequence).size();
  Table& pages = table(sequence);
  // A window that lets tokens go is another cache.
  const auto brought = static_cast<size_t>(snapshot.new_tokens);
  if (snapshot.history.size() != before + brought) {
    is_known_ = false;
    return;
  }
  if (brought > 0 && before % kTokens != 0 &&
      takes_care(PageCare::kCopyForAppended))
    copy_shared(pages.back());
  while (pages.size() < pages_for(before + brought)) pages.push_back(take());
  for (size_t n = before; n < snapshot.history.size(); ++n)
    token(pages, n) = snapshot.history[n];
}

void PagesOfStory::evict(const Snapshot& snapshot) {
  const int64_t sequence = snapshot.command.sequence;
  Table& pages = table(sequence);
  const size_t before = held(sequence).size();
  const size_t left = snapshot.history.size();
  const auto first = static_cast<size_t>(snapshot.command.first);
  for (size_t page = first / kTokens;
       takes_care(PageCare::kCopyForEvicted) && page < pages.size(); ++page)
    copy_shared(pages[page]);
  for (size_t to = first; to < left; ++to)
    token(pages, to) = token(pages, to + before - left);
  release(pages, left);
}

void PagesOfStory::rearrange(const std::vector<int64_t>& parents) {
  std::vector<Table> next;
  std::vector<std::vector<Token>> holding;
  for (const int64_t parent : parents) {
    next.push_back(table(parent));
    holding.push_back(held(parent));
    for (const size_t page : next.back()) ++pages_[page].holders;
  }
  std::swap(tables_, next);
  held_ = std::move(holding);
  for (Table& pages : next)
    for (const size_t page : pages) give_back(page);
}

bool PagesOfStory::play(const Snapshot& snapshot) {
  taken_ = {};
  const StoryCommand& command = snapshot.command;
  if (!snapshot.illegal.empty() || !is_known_) return false;
  const int64_t sequence = command.sequence;
  switch (command.verb) {
    case StoryVerb::kAppend:
    case StoryVerb::kStep:
      append(snapshot);
      break;
    case StoryVerb::kEvict:
      evict(snapshot);
      break;
    case StoryVerb::kTruncate:
    case StoryVerb::kReset:
      release(table(sequence), snapshot.history.size());
      break;
    case StoryVerb::kFork:
    case StoryVerb::kReorder: {
      std::vector<int64_t> parents;
      table(std::max(sequence, command.count));
      for (size_t s = 0; s < std::max(tables_.size(), command.parents.size());
           ++s)
        parents.push_back(s < command.parents.size()
                              ? int64_t{command.parents[s]} - 'a'
                              : static_cast<int64_t>(s));
      if (command.verb == StoryVerb::kFork)
        parents[static_cast<size_t>(command.count)] = sequence;
      rearrange(parents);
      break;
    }
    case StoryVerb::kAttend:
      break;
  }
  if (!is_known_) return false;
  const bool moves =
      command.verb == StoryVerb::kFork || command.verb == StoryVerb::kReorder;
  if (!moves) held(sequence) = snapshot.history;
  if (snapshot.queries == 0) return false;
  const Table& pages = table(sequence);
  for (size_t n = 0; n < snapshot.history.size(); ++n)
    if (token(pages, n) != snapshot.history[n]) return true;
  return false;
}

}  // namespace qkvet::properties
