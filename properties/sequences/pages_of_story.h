// SPDX-License-Identifier: Apache-2.0
// The effect on a story of a cache in pages that omits one precaution. The
// pages are those of the textbook (Kwon et al., "PagedAttention", 2023): of 4
// tokens, shared by forks, copied before they are written, and the last page
// given back is the first one taken.
#ifndef QKVET_PROPERTIES_SEQUENCES_PAGES_OF_STORY_H_
#define QKVET_PROPERTIES_SEQUENCES_PAGES_OF_STORY_H_

#include <array>
#include <vector>

#include "properties/sequences/played_story.h"

namespace qkvet::properties {

// A cache is played for each.
enum class PageCare : uint8_t {
  kNone,             // it takes all care
  kCopyForAppended,  // a shared page is copied before tokens are appended to it
  kCopyForEvicted,   // ... before those after an evicted one move up
  kStoreCopy,        // the copy for them replaces the original in the table
  kKeepUntilLast,    // a page is free when the last of its sequences is gone
  // The same and not before, if a fork gives back all tables and holds the new
  // ones.
  kKeepWhileHeld,
  kCountTaker  // the taker of a page is one of its holders; likewise
};
inline constexpr size_t kPageCares = 7;

class PagesOfStory {
 public:
  PagesOfStory(PageCare left_out, const CacheForm& form)
      : left_out_(left_out), form_(form) {}

  // The next command. Returns whether its queries, with the tokens that it
  // brings, meet tokens of other sequences.
  bool play(const Snapshot& snapshot);

  // For the last command: pages that it took, how many of them are copies of
  // shared ones, and how many had no free page.
  struct Taken {
    int64_t all = 0, copies = 0, made = 0;
  };
  const Taken& taken() const { return taken_; }

 private:
  static constexpr int64_t kTokens = 4;
  struct Page {
    int64_t holders = 0;
    std::array<Token, kTokens> tokens{};
  };
  using Table = std::vector<size_t>;

  bool takes_care(PageCare care) const { return left_out_ != care; }
  bool is_shared(size_t page) const { return pages_[page].holders > 1; }
  static size_t pages_for(size_t tokens) {
    return (tokens + kTokens - 1) / kTokens;
  }
  Table& table(int64_t sequence);
  const Token& token(const Table& pages, size_t n) const {
    return pages_[pages[n / kTokens]].tokens[n % kTokens];
  }
  Token& token(const Table& pages, size_t n) {
    return pages_[pages[n / kTokens]].tokens[n % kTokens];
  }
  void provide(size_t pages);
  size_t take();
  void give_back(size_t page);
  void copy_shared(size_t& page);
  void release(Table& pages, size_t tokens);
  bool goes_on(const Snapshot& snapshot);
  bool meets_others(const Snapshot& snapshot, const Table& pages) const;
  void append(const Snapshot& snapshot);
  void evict(const Snapshot& snapshot);
  void rearrange(const StoryCommand& command);
  bool rebuilds_tables() const {
    return left_out_ == PageCare::kKeepWhileHeld ||
           left_out_ == PageCare::kCountTaker;
  }

  PageCare left_out_;
  CacheForm form_;
  Taken taken_;
  std::vector<Page> pages_;
  std::vector<size_t> free_;
  std::vector<Table> tables_;  // [sequences]
  TokensHeld held_;
};

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_SEQUENCES_PAGES_OF_STORY_H_
