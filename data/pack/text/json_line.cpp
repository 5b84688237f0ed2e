// SPDX-License-Identifier: Apache-2.0
#include "data/pack/text/json_line.h"
#include "runtime/base/json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace trireme {
namespace {

using json = nlohmann::json;

// Stores only the field's text.
class FieldReader final : public json::json_sax_t {
 public:
  explicit FieldReader(const std::string& field) : field_(field) {}

  bool null() override { return other("null"); }
  bool boolean(bool /*value*/) override { return other("a boolean"); }
  bool number_integer(number_integer_t /*value*/) override { return other("a number"); }
  bool number_unsigned(number_unsigned_t /*value*/) override { return other("a number"); }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override {
    return other("a number");
  }
  bool binary(binary_t& /*value*/) override { return other("binary"); }
  bool string(string_t& value) override {
    if (!here()) return other("text");
    text = std::move(value);
    found_ = "";
    is_field_ = false;
    return true;
  }
  bool start_object(std::size_t /*elements*/) override { return open("an object"); }
  bool start_array(std::size_t /*elements*/) override { return open("a list"); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& value) override {
    if (depth_ == 1) is_field_ = value == field_;
    return true;
  }
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const json::exception& error) override {
    const std::string_view whole = error.what();
    const std::size_t at = whole.find("parse error");
    problem = fmt::format("is no JSON ({}, byte {})",
                          at == std::string_view::npos ? whole : whole.substr(at), position);
    return false;
  }

  // Empty if `text` holds it.
  [[nodiscard]] std::string verdict() const {
    if (!problem.empty()) return problem;
    if (found_.empty()) return "";
    return found_ == missing ? fmt::format("has no field '{}'", field_)
                             : fmt::format("has {} in its field '{}', not text", found_, field_);
  }

  std::string text, problem;

 private:
  static constexpr std::string_view missing = "nothing";

  [[nodiscard]] bool here() const { return depth_ == 1 && is_field_; }
  bool other(std::string_view kind) {
    if (depth_ == 0) problem = fmt::format("is {}, not an object", kind);
    if (here()) {
      found_ = kind;
      is_field_ = false;
    }
    return true;
  }
  bool open(std::string_view kind) {
    if (depth_ > 0 || kind != "an object") other(kind);
    ++depth_;
    return true;
  }
  bool close() {
    --depth_;
    return true;
  }

  const std::string& field_;
  std::string_view found_ = missing;
  int depth_ = 0;
  bool is_field_ = false;  // the next value is the field's
};

}  // namespace

bool read_json_line(std::string_view line, const std::string& field, std::string& text) {
  FieldReader reader(field);
  static_cast<void>(read_json_events(line, reader));
  text = reader.verdict();
  if (!text.empty()) return false;
  text = std::move(reader.text);
  return true;
}

}  // namespace trireme
