// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/flags.h"

#include "cli/base/model_text.h"
#include "cli/kernels/write_new.h"

namespace qkvet::cli {

void add_specs(CLI::App& command, KernelSelection& selection,
               const std::string& what) {
  command
      .add_option_function<std::vector<std::string>>(
          "spec",
          [&selection](const std::vector<std::string>& specs) {
            for (const std::string& spec : specs) selection.add(spec);
          },
          what + ": scalar/plain, ./lib.so, mine.cpp, module:function, ...")
      ->type_name("SPEC");
  add_footer(command, std::string("A SPEC is ") + kSpecForms + ".");
}

void add_model(CLI::App& command, std::string& model,
               KernelSelection& selection, const std::string& what) {
  command
      .add_option_function<std::vector<std::string>>(
          "spec",
          [&](const std::vector<std::string>& words) {
            for (const std::string& word : words)
              if (is_model_text(word))
                model += (model.empty() ? "" : ",") + word;
              else
                selection.add(word);
          },
          what)
      ->type_name("MODEL|SPEC");
}

void add_kernels(CLI::App& command, KernelSelection& selection) {
  command
      .add_option("-k,--kernel", selection.kernels,
                  "Kernel family/variant, or a glob; may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command.add_flag("--in-process", selection.in_process,
                   "Run kernels in this process (debuggers, sanitizers)");
}

void add_selection(CLI::App& command, KernelSelection& selection) {
  add_kernels(command, selection);
  add_declaration(command, selection);
}

void add_declaration(CLI::App& command, KernelSelection& selection) {
  command
      .add_option("--dialect", selection.dialect,
                  "Convention, or file of dialect fields, to use instead")
      ->type_name("FILE|CONVENTION");
  command
      .add_option(
          "--precision", selection.precision,
          "File of precision fields to use instead of the declared ones")
      ->type_name("FILE");
  command
      .add_option("--cflags", selection.cflags,
                  "Additional compiler flags for a source")
      ->type_name("FLAGS");
}

void add_laws(CLI::App& command, std::vector<std::string>& laws,
              const char* what) {
  command.add_option("-l,--law", laws, what)
      ->type_name("LAW")
      ->allow_extra_args(false);
}

void add_seed(CLI::App& command, std::string& seed, const char* what) {
  command.add_option("--seed", seed, what)->capture_default_str();
}

void add_jobs(CLI::App& command, int& jobs) {
  command.add_option("-j,--jobs", jobs, "Number of threads [one per core]")
      ->check(CLI::Range(0, 1024));
}

void add_sizes(CLI::App& command, std::string& sizes) {
  command
      .add_option(
          "--sizes", sizes,
          "Largest T and d: small 24, medium 80, large 300, long 131,073 keys")
      ->check(CLI::IsMember({"small", "medium", "large", "long"}))
      ->capture_default_str();
}

void add_pin(CLI::App& command, std::string& pin) {
  command.add_option("--pin", pin, "Extents of every case, such as d=72,Tk=64")
      ->type_name("EXTENTS");
}

void add_data(CLI::App& command, std::vector<std::string>& data) {
  command
      .add_option("--data", data,
                  "File with the input data of the case; may be repeated")
      ->type_name("FILE")
      ->allow_extra_args(false);
}

void add_diagnose(CLI::App& command, int& most) {
  command
      .add_option("--diagnose", most,
                  "Maximum number of failing kernels to diagnose")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000000));
}

void add_whether_to_diagnose(CLI::App& command, int& diagnose) {
  command.add_option("--diagnose", diagnose, "0 turns the diagnosis off")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
}

void add_recorded_call(CLI::App& command, std::string& value,
                       golden::ImportWords& words) {
  command
      .add_option("--case", value, "Options of the call: causal=br,scale=0.1")
      ->type_name("TOKENS");
  command
      .add_option("--map", words.map,
                  "Tensor names in the file: q=query,o=attn_output")
      ->type_name("NAMES");
  command
      .add_option("--layout", words.layout,
                  "bhtd, bthd or thd; H8,Hkv2 for tensors [B,T,H*d]")
      ->type_name("LAYOUT");
}

void add_json(CLI::App& command, std::string& json) {
  add_output(command, "--json", json, "Write JSON Lines");
}

void add_report_files(CLI::App& command, ReportFiles& files) {
  const struct {
    const char* option;
    std::string* file;
    const char* what;
  } rows[] = {{"--junit", &files.junit, "Write JUnit XML"},
              {"--html", &files.html, "Write a self-contained HTML page"},
              {"--sarif", &files.sarif, "Write SARIF 2.1.0"},
              {"--markdown", &files.markdown, "Write Markdown"}};
  for (const auto& row : rows)
    add_output(command, row.option, *row.file, row.what);
  command.add_flag("--github", files.github,
                   "Print GitHub annotations, and add to $GITHUB_STEP_SUMMARY");
}

void add_picture(CLI::App& command, PictureFile& file, const char* what) {
  add_output(command, "-o,--out", file.svg, what);
  command.add_flag("--force", file.force, "Overwrite an existing file");
  // Scripts that ask for pixels get this reason; help does not list the option.
  refuse_option(command, "--png",
                "pictures are SVG; allowed is --out FILE, which browsers show");
}

std::string misuse_of(const PictureFile& file) {
  if (file.svg.empty() || file.force) return "";
  const std::string reason = not_new_reason(file.svg);
  return reason.empty() ? "" : reason + " (--force does)";
}

}  // namespace qkvet::cli
