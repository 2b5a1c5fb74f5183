// SPDX-License-Identifier: Apache-2.0
// The last lines of what a worker prints.
#ifndef QKVET_CORE_DOOR_OUTPUT_TAIL_H_
#define QKVET_CORE_DOOR_OUTPUT_TAIL_H_

#include <string>
#include <string_view>

namespace qkvet {

class OutputTail {
 public:
  // Takes what a non-blocking descriptor has; false at its end.
  bool drain(int fd);
  void append(std::string_view bytes);
  void clear() { kept_.clear(); }
  // At most 10 lines and 2 KiB, printable.
  std::string text() const;

 private:
  std::string kept_;
};

}  // namespace qkvet

#endif  // QKVET_CORE_DOOR_OUTPUT_TAIL_H_
