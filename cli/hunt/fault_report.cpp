// SPDX-License-Identifier: Apache-2.0
#include "cli/hunt/fault_report.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/base/json.h"
#include "properties/judging/law.h"
#include "report/json_lines.h"

namespace qkvet::cli {
namespace {

constexpr const char* kRow = "{:<36} {:<37} {:>5} {:>8} {:>4}  {}\n";

// Without the prefix of the built-in family.
std::string short_name(const std::string& name) {
  constexpr std::string_view kFamily = "faulty/";
  return name.starts_with(kFamily) ? name.substr(kFamily.size()) : name;
}

std::string ids_of(const std::vector<const FaultPair*>& pairs) {
  std::string ids;
  for (const FaultPair* pair : pairs)
    ids += (ids.empty() ? "" : ", ") + std::string(pair->law->id) +
           (pair->undeclared.empty() ? "" : " (" + pair->undeclared + ")");
  return ids;
}

const char* fate_name(Fate fate) {
  switch (fate) {
    case Fate::kKilled:
      return "killed";
    case Fate::kSurvived:
      return "SURVIVED";
    case Fate::kNearEquivalent:
      return "near-equivalent";
    default:
      return "never triggered";
  }
}

// In lines that fit a terminal, if words allow it; all of them indented.
std::string wrapped(const std::string& text, size_t indent) {
  constexpr size_t kWidth = 98;
  std::string out;
  for (size_t from = 0; from < text.size();) {
    size_t end = text.size();
    if (end - from > kWidth - indent) {
      const size_t blank = text.rfind(' ', from + kWidth - indent);
      end = blank != std::string::npos && blank > from
                ? blank
                : std::min(text.find(' ', from), end);
    }
    out += std::string(indent, ' ') + text.substr(from, end - from) + "\n";
    from = end + 1;
  }
  return out;
}

std::string fault_lines(const FaultVerdict& verdict) {
  const HuntedFault& fault = *verdict.fault;
  const FaultPair* first = verdict.first;
  std::string out =
      first != nullptr
          ? fmt::format(kRow, short_name(fault.name), first->law->id,
                        first->kill->number,
                        fmt::format("{:.3f}", first->seconds), verdict.killers,
                        verdict.killed_without_agreement ? "yes" : "no")
          : fmt::format("{:<36} {}: {} cases; shows with: {}\n",
                        short_name(fault.name), fate_name(verdict.fate),
                        fault.cases,
                        fault.when.empty() ? "always" : fault.when);
  if (!verdict.silent.empty())
    out += wrapped("named, and did not kill it: " + ids_of(verdict.silent), 4);
  for (const FaultPair* pair : verdict.outside)
    out += wrapped(
        fmt::format(
            "suspected false alarm: {}, {}, case {}: {}; it shows with: {}",
            fault.name, pair->law->id, pair->outside->number,
            pair->outside->found, fault.when.empty() ? "always" : fault.when),
        4);
  return out;
}

std::string names(const std::vector<std::string>& all) {
  std::string out;
  for (const std::string& name : all)
    out += (out.empty() ? "" : ", ") + short_name(name);
  return out;
}

std::string names_of(const FaultSummary& summary, Fate fate) {
  std::vector<std::string> all;
  for (const FaultVerdict& verdict : summary.verdicts)
    if (verdict.fate == fate) all.push_back(verdict.fault->name);
  return names(all);
}

// Empty unless every law was judged.
std::string agreement_part(const FaultSummary& summary,
                           const HuntOptions& options) {
  if (options.named || options.laws.size() < all_laws().size()) return "";
  const auto& alone = summary.agreement_alone;
  return fmt::format("; {} killed by agreement alone{}{}", alone.size(),
                     alone.empty() ? "" : ": ", names(alone));
}

}  // namespace

std::string faults_text(const FaultSummary& summary, const Hunt& hunt,
                        const HuntOptions& options) {
  std::string out = fmt::format(kRow, "fault", "first killer", "case",
                                "seconds", "laws", "without agreement");
  for (const FaultVerdict& verdict : summary.verdicts)
    out += fault_lines(verdict);
  out += "\n";
  out += wrapped(
      fmt::format("{} of {} faults killed; median {:.3f} s, 95th percentile "
                  "{:.3f} s, slowest {:.3f} s ({}){}",
                  summary.killed, hunt.faults.size(), summary.median,
                  summary.percentile95, summary.slowest,
                  short_name(summary.slowest_name),
                  agreement_part(summary, options)),
      0);
  for (const Fate fate :
       {Fate::kSurvived, Fate::kNeverTriggered, Fate::kNearEquivalent})
    if (const std::string some = names_of(summary, fate); !some.empty())
      out += wrapped(fmt::format("{}: {}", fate_name(fate), some), 0);
  if (summary.outside > 0)
    out += fmt::format("{} suspected false alarms\n", summary.outside);
  if (summary.silent > 0)
    out +=
        fmt::format("{} named laws did not kill their fault\n", summary.silent);
  out += fmt::format("{}, seed {}, {:.1f} s on {} threads{:>8}exit {}\n",
                     options.budget
                         ? fmt::format("{:.2f} s a fault", *options.budget)
                         : fmt::format("{} cases a law", options.cases),
                     options.seed, hunt.wall_seconds, options.jobs, "",
                     static_cast<int>(summary.exit));
  return out;
}

namespace {

Json pair_json(const HuntedFault& fault, const FaultPair& pair) {
  Json line{{"type", "pair"},
            {"fault", fault.name},
            {"law", pair.law->id},
            {"named", pair.named},
            {"undeclared", pair.undeclared},
            {"checked", pair.checked},
            {"killed", pair.kill.has_value()}};
  if (pair.kill) {
    line["case"] = pair.kill->number;
    line["found"] = pair.kill->found;
    line["seconds"] = pair.seconds;
  }
  if (pair.outside) {
    line["outside"] = pair.outsides;
    line["outside_case"] = pair.outside->number;
    line["outside_found"] = pair.outside->found;
  }
  return line;
}

Json fault_json(const FaultVerdict& verdict) {
  const HuntedFault& fault = *verdict.fault;
  Json line{{"type", "fault"},
            {"name", fault.name},
            {"when", fault.when},
            {"fate", fate_name(verdict.fate)},
            {"triggered", fault.triggered},
            {"cases", fault.cases},
            {"seconds", fault.seconds},
            {"laws", verdict.killers},
            {"without_agreement", verdict.killed_without_agreement}};
  if (verdict.first != nullptr) {
    line["first_killer"] = verdict.first->law->id;
    line["first_case"] = verdict.first->kill->number;
    line["first_seconds"] = verdict.first->seconds;
  }
  line["silent"] = Json::array();
  for (const FaultPair* pair : verdict.silent)
    line["silent"].push_back(pair->law->id);
  return line;
}

}  // namespace

std::string faults_json(const FaultSummary& summary, const Hunt& hunt,
                        const HuntOptions& options) {
  Json start{{"type", "start"},
             {"schema", kSchema},
             {"seed", options.seed},
             {"named", options.named},
             {"every_case", options.every_case}};
  if (options.budget)
    start["budget_per_fault"] = *options.budget;
  else
    start["cases_per_law"] = options.cases;
  std::string out = json_text(start) + "\n";
  for (const FaultVerdict& verdict : summary.verdicts) {
    for (const FaultPair& pair : verdict.fault->pairs)
      out += json_text(pair_json(*verdict.fault, pair)) + "\n";
    out += json_text(fault_json(verdict)) + "\n";
  }
  out += json_text(Json{{"type", "summary"},
                        {"faults", hunt.faults.size()},
                        {"killed", summary.killed},
                        {"survived", summary.survived},
                        {"never_triggered", summary.never_triggered},
                        {"near_equivalent", summary.near_equivalent},
                        {"outside", summary.outside},
                        {"silent", summary.silent},
                        {"agreement_alone", summary.agreement_alone},
                        {"median_seconds", summary.median},
                        {"percentile95_seconds", summary.percentile95},
                        {"slowest_seconds", summary.slowest},
                        {"slowest", summary.slowest_name},
                        {"wall_seconds", hunt.wall_seconds},
                        {"exit", static_cast<int>(summary.exit)}}) +
         "\n";
  return out;
}

}  // namespace qkvet::cli
