// SPDX-License-Identifier: Apache-2.0
// The extents of a model or a cache in one word, spelled as in a case:
// "L12,H12,D768,T1024".
#ifndef QKVET_CLI_BASE_MODEL_TEXT_H_
#define QKVET_CLI_BASE_MODEL_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

namespace qkvet::cli {

struct ModelExtent {
  const char* name;  // letters: "Hkv"
  int64_t most;      // 1 .. most
  int64_t* value = nullptr;
  // Instead of `value`: ascending numbers, "Tk2048.4096".
  std::vector<int64_t>* list = nullptr;
  bool given = false;
};

// True for extents; no kernel has such a name.
bool is_model_text(const std::string& word);

// Extents that the text lacks keep their values. A part without a number is
// stored in *dtype. "" or one line.
std::string read_model_text(const std::string& text,
                            std::vector<ModelExtent>& extents,
                            std::string* dtype = nullptr);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_BASE_MODEL_TEXT_H_
