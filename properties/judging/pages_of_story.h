// SPDX-License-Identifier: Apache-2.0
// What a cache in pages would do to a story if it took no care of one thing:
// the pages are those of the textbook (Kwon et al., "PagedAttention", 2023), of
// 4 tokens, shared by forks, copied before they are written, and the one that
// was given back last is taken first.
#ifndef QKVET_PROPERTIES_JUDGING_PAGES_OF_STORY_H_
#define QKVET_PROPERTIES_JUDGING_PAGES_OF_STORY_H_

#include <array>
#include <vector>

#include "core/case/story.h"

namespace qkvet::properties {

// One page cache is played for each.
enum class PageCare : uint8_t {
  kNone,             // it takes all care
  kCopyForAppended,  // a shared page is copied before tokens are appended to it
  kCopyForEvicted,   // ... before those behind an evicted one move up
  kKeepUntilLast,    // a page is free when the last of its sequences is gone
  kKnowSharing       // all of them: no page is known to be shared
};
inline constexpr size_t kPageCares = 5;

class PagesOfStory {
 public:
  explicit PagesOfStory(PageCare left_out) : left_out_(left_out) {}

  // The next command. Whether its queries, with those tokens that it brings,
  // meet others than those of its sequence.
  bool play(const Snapshot& snapshot);

  // Of the last command: pages that it took, of those the copies of shared
  // ones, and those for which none was free.
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

  bool takes_care(PageCare care) const {
    return left_out_ != care && left_out_ != PageCare::kKnowSharing;
  }
  static size_t pages_for(size_t tokens) {
    return (tokens + kTokens - 1) / kTokens;
  }
  Table& table(int64_t sequence);
  std::vector<Token>& held(int64_t sequence);
  Token& token(const Table& pages, size_t n) {
    return pages_[pages[n / kTokens]].tokens[n % kTokens];
  }
  size_t take();
  void give_back(size_t page);
  void copy_shared(size_t& page);
  void release(Table& pages, size_t tokens);
  void append(const Snapshot& snapshot);
  void evict(const Snapshot& snapshot);
  void rearrange(const std::vector<int64_t>& parents);

  PageCare left_out_;
  Taken taken_;
  std::vector<Page> pages_;
  std::vector<size_t> free_;
  std::vector<Table> tables_;             // [sequences]
  std::vector<std::vector<Token>> held_;  // [sequences]
  bool is_known_ = true;  // no command was one that pages do not know
};

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_JUDGING_PAGES_OF_STORY_H_
