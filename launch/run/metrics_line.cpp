// SPDX-License-Identifier: Apache-2.0
#include "launch/run/metrics_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/base/json.h"
#include "runtime/telemetry/metrics.h"

namespace trireme::runs {

namespace {

// A type of this file alone: of templates that several files use the linker keeps one copy, maybe
// from one that is built without optimisation.
struct Bytes : std::vector<std::uint8_t> {
  using vector::vector;
};
using LineJson =
    nlohmann::basic_json<std::map, std::vector, std::string, bool, std::int64_t, std::uint64_t,
                         double, std::allocator, nlohmann::adl_serializer, Bytes>;

}  // namespace

// Parses a line without building a document: a gigabyte of metrics has millions of lines.
class MetricsLine::Scanner : public nlohmann::json_sax<LineJson> {
 public:
  explicit Scanner(MetricsLine& line) : line_(line) {}
  // Whether `text` is an object.
  [[nodiscard]] bool scan(std::string_view text) {
    return read_json_events(text, *this) && object_;
  }
  // Has values other than numbers, which need a document.
  [[nodiscard]] bool is_document() const { return document_; }

  bool null() override { return number(unknown); }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool string(string_t& text) override {
    if (depth_ == 1 && line_.key_ == "timestamp")
      line_.timestamp_ = text;
    else
      document_ = true;
    return true;
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override {
    if (depth_++ == 0)
      object_ = true;
    else
      document_ = true;
    return true;
  }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override {
    ++depth_;
    document_ = true;
    return true;
  }
  bool end_array() override { return leave(); }
  bool key(string_t& name) override {
    if (depth_ == 1) line_.key_.swap(name);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  bool leave() {
    --depth_;
    return true;
  }
  bool number(double value) {
    if (depth_ != 1) return true;
    if (line_.count_ == line_.numbers_.size()) line_.numbers_.emplace_back();
    line_.numbers_[line_.count_].key = line_.key_;
    line_.numbers_[line_.count_++].value = value;
    return true;
  }

  MetricsLine& line_;
  int depth_ = 0;
  bool object_ = false, document_ = false;
};

MetricsLine::Kind MetricsLine::parse(std::string_view text) {
  count_ = 0;
  timestamp_.clear();
  texts_.clear();
  sources_.clear();
  loads_.clear();
  Scanner scanner(*this);
  return kind_ = scanner.scan(text) ? kind_of(text, scanner.is_document()) : Kind::broken;
}

MetricsLine::Kind MetricsLine::kind_of(std::string_view text, bool document) {
  constexpr double largest_step = 0x1p53;  // doubles hold larger integers inexactly
  const double step = number("step");
  if (!(step >= 0 && step < largest_step)) return Kind::broken;
  step_ = static_cast<std::int64_t>(step);
  if (find("loss") != nullptr) {
    if (document) read_loads(text);
    return Kind::step;
  }
  if (find("validation_loss") != nullptr) {
    if (document) read_sources(text);
    return Kind::evaluation;
  }
  return document ? read_event(text) : Kind::other;
}

void MetricsLine::read_sources(std::string_view text) {
  const LineJson line = json_or_discarded(text);
  const auto found = line.find("validation");
  if (found == line.end() || !found->is_object()) return;
  for (const auto& [name, source] : found->items()) {
    if (source.is_object() && source.contains("loss") && source["loss"].is_number())
      sources_.emplace_back(name, source["loss"].get<double>());
  }
}

void MetricsLine::read_loads(std::string_view text) {
  const LineJson line = json_or_discarded(text);
  const auto found = line.find("experts");
  if (found == line.end() || !found->is_object()) return;
  for (const auto& [name, layer] : found->items()) {
    const auto number_in = [&layer](const char* key) {
      const auto value = layer.is_object() ? layer.find(key) : layer.end();
      return value != layer.end() && value->is_number() ? value->get<double>() : 0.0;
    };
    loads_.push_back({.layer = name,
                      .max_over_mean = number_in("max_over_mean"),
                      .dead = static_cast<std::int64_t>(number_in("dead")),
                      .entropy = number_in("entropy"),
                      .tokens = number_in("tokens")});
  }
}

MetricsLine::Kind MetricsLine::read_event(std::string_view text) {
  const LineJson line = json_or_discarded(text);
  for (const auto& [key, value] : line.items())
    texts_.emplace_back(key, value.is_string()
                                 ? value.get<std::string>()
                                 : value.dump(-1, ' ', false, LineJson::error_handler_t::replace));
  if (line.contains("skipped")) return Kind::skipped;
  if (line.contains("checkpoint_failed")) return Kind::failed_save;
  return line.contains("warning") ? Kind::warning : Kind::other;
}

const double* MetricsLine::find(std::string_view key) const {
  for (const Number& one : numbers())
    if (one.key == key) return &one.value;
  return nullptr;
}

double MetricsLine::number(std::string_view key, double otherwise) const {
  const double* const value = find(key);
  return value != nullptr && std::isfinite(*value) ? *value : otherwise;
}

std::string_view MetricsLine::items() const {
  for (const ItemKind kind : {ItemKind::tokens, ItemKind::images, ItemKind::samples})
    if (find(fmt::format("{}_per_s", name_of(kind))) != nullptr) return name_of(kind);
  return "";
}

std::string MetricsLine::text(std::string_view key) const {
  const auto found = std::ranges::find(
      texts_, key, [](const auto& entry) -> std::string_view { return entry.first; });
  return found == texts_.end() ? "" : found->second;
}

}  // namespace trireme::runs
