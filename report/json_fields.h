// SPDX-License-Identifier: Apache-2.0
// Structs as JSON objects, written and read by one list of fields. A struct
// lists them in `void fields(auto& v)`:
//
//   v.must("law", law, "seconds", seconds);  // always written, required
//   v.may("shard", shard);                   // unless it is empty
//
// An enumeration has words_of(). A struct of another floor has a function
// fields(v, value) in this namespace.
#ifndef QKVET_REPORT_JSON_FIELDS_H_
#define QKVET_REPORT_JSON_FIELDS_H_

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

#include "report/json_lines.h"
#include "report/lines.h"
#include "report/run_record.h"

namespace qkvet::report {

void fields(auto& v, auto& x) { x.fields(v); }

// Errors that involve several fields: "" or the error.
template <class T>
std::string wrong_in(const T&) {
  return "";
}

// --- writing

template <class T>
concept Worded = requires(T value) {
  words_of(value);
};

template <class T>
bool has_something(const T& value) {
  if constexpr (std::is_same_v<T, properties::MetPairs>)
    return !value.settings.empty();
  else if constexpr (requires { value.has_value(); })
    return value.has_value();
  else if constexpr (requires { value.empty(); })
    return !value.empty();
  else
    return value != T{};
}

class LineWriter {
 public:
  static constexpr bool kReads = false;

  explicit LineWriter(Json& out) : out_(out) {}

  // Names and members by turns.
  template <class T, class... More>
  void must(const char* name, const T& value, const More&... more) {
    out_[name] = written(value);
    if constexpr (sizeof...(more) > 0) must(more...);
  }
  template <class T, class... More>
  void may(const char* name, const T& value, const More&... more) {
    if (has_something(value)) must(name, value);
    if constexpr (sizeof...(more) > 0) may(more...);
  }
  // One list serves both directions; this one changes nothing.
  template <class T>
  void flat(const T& value) {
    fields(*this, const_cast<T&>(value));
  }
  template <class F>
  void part(const char* name, bool is_there, F&& list) {
    if (!is_there) return;
    Json json = Json::object();
    LineWriter writer(json);
    list(writer);
    out_[name] = std::move(json);
  }

 private:
  static Json written(double value) { return json_number(value); }
  static Json written(ExitCode value) { return static_cast<int>(value); }
  template <class T>
  static Json written(const std::optional<T>& value) {
    return written(*value);
  }
  template <class T>
  static Json written(const std::vector<T>& values) {
    Json out = Json::array();
    for (const T& one : values) out.push_back(written(one));
    return out;
  }
  template <class K, class T>
  static Json written(const std::map<K, T>& values) {
    Json out = Json::object();
    for (const auto& [key, one] : values)
      out[fmt::format("{}", key)] = written(one);
    return out;
  }
  template <class T>
  static Json written(const T& value) {
    if constexpr (Worded<T>) {
      return word_of(value);
    } else if constexpr (std::is_class_v<T> &&
                         !std::is_same_v<T, std::string>) {
      Json json = Json::object();
      LineWriter(json).flat(value);
      return json;
    } else {
      return value;
    }
  }

  Json& out_;
};

// --- reading

// "failure.calls[0].outputs[1]", and the error there.
struct WrongLine {
  std::string place, text;
};

// Sums of counts stay exact, and within 64 bits.
constexpr int64_t kMostCounted = int64_t{1} << 53;

class LineReader {
 public:
  static constexpr bool kReads = true;

  explicit LineReader(const Json& json) : json_(json) {
    if (!json.is_object()) throw refused(json, "an object");
  }

  template <class T, class... More>
  void must(const char* name, T& value, More&... more) {
    if (!json_.contains(name)) throw WrongLine{name, "is missing"};
    may(name, value);
    if constexpr (sizeof...(more) > 0) must(more...);
  }
  template <class T, class... More>
  void may(const char* name, T& value, More&... more) {
    if (json_.contains(name)) within(name, [&] { read(json_[name], value); });
    if constexpr (sizeof...(more) > 0) may(more...);
  }
  void flat(auto& value) { fields(*this, value); }
  template <class F>
  void part(const char* name, bool, F&& list) {
    if (!json_.contains(name)) return;
    within(name, [&] {
      LineReader reader(json_[name]);
      list(reader);
    });
  }

  static WrongLine wrong(const std::string& text) { return {"", text}; }

  template <class T>
  static void read(const Json& json, T& value) {
    if constexpr (Worded<T>) {
      const Words words = words_of(value);
      const auto found = std::find(words.begin(), words.end(), json);
      if (found == words.end())
        throw refused(json, joined(Texts(words.begin(), words.end())));
      value = static_cast<T>(found - words.begin());
    } else {
      LineReader(json).flat(value);
      if (std::string why = wrong_in(value); !why.empty()) throw wrong(why);
    }
  }
  static void read(const Json& json, std::string& value) {
    if (!json.is_string()) throw refused(json, "a text");
    value = json.get<std::string>();
  }
  static void read(const Json& json, bool& value) {
    if (!json.is_boolean()) throw refused(json, "true, false");
    value = json.get<bool>();
  }
  static void read(const Json& json, int& value) {
    if (!json.is_number_integer()) throw refused(json, "a whole number");
    value = json.get<int>();
  }
  static void read(const Json& json, int64_t& value) {
    if (!json.is_number_unsigned() || json.get<uint64_t>() > kMostCounted)
      throw refused(json, "a count, up to 2^53");
    value = json.get<int64_t>();
  }
  static void read(const Json& json, uint64_t& value) {
    if (!json.is_number_unsigned()) throw refused(json, "a count");
    value = json.get<uint64_t>();
  }
  static void read(const Json& json, double& value) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (json.is_number())
      value = json.get<double>();
    else if (json == "nan")
      value = std::nan("");
    else if (json == "inf" || json == "-inf")
      value = json == "inf" ? kInfinity : -kInfinity;
    else
      throw refused(json, "a number, inf, -inf, nan");
  }
  static void read(const Json& json, ExitCode& value) {
    for (const ExitCode code :
         {kConforms, kLawFailed, kNothingChecked, kKernelDied})
      if (json == static_cast<int>(code)) {
        value = code;
        return;
      }
    throw refused(json, "0, 1, 3, 4");
  }
  template <class T>
  static void read(const Json& json, std::optional<T>& value) {
    read(json, value.emplace());
  }
  template <class T>
  static void read(const Json& json, std::vector<T>& values) {
    if (!json.is_array()) throw refused(json, "an array");
    for (size_t n = 0; n < json.size(); ++n)
      within(fmt::format("[{}]", n),
             [&] { read(json[n], values.emplace_back()); });
  }
  template <class K, class T>
  static void read(const Json& json, std::map<K, T>& values) {
    if (!json.is_object()) throw refused(json, "an object");
    for (const auto& item : json.items())
      within(item.key(), [&] {
        K key{};
        read_key(item.key(), key);
        read(item.value(), values[key]);
      });
  }

 private:
  static void read_key(const std::string& name, std::string& key) {
    key = name;
  }
  // Powers of two, and quarters of them.
  static void read_key(const std::string& name, int& key) {
    const char* end = name.data() + name.size();
    const auto [at, bad] = std::from_chars(name.data(), end, key);
    if (bad != std::errc() || at != end || key < -kMostPower ||
        key > kMostQuarters)
      throw wrong(fmt::format("allowed: names from {} to {}", -kMostPower,
                              kMostQuarters));
  }
  static WrongLine refused(const Json& json, const std::string& allowed) {
    constexpr size_t kShown = 40;
    std::string text = json_text(json);
    if (text.size() > kShown) text = text.substr(0, kShown) + "...";
    return {"", text + "; allowed: " + allowed};
  }
  template <class F>
  static void within(const std::string& step, F&& body) {
    try {
      body();
    } catch (WrongLine& wrong) {
      const bool joins = wrong.place.empty() || wrong.place[0] == '[';
      throw WrongLine{step + (joins ? "" : ".") + wrong.place, wrong.text};
    }
  }

  const Json& json_;
};

// The object with the fields of the value after those that it has.
template <class T>
Json with_fields(Json json, const T& value) {
  LineWriter(json).flat(value);
  return json;
}

// Absent if the text is no object with these fields.
template <class T>
std::optional<T> fields_in(std::string_view text) {
  try {
    T out;
    LineReader::read(json_of(text), out);
    return out;
  } catch (const WrongLine&) {
    return std::nullopt;
  } catch (const Json::parse_error&) {
    return std::nullopt;
  }
}

}  // namespace qkvet::report

#endif  // QKVET_REPORT_JSON_FIELDS_H_
