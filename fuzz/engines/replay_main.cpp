// SPDX-License-Identifier: Apache-2.0
// A target without an engine: every input of the given files once. A folder is
// all files below it; a .txt file holds an input a line, beside blank lines and
// those that begin with #; any other file is an input.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;

void run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()),
                         input.size());
}

// The number of inputs in the file; -1: it cannot be read.
int64_t run_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return -1;
  if (path.extension() != ".txt") {
    run({std::istreambuf_iterator<char>(file), {}});
    return 1;
  }
  int64_t inputs = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    run(line);
    ++inputs;
  }
  return inputs;
}

// Sorted, so that every run fails at the same input.
std::vector<fs::path> files_of(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(path))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

int refuse(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  LLVMFuzzerInitialize(&argc, &argv);
  int64_t inputs = 0;
  for (int i = 1; i < argc; ++i)
    for (const fs::path& file : files_of(argv[i])) {
      const int64_t more = run_file(file);
      if (more < 0) return refuse(file.string() + ": cannot be read");
      inputs += more;
    }
  if (inputs == 0)
    return refuse("usage: " + std::string(argv[0]) +
                  " FILE|FOLDER..., with one input at least");
  std::printf("%lld inputs\n", static_cast<long long>(inputs));
  return 0;
}
