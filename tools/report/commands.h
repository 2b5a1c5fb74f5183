// SPDX-License-Identifier: Apache-2.0
// The commands of the program, one file each. They print to stdout, complain
// in one line on stderr, and return an exit code.
#ifndef QKVET_TOOLS_REPORT_COMMANDS_H_
#define QKVET_TOOLS_REPORT_COMMANDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/base/exit_code.h"
#include "tools/kernels/kernels.h"
#include "tools/report/diagnoses.h"

namespace qkvet::properties {
struct Convention;
struct Law;
}  // namespace qkvet::properties

namespace qkvet::tools {

struct ListOptions {
  // "kernels", "laws", "faults", "fuzz", "golden", "conventions"; "" for the
  // first three
  std::string what;
  bool json = false;
  // "FILE[:config]": their kernels alone, with what they declare.
  std::vector<std::string> plugins = {};
};
ExitCode run_list(const ListOptions& options);
ExitCode run_list_plugins(const ListOptions& options);
ExitCode run_list_fuzz(const ListOptions& options);    // what == "fuzz"
ExitCode run_list_golden(const ListOptions& options);  // what == "golden"
// what == "conventions"
ExitCode run_list_conventions(const ListOptions& options);

struct CheckOptions {
  KernelSelection selection;
  std::vector<std::string> laws;  // globs; empty: all
  std::optional<int64_t> cases;   // absent: kDefaultCases, or the short plan
  std::string budget;             // "60s", "2m", "" for none
  bool exhaustive = false;
  std::string seed = "1";
  int jobs = 0;                 // 0: one per core
  std::string sizes = "large";  // small, medium, large
  bool allow_loose = false;
  bool strict = false;
  std::string pin;          // "d=72,Tk=64"; "" for none
  std::string junit, json;  // files; "" for none
  std::string known;        // file of accepted failures; "" for none
  bool fail_fast = false;
  int diagnose = kDefaultDiagnosed;  // failing kernels, at most
  bool verbose = false;              // law by law
};
ExitCode run_check(const CheckOptions& options);
// What the words of a check mean for a run. "" or one line.
std::string read_check_words(const CheckOptions& options, RunOptions& run);

struct ReplayOptions {
  std::string target;  // a case, @FILE with one case per line, or X.story
  KernelSelection selection;
  std::vector<std::string> laws;
  std::vector<std::string> data;  // files that cases take data from
  std::string digest;             // "" for none
  std::string emit;               // "c", "py", "npy"; "" for none
  std::string out;                // where to; "": qkvet-LAW.c in this folder
  bool force = false;             // replaces what is there
};
ExitCode run_replay(const ReplayOptions& options);
// The target is a recorded story: run_replay() leaves those to
// run_replay_log().
bool is_story_log(const std::string& target);
ExitCode run_replay_log(const ReplayOptions& options);

struct EmitPlanOptions {
  std::string folder;
  std::vector<std::string> laws;  // globs; empty: all
  int64_t cases = 200;
  std::string seed = "1";
  std::string sizes = "small";      // small, medium, large
  std::vector<std::string> dtypes;  // empty: f32
  std::string options;              // "causal,mask", "all"; "": the usual ones
  std::string name = "recorded/kernel";
  std::string pin;                 // "d=72,Tk=64"; "" for none
  std::string dialect, precision;  // files with declarations; "" for none
  std::string format = "npy";      // npy, safetensors, recipe
  std::string from;    // a plan whose questions these are; "": drawn
  bool force = false;  // replaces a plan
};
ExitCode run_emit_plan(const EmitPlanOptions& options);

struct ExplainOptions {
  std::string name;  // a law, a fault, a convention, or an exit code
};
ExitCode run_explain(const ExplainOptions& options);
ExitCode explain_convention(const Convention& convention);

struct FaultsOptions {
  KernelSelection selection;      // nothing named: faulty/*
  std::vector<std::string> laws;  // globs; empty: all
  int64_t cases = 0;              // per fault and law; 0: the usual number
  std::string budget;             // "60s", "2m", "" for none
  std::string seed = "1";
  int jobs = 0;             // 0: one per core
  bool named = false;       // only the laws that a fault names
  bool every_case = false;  // laws go on after a kill
  bool sabotage = false;    // with oracles that share the fault as well
  std::string json;         // a file; "" for none
};
ExitCode run_faults(const FaultsOptions& options);

struct FuzzOptions {
  std::string target;
  KernelSelection selection;
  std::vector<std::string> laws;  // globs; empty: those of the target
  std::string time;               // "60s", "2m"; "" for none
  int64_t runs = 0;               // 0: no limit
  std::string seed = "1";
  int jobs = 1;
  bool fail_fast = false;
  std::string corpus;               // folder that inputs are kept in
  std::vector<std::string> seeds;   // folders that are read
  std::vector<std::string> merge;   // folders whose least goes to the corpus
  std::vector<std::string> replay;  // inputs, one by one, without the engine
  std::string regressions;          // file of failing cases
  std::string pin;
  bool unguided = false;
  bool no_recipes = false;
  bool keep = false;  // the folder of the hunt, with the engine's words
  int diagnose = kDefaultDiagnosed;
};
ExitCode run_fuzz(const FuzzOptions& options);

struct NewOptions {
  std::string file;
  std::string kind;  // plain, abi, cache, rust; "": by the file's ending
};
ExitCode run_new(const NewOptions& options);

struct BenchDecodeOptions {
  KernelSelection selection;  // nothing named: kv_cache/contiguous
  std::string contexts = "2048,4096,8192,16384,32768";
  int64_t heads = 1;
  int64_t kv_heads = 0;  // 0: as many as heads
  int64_t d = 16;
  int repeat = 3;
  std::string json;  // a file; "" for none
};
ExitCode run_bench_decode(const BenchDecodeOptions& options);

struct KvMemoryOptions {
  int64_t layers = 0;
  int64_t kv_heads = 0;
  int64_t d = 0;
  std::string dtype;
  int64_t context = 0;
  int64_t batch = 0;
};
ExitCode run_kv_memory(const KvMemoryOptions& options);

// One case under one law, in the shape that reports are made of.
KernelResult replay_one(const Law& law, const Case& value,
                        const KernelUnderTest& kernel, Executor& executor,
                        TimeUse& time);

// One line on stderr, and kWrongUse.
ExitCode wrong_use(const std::string& line);

// The laws that the globs name, in their order; empty with *error otherwise.
std::vector<const Law*> select_laws(const std::vector<std::string>& globs,
                                    std::string* error);

// Whether colour may be written to stdout.
bool colour_wanted();

// Columns of the screen behind stdout, by $COLUMNS or the terminal; 100
// elsewhere.
size_t screen_width();

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_REPORT_COMMANDS_H_
