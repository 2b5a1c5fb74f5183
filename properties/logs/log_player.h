// SPDX-License-Identifier: Apache-2.0
// Playing a recorded story: what each command brings and leaves, as
// play_story() says it of a Case's story, one command at a time.
#ifndef QKVET_PROPERTIES_LOGS_LOG_PLAYER_H_
#define QKVET_PROPERTIES_LOGS_LOG_PLAYER_H_

#include <vector>

#include "core/base/floors.h"
#include "core/story/story_log.h"

namespace qkvet::properties {

// One command in its place. In `snapshot` sequences are places in the cache; a
// token is named by the id that it was given to.
struct LogSnapshot {
  Snapshot snapshot;
  int64_t id = 0;                // whose tags the command uses
  std::vector<int64_t> parents;  // of reorder, for every place
};

class LogPlayer {
 public:
  // rules.sequences: places_needed() at least.
  explicit LogPlayer(const StoryRules& rules);

  LogSnapshot play(const LogCommand& command);

 private:
  struct Tags {
    int64_t token = 0, query = 0;  // the next ones
  };

  StoryRules rules_;
  LogPlaces taken_;
  HeldSequences places_;
  std::vector<Tags> tags_;  // of an id
};

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_LOGS_LOG_PLAYER_H_
