// SPDX-License-Identifier: Apache-2.0
#include "cli/serving_log/serving_log.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <vector>

namespace qkvet::cli {
namespace {

class Serving {
 public:
  explicit Serving(const ServingOptions& options)
      : options_(options), state_(options.seed) {}

  std::string record();

 private:
  struct Request {
    std::string id;
    int64_t length = 0;
    int64_t left = 0;  // tokens until it is finished
  };

  // SplitMix64 (Steele, Lea, Flood 2014): a number below `limit`.
  int64_t below(int64_t limit) {
    uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return static_cast<int64_t>((z ^ (z >> 31)) % static_cast<uint64_t>(limit));
  }
  bool one_in(int64_t n) { return below(n) == 0; }

  std::string new_id();
  void say(const std::string& line);
  void count(const char* verb, const Request& request, int64_t n);
  void arrive();
  void decode(Request& request);
  void speculate(Request& request);
  void fork(const Request& request);
  void swap_two();
  void finish(size_t at);

  ServingOptions options_;
  uint64_t state_;
  int64_t requests_ = 0, commands_ = 0;
  std::vector<Request> live_;
  std::string text_;
};

std::string Serving::new_id() {
  char id[32];
  std::snprintf(id, sizeof id, "%04x-%lld",
                static_cast<unsigned>(below(0x10000)),
                static_cast<long long>(++requests_));
  return id;
}

void Serving::say(const std::string& line) {
  if (commands_ == options_.commands) return;
  ++commands_;
  text_ += line + "\n";
}

void Serving::count(const char* verb, const Request& request, int64_t n) {
  say(std::string(verb) + " " + request.id + " " + std::to_string(n));
}

void Serving::arrive() {
  Request request{new_id(), 0, 4 + below(60)};
  const int64_t prompt = 5 + below(56);
  const int64_t chunk = one_in(3) ? 16 : prompt;
  while (request.length < prompt) {
    const int64_t n = std::min(chunk, prompt - request.length);
    // Only the end of a prompt has queries.
    const bool last = request.length + n == prompt;
    count(last ? "step" : "append", request, n);
    request.length += n;
  }
  live_.push_back(request);
}

void Serving::decode(Request& request) {
  count("step", request, 1);
  ++request.length;
  --request.left;
}

// Four drafted tokens, some of which are accepted.
void Serving::speculate(Request& request) {
  const int64_t drafted = 4, accepted = below(drafted + 1);
  count("step", request, drafted);
  request.length += accepted;
  request.left -= accepted;
  if (accepted < drafted) count("truncate", request, request.length);
}

void Serving::fork(const Request& request) {
  Request copy = request;
  copy.id = new_id();
  copy.left = 1 + below(20);
  say("fork " + request.id + " " + copy.id);
  live_.push_back(copy);
}

// Two beams of one search: both continue from the second one.
void Serving::swap_two() {
  Request& a = live_[live_.size() - 2];
  const Request& b = live_.back();
  say("reorder " + a.id + "=" + b.id + " " + b.id + "=" + b.id);
  a.length = b.length;
}

void Serving::finish(size_t at) {
  say("reset " + live_[at].id);
  live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(at));
}

std::string Serving::record() {
  text_ = "qkvet-story 1\ncache f32,H4,Hkv2,d4,cap" +
          std::to_string(options_.capacity) + options_.form + "\n";
  while (commands_ < options_.commands) {
    const auto live = static_cast<int64_t>(live_.size());
    if (live == 0 || (live < options_.most_live && one_in(8))) {
      arrive();
      continue;
    }
    const auto at = static_cast<size_t>(below(live));
    Request& request = live_[at];
    const bool full = request.length + 8 > options_.capacity;
    if (options_.refused && one_in(50))
      count("step", request, options_.capacity);
    if (request.left <= 0 || full)
      finish(at);
    else if (options_.forks && live < options_.most_live && one_in(40))
      fork(Request(request));
    else if (options_.forks && live > 1 && one_in(80))
      swap_two();
    else if (one_in(6))
      speculate(request);
    else
      decode(request);
  }
  return std::move(text_);
}

}  // namespace

std::string serving_log(const ServingOptions& options) {
  return Serving(options).record();
}

}  // namespace qkvet::cli
