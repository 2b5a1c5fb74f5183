// SPDX-License-Identifier: Apache-2.0
#include "properties/sequences/pages_of_story.h"

#include <algorithm>
#include <utility>

namespace qkvet::properties {

PagesOfStory::Table& PagesOfStory::table(int64_t sequence) {
  const auto s = static_cast<size_t>(sequence);
  if (tables_.size() <= s) tables_.resize(s + 1);
  return tables_[s];
}

// All that a command may take is there before it takes any.
void PagesOfStory::provide(size_t pages) {
  for (; free_.size() < pages; ++taken_.made) {
    free_.push_back(pages_.size());
    pages_.emplace_back();
  }
}

size_t PagesOfStory::take() {
  ++taken_.all;
  const size_t page = free_.back();
  free_.pop_back();
  pages_[page].holders = takes_care(PageCare::kCountTaker) ? 1 : 0;
  return page;
}

void PagesOfStory::give_back(size_t page) {
  const bool is_last = --pages_[page].holders <= 0;
  const bool is_free = left_out_ == PageCare::kKeepWhileHeld   ? !is_last
                       : left_out_ == PageCare::kKeepUntilLast ? true
                                                               : is_last;
  if (is_free) free_.push_back(page);
}

void PagesOfStory::copy_shared(size_t& page) {
  if (!is_shared(page)) return;
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
  Table& pages = table(sequence);
  const size_t before = held_.of(sequence).size();
  const size_t after = snapshot.history.size();
  const bool copies = after > before && before % kTokens != 0 &&
                      takes_care(PageCare::kCopyForAppended) &&
                      is_shared(pages.back());
  provide(pages_for(after) - pages.size() + (copies ? 1 : 0));
  if (copies) {
    size_t last = pages.back();
    copy_shared(last);
    if (takes_care(PageCare::kStoreCopy)) pages.back() = last;
  }
  while (pages.size() < pages_for(after)) pages.push_back(take());
  for (size_t n = before; n < after; ++n) token(pages, n) = snapshot.history[n];
}

void PagesOfStory::evict(const Snapshot& snapshot) {
  const int64_t sequence = snapshot.command.sequence;
  Table& pages = table(sequence);
  const size_t before = held_.of(sequence).size();
  const size_t left = snapshot.history.size();
  const auto first = static_cast<size_t>(snapshot.command.first);
  if (takes_care(PageCare::kCopyForEvicted)) {
    const auto from = pages.begin() + static_cast<ptrdiff_t>(first / kTokens);
    provide(static_cast<size_t>(std::count_if(
        from, pages.end(), [&](size_t page) { return is_shared(page); })));
    std::for_each(from, pages.end(), [&](size_t& page) { copy_shared(page); });
  }
  for (size_t to = first; to < left; ++to)
    token(pages, to) = token(pages, to + before - left);
  release(pages, left);
}

void PagesOfStory::rearrange(const StoryCommand& command) {
  table(std::max({command.sequence, changed_sequence(command),
                  std::ssize(command.parents) - 1}));
  std::vector<Table> next;
  const auto parent = [&](size_t s) {
    return parent_sequence(command, static_cast<int64_t>(s));
  };
  const auto changes = [&](size_t s) {
    return rebuilds_tables() || !std::cmp_equal(parent(s), s);
  };
  for (size_t s = 0; s < tables_.size(); ++s) {
    next.push_back(table(parent(s)));
    for (const size_t page : next.back())
      if (changes(s)) ++pages_[page].holders;
  }
  std::swap(tables_, next);
  for (size_t s = 0; s < next.size(); ++s)
    for (const size_t page : next[s])
      if (changes(s)) give_back(page);
}

bool PagesOfStory::play(const Snapshot& snapshot) {
  taken_ = {};
  const StoryCommand& command = snapshot.command;
  if (!snapshot.illegal.empty()) return false;
  const int64_t sequence = command.sequence;
  // A law may run several stories in a row, each on a cache of its own.
  if (!goes_on(snapshot)) *this = PagesOfStory(left_out_, form_);
  if (!goes_on(snapshot)) return false;
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
    case StoryVerb::kReorder:
      rearrange(command);
      break;
    case StoryVerb::kAttend:
      break;
  }
  held_.play(snapshot);
  return snapshot.queries > 0 && meets_others(snapshot, table(sequence));
}

// Whether the sequence had the number of tokens that the command needs.
bool PagesOfStory::goes_on(const Snapshot& snapshot) {
  const StoryCommand& command = snapshot.command;
  const int64_t before = std::ssize(held_.of(command.sequence));
  const int64_t after = std::ssize(snapshot.history);
  switch (command.verb) {
    case StoryVerb::kAppend:
    case StoryVerb::kStep:
      return after == before + snapshot.new_tokens;
    case StoryVerb::kEvict:
      return after == before - command.count && command.first <= after;
    case StoryVerb::kTruncate:
    case StoryVerb::kReset:
      return after <= before;
    case StoryVerb::kFork:
    case StoryVerb::kAttend:
      return after == before;
    case StoryVerb::kReorder:
      return true;
  }
  return false;
}

// A window leaves each query the tokens after the window's beginning, and the
// first tokens.
bool PagesOfStory::meets_others(const Snapshot& snapshot,
                                const Table& pages) const {
  const int64_t first_query = std::ssize(snapshot.history) - snapshot.queries;
  for (int64_t n = 0; n < std::ssize(snapshot.history); ++n) {
    const bool is_met = form_.window == 0 || n < form_.first_tokens ||
                        n > first_query - form_.window;
    const auto at = static_cast<size_t>(n);
    if (is_met && token(pages, at) != snapshot.history[at]) return true;
  }
  return false;
}

}  // namespace qkvet::properties
