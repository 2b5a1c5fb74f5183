// SPDX-License-Identifier: Apache-2.0
#include "tools/record/run_merge.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "core/case/case.h"
#include "tools/record/result_counts.h"

namespace qkvet::tools {
namespace {

// The shards of a record, from 1; empty where it is none.
std::vector<int64_t> shards_in(const RunRecord& record, int64_t* of) {
  if (const Json& shard = part_of(record.start, "shard"); shard.is_object()) {
    *of = count_of(shard, "of");
    return {count_of(shard, "number")};
  }
  std::vector<int64_t> out;
  const Json& shards = part_of(record.start, "shards");
  *of = count_of(shards, "of");
  if (const Json& merged = part_of(shards, "merged"); merged.is_array())
    for (const Json& one : merged)
      if (one.is_number_integer()) out.push_back(one.get<int64_t>());
  return out;
}

// "" or why the two are no parts of one plan.
std::string difference(const RunRecord& first, const RunRecord& other) {
  const auto version = [](const RunRecord& record) {
    return text_of(part_of(record.start, "environment"), "qkvet");
  };
  if (version(first) != version(other))
    return fmt::format("made by QKVet {}, and {} by {}", version(other),
                       first.name, version(first));
  for (const char* field :
       {"seed", "cases", "cases_per_law", "exhaustive", "laws", "sizes", "pin"})
    if (part_of(first.start, field) != part_of(other.start, field))
      return fmt::format("has another plan than {}: \"{}\" differs", first.name,
                         field);
  std::set<std::string> names, others;
  for (const Json& kernel : first.kernels)
    names.insert(text_of(kernel, "kernel"));
  for (const Json& kernel : other.kernels)
    others.insert(text_of(kernel, "kernel"));
  return names == others ? "" : "has other kernels than " + first.name;
}

// "" or why the records cannot be merged; the shards that they hold.
std::string check_parts(const std::vector<RunRecord>& parts,
                        std::set<int64_t>& held, int64_t& of) {
  of = 0;
  for (const RunRecord& part : parts) {
    int64_t mine = 0;
    const auto numbers = shards_in(part, &mine);
    if (numbers.empty() || mine < 1)
      return part.name +
             ": is no shard; allowed: what `qkvet check --shard "
             "K/N --json` has written";
    if (of == 0) of = mine;
    if (mine != of)
      return fmt::format("{}: is one of {} shards, and {} one of {}", part.name,
                         mine, parts[0].name, of);
    if (std::string why = difference(parts[0], part); !why.empty())
      return part.name + ": " + why;
    for (const int64_t number : numbers)
      if (number < 1 || number > of)
        return fmt::format("{}: shard {} of {}", part.name, number, of);
      else if (!held.insert(number).second)
        return fmt::format("{}: shard {} is there already", part.name, number);
  }
  return "";
}

// How large a case is: its numbers, or what its text takes.
int64_t size_of_case(const Json& failure) {
  const std::string text = text_of(failure, "case");
  const auto parsed = parse_case(text);
  if (!parsed.value) return std::ssize(text);
  const Shape& shape = parsed.value->shape;
  return shape.B * shape.H *
         (shape.Tq * shape.d + shape.Tk * (shape.d + shape.dv));
}

// What makes two failures of a law one finding: their cause, or the case.
std::string finding_key(const Json& failure) {
  const Json& diagnosis = part_of(failure, "diagnosis");
  const std::string cause = text_of(diagnosis, "cause");
  return cause.empty() || text_of(diagnosis, "certainty") == "unknown"
             ? text_of(failure, "case")
             : cause;
}

// The smallest of each finding, the smallest of all first.
std::vector<Json> smallest_findings(const std::vector<const Json*>& results) {
  std::vector<Json> all;
  for (const Json* result : results)
    for (const Json* failure : failures_of(*result)) all.push_back(*failure);
  std::stable_sort(all.begin(), all.end(), [](const Json& a, const Json& b) {
    const int64_t left = size_of_case(a), right = size_of_case(b);
    return left != right ? left < right
                         : count_of(a, "number") < count_of(b, "number");
  });
  std::vector<Json> out;
  std::set<std::string> seen;
  for (Json& failure : all)
    if (seen.insert(finding_key(failure)).second)
      out.push_back(std::move(failure));
  if (out.size() > kMostOthers + 1) out.resize(kMostOthers + 1);
  return out;
}

// A precision that is not believed is one of the kernel: every shard says so.
std::string mistrust_of(const std::vector<const Json*>& results) {
  for (const Json* result : results)
    if (const std::string reason = text_of(*result, "reason");
        text_of(*result, "verdict") == "mistrusted" &&
        reason.rfind("--strict", 0) == 0)
      return reason;
  return "";
}

// A shard in which a known failure does not show says nothing.
void merge_known(const std::vector<const Json*>& results, Json& out) {
  const Json* said = nullptr;
  for (const Json* result : results) {
    const Json& known = part_of(*result, "known");
    if (!known.is_object()) continue;
    // In another way than is known, as known, not at all.
    const bool otherwise = !is_set(known, "holds") && !is_set(known, "gone");
    if (said == nullptr || otherwise ||
        (is_set(known, "holds") && is_set(*said, "gone")))
      said = &known;
    if (otherwise) break;
  }
  if (said != nullptr) out["known"] = *said;
}

// Not declared is what every shard says in which a case was refused; a shard
// without such a case says nothing.
bool is_undeclared(const std::vector<const Json*>& results) {
  bool said = false;
  for (const Json* result : results)
    if (is_set(*result, "undeclared"))
      said = true;
    else if (count_of(*result, "unsupported") > 0)
      return false;
  return said;
}

Json merged_result(const std::vector<const Json*>& results) {
  Tally sum;
  bool crashed = false;
  for (const Json* result : results) {
    Tally one = tally_of(*result);
    merge(sum, one);
    crashed |= text_of(*result, "verdict") == "crash";
  }
  const std::vector<Json> findings = smallest_findings(results);
  const Cell cell = cell_of(sum, std::vector<Failure>(findings.empty() ? 0 : 1),
                            mistrust_of(results));
  Json out = *results[0];
  for (const char* field :
       {"failure", "other_failures", "known", "reason", "undeclared"})
    out.erase(field);
  // A law that the kernel does not declare has no counts at all.
  const bool asked = sum.checked + sum.unsupported + sum.not_applicable > 0 ||
                     !findings.empty();
  out["verdict"] = crashed ? "crash"
                   : asked ? std::string(verdict_name(cell.verdict))
                           : text_of(*results[0], "verdict");
  if ((cell.verdict == Verdict::kUnsupported || !asked) &&
      is_undeclared(results))
    out["undeclared"] = true;
  add_counts(cell, out);
  const bool tells = out["verdict"] != "passed" && findings.empty();
  if (tells && !sum.reason.text.empty())
    out["reason"] = asked ? cell.reason : sum.reason.text;
  if (!findings.empty()) out["failure"] = findings[0];
  for (size_t i = 1; i < findings.size(); ++i)
    out["other_failures"].push_back(findings[i]);
  merge_known(results, out);
  return out;
}

// Calls of all shards near the path of a hint.
int64_t calls_near(const std::vector<const Json*>& kernels, const Json& hint) {
  int64_t sum = 0;
  for (const Json* kernel : kernels)
    for (const Json& one : part_of(*kernel, "hints"))
      if (text_of(one, "path") == text_of(hint, "path"))
        sum += count_of(one, "calls");
  return sum;
}

// "windows 812" and "windows 40" are "windows 852". Shards name what they have
// drawn in one order, each without what it has not: a name that is new stands
// behind the one that it stands behind there.
void merge_drawn(const std::vector<const Json*>& kernels, Json& out) {
  std::vector<std::pair<std::string, int64_t>> drawn;
  std::vector<std::string> never;
  for (const Json* kernel : kernels) {
    auto next = drawn.begin();
    for (const std::string& line : texts_of(*kernel, "drawn")) {
      const size_t blank = line.rfind(' ');
      if (blank == std::string::npos) continue;
      const std::string what = line.substr(0, blank);
      auto at =
          std::find_if(drawn.begin(), drawn.end(),
                       [&what](const auto& one) { return one.first == what; });
      if (at == drawn.end()) at = drawn.insert(next, {what, 0});
      at->second += std::atoll(line.c_str() + blank);
      next = at + 1;
    }
  }
  for (const std::string& what : texts_of(*kernels[0], "never_drawn"))
    if (std::none_of(drawn.begin(), drawn.end(),
                     [&what](const auto& one) { return one.first == what; }))
      never.push_back(what);
  out["drawn"] = Json::array();
  for (const auto& [what, calls] : drawn)
    out["drawn"].push_back(fmt::format("{} {}", what, calls));
  out["never_drawn"] = never;
  if (out.contains("hints"))
    for (Json& hint : out["hints"])
      if (hint.is_object()) hint["calls"] = calls_near(kernels, hint);
  MetPairs pairs;
  for (const Json* kernel : kernels)
    pairs.add(met_pairs_of(part_of(*kernel, "pairs")));
  if (!pairs.settings.empty()) out["pairs"] = json_of(pairs);
}

// The end of all shards together: sums, and what one of them says.
Json merged_end(const std::vector<RunRecord>& parts) {
  Json end = parts[0].end;
  for (const char* field : {"why", "replaced_cases"}) end.erase(field);
  for (size_t i = 1; i < parts.size(); ++i) {
    const Json& other = parts[i].end;
    for (const char* field : {"planned_cases", "rounds"})
      end[field] = std::max(count_of(end, field), count_of(other, field));
    end["wall_seconds"] = std::max(number_of(end, "wall_seconds"),
                                   number_of(other, "wall_seconds"));
    end["interrupted"] =
        is_set(end, "interrupted") || is_set(other, "interrupted");
    for (const auto& [what, seconds] : part_of(other, "thread_seconds").items())
      end["thread_seconds"][what] =
          number_of(part_of(end, "thread_seconds"), what.c_str()) +
          (seconds.is_number() ? seconds.get<double>() : 0);
    if (!end.contains("oracle_suspected") && other.contains("oracle_suspected"))
      end["oracle_suspected"] = other["oracle_suspected"];
  }
  return end;
}

Json merged_start(const RunRecord& first, const std::set<int64_t>& held,
                  int64_t of) {
  Json start = first.start;
  start.erase("shard");
  Json missing = Json::array();
  for (int64_t number = 1; number <= of; ++number)
    if (!held.contains(number)) missing.push_back(number);
  start["shards"] = {{"of", of}, {"merged", held}, {"missing", missing}};
  return start;
}

}  // namespace

std::optional<RunRecord> merge_records(std::vector<RunRecord> parts,
                                       std::string* error) {
  std::set<int64_t> held;
  int64_t of = 0;
  *error = check_parts(parts, held, of);
  if (!error->empty()) return std::nullopt;
  // The same however the records are named.
  std::sort(parts.begin(), parts.end(),
            [](const RunRecord& a, const RunRecord& b) {
              int64_t of_any = 0;
              return shards_in(a, &of_any) < shards_in(b, &of_any);
            });
  RunRecord out;
  out.start = merged_start(parts[0], held, of);
  out.end = merged_end(parts);
  out.laws = parts[0].laws;
  for (const Json& kernel : parts[0].kernels) {
    std::vector<const Json*> lines;
    for (const RunRecord& part : parts)
      lines.push_back(&part.kernel(text_of(kernel, "kernel")));
    Json merged = kernel;
    merge_drawn(lines, merged);
    out.kernels.push_back(std::move(merged));
  }
  for (const Json& result : parts[0].results) {
    std::vector<const Json*> results;
    for (const RunRecord& part : parts)
      if (const Json* one =
              part.result(text_of(result, "kernel"), text_of(result, "law")))
        results.push_back(one);
    out.add_result(merged_result(results));
  }
  const RunVerdict verdict = verdict_of(out);
  out.end["exit"] = static_cast<int>(verdict.code);
  if (!verdict.why_open.empty()) out.end["why"] = verdict.why_open;
  return out;
}

}  // namespace qkvet::tools
