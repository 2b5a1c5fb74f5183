// SPDX-License-Identifier: Apache-2.0
// Threads that live between calls and are never joined, as numeric libraries
// keep them. As a static object it ends a program that destroys it.
#ifndef QKVET_CORE_TESTDATA_POOL_H_
#define QKVET_CORE_TESTDATA_POOL_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

class Pool {
 public:
  static constexpr int kThreads = 3;

  Pool() {
    for (int i = 0; i < kThreads; ++i)
      threads_.emplace_back([this, i] { work(i); });
  }

  // Runs body(0), body(1), body(2) at the same time.
  void run(std::function<void(int)> body) {
    std::unique_lock lock(mutex_);
    body_ = std::move(body);
    working_ = kThreads;
    ++round_;
    wake_.notify_all();
    done_.wait(lock, [this] { return working_ == 0; });
  }

 private:
  void work(int number) {
    for (int seen = 0;;) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return round_ != seen; });
      seen = round_;
      lock.unlock();
      body_(number);
      lock.lock();
      if (--working_ == 0) done_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::function<void(int)> body_;
  int round_ = 0;
  int working_ = 0;
  std::vector<std::thread> threads_;
};

#endif  // QKVET_CORE_TESTDATA_POOL_H_
