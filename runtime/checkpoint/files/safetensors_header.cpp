// SPDX-License-Identifier: Apache-2.0
#include "runtime/checkpoint/files/safetensors_header.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/json.h"

namespace trireme::safetensors {
namespace {

using json = nlohmann::json;

// In the reference writer's order: by alignment, then by its enumeration.
constexpr std::array element_types = {
    ElementType{"BOOL", 1, {}},        ElementType{"U8", 1, DType::u8},
    ElementType{"I8", 1, {}},          ElementType{"F8_E5M2", 1, {}},
    ElementType{"F8_E4M3", 1, {}},     ElementType{"F8_E8M0", 1, {}},
    ElementType{"I16", 2, {}},         ElementType{"U16", 2, DType::u16},
    ElementType{"F16", 2, DType::f16}, ElementType{"BF16", 2, DType::bf16},
    ElementType{"I32", 4, DType::i32}, ElementType{"U32", 4, DType::u32},
    ElementType{"F32", 4, DType::f32}, ElementType{"C64", 8, {}},
    ElementType{"F64", 8, DType::f64}, ElementType{"I64", 8, DType::i64},
    ElementType{"U64", 8, DType::u64},
};

// Accepts exactly the header's grammar and stops at the first other token, so that a hostile header
// (deep nesting, huge arrays) costs nothing. Detects duplicate keys, which a document model would
// silently merge.
class HeaderReader : public nlohmann::json_sax<json> {
 public:
  explicit HeaderReader(Header& header) : header_(header) {}
  [[nodiscard]] const std::string& problem() const { return problem_; }

  bool start_object(std::size_t) override {
    switch (state_) {
      case State::start:
        state_ = State::names;
        return true;
      case State::value:
        if (name_ == "__metadata__") {
          state_ = State::metadata;
          return true;
        }
        entry_ = Entry{.name = name_, .dtype = {}, .extents = {}, .begin = 0, .end = 0};
        seen_ = {};
        state_ = State::fields;
        return true;
      default:
        return unexpected("an object");
    }
  }

  bool key(std::string& text) override {
    switch (state_) {
      case State::names:
        name_ = text;
        if (!names_.insert(text).second) return refuse(fmt::format("'{}' appears twice", text));
        state_ = State::value;
        return true;
      case State::metadata:
        metadata_key_ = text;
        if (header_.metadata.contains(text)) {
          return refuse(fmt::format("'__metadata__.{}' appears twice", text));
        }
        state_ = State::metadata_value;
        return true;
      case State::fields:
        return field(text);
      default:
        return unexpected("a key");
    }
  }

  bool string(std::string& text) override {
    if (state_ == State::metadata_value) {
      header_.metadata.emplace(metadata_key_, text);
      state_ = State::metadata;
      return true;
    }
    if (state_ == State::dtype) {
      entry_.dtype = text;
      state_ = State::fields;
      return true;
    }
    return unexpected("a string");
  }

  bool start_array(std::size_t) override {
    if (state_ == State::shape) {
      state_ = State::extents;
      return true;
    }
    if (state_ == State::offsets) {
      state_ = State::offset_values;
      return true;
    }
    return unexpected("an array");
  }

  bool number_unsigned(std::uint64_t value) override {
    if (state_ == State::extents) {
      entry_.extents.push_back(value);
      return true;
    }
    if (state_ == State::offset_values && offsets_read_ < 2) {
      (offsets_read_++ == 0 ? entry_.begin : entry_.end) = value;
      return true;
    }
    return unexpected("a number");
  }

  bool end_array() override {
    if (state_ == State::offset_values && offsets_read_ != 2) {
      return refuse(fmt::format("tensor '{}': data_offsets needs two numbers", name_));
    }
    state_ = State::fields;
    return true;
  }

  bool end_object() override {
    if (state_ == State::fields) {
      if (std::ranges::count(seen_, true) != 3) {
        return refuse(fmt::format("tensor '{}': needs dtype, shape and data_offsets", name_));
      }
      header_.entries.push_back(std::move(entry_));
      state_ = State::names;
    } else {
      state_ = state_ == State::metadata ? State::names : State::done;
    }
    return true;
  }

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool number_integer(std::int64_t) override { return unexpected("a negative number"); }
  bool number_float(double, const std::string&) override { return unexpected("a fraction"); }
  bool binary(json::binary_t&) override { return unexpected("binary data"); }
  bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
    return refuse(error.what());
  }

 private:
  enum class State {
    start,
    names,
    value,
    metadata,
    metadata_value,
    fields,
    dtype,
    shape,
    extents,
    offsets,
    offset_values,
    done
  };

  bool field(const std::string& text) {
    constexpr std::array<std::string_view, 3> fields = {"dtype", "shape", "data_offsets"};
    constexpr std::array states = {State::dtype, State::shape, State::offsets};
    const auto index = static_cast<std::size_t>(std::ranges::find(fields, std::string_view(text)) -
                                                fields.begin());
    if (index == fields.size()) {
      return refuse(fmt::format("tensor '{}': unknown field '{}'", name_, text));
    }
    if (std::exchange(seen_[index], true)) {
      return refuse(fmt::format("tensor '{}': '{}' appears twice", name_, text));
    }
    offsets_read_ = 0;
    state_ = states[index];
    return true;
  }

  bool unexpected(std::string_view what) {
    if (name_.empty()) return refuse(fmt::format("{} is not allowed here", what));
    return refuse(fmt::format("'{}': {} is not allowed here", name_, what));
  }

  bool refuse(std::string text) {
    problem_ = std::move(text);
    return false;
  }

  Header& header_;
  State state_ = State::start;
  std::set<std::string> names_;
  std::string name_;
  std::string metadata_key_;
  Entry entry_;
  std::array<bool, 3> seen_{};
  int offsets_read_ = 0;
  std::string problem_;
};

// Bytes for this shape; empty for element types of unknown width and on overflow.
std::optional<std::uint64_t> expected_bytes(const Entry& entry, const ElementType& type) {
  std::uint64_t total = type.bytes;
  for (const std::uint64_t extent : entry.extents) {
    if (__builtin_mul_overflow(total, extent, &total)) return {};
  }
  return total;
}

void check_regions(const Header& header, std::uint64_t data_bytes, const std::string& path) {
  std::uint64_t next = 0;
  for (const Entry& entry : header.entries) {
    if (entry.begin != next || entry.end < entry.begin) {
      fail(ExitCode::checkpoint,
           "{}: tensor '{}': data_offsets [{}, {}] do not continue at {}; the file is damaged",
           path, entry.name, entry.begin, entry.end, next);
    }
    next = entry.end;
    const ElementType* const type = find_element_type(entry.dtype);
    if (type == nullptr) continue;  // refused when it is read
    const auto bytes = expected_bytes(entry, *type);
    if (!bytes || *bytes != entry.end - entry.begin) {
      fail(ExitCode::checkpoint,
           "{}: tensor '{}': {} of shape ({}) does not fit the {} bytes of its data_offsets; the "
           "file is damaged",
           path, entry.name, entry.dtype, fmt::join(entry.extents, ", "), entry.end - entry.begin);
    }
  }
  if (next != data_bytes) {
    fail(ExitCode::checkpoint,
         "{}: holds {} bytes of data, but its header describes {}; the file is {}", path,
         data_bytes, next, next > data_bytes ? "truncated" : "damaged");
  }
}

// `text` as a JSON string; invalid UTF-8 is the caller's error.
std::string quoted(const std::string& text, const std::string& path) {
  try {
    return json(text).dump();
  } catch (const json::exception&) {
    fail(ExitCode::checkpoint, "{}: a tensor name or metadata text is not UTF-8", path);
  }
}

}  // namespace

const ElementType* find_element_type(std::string_view name) {
  const auto found = std::ranges::find(element_types, name, &ElementType::name);
  return found == element_types.end() ? nullptr : &*found;
}

std::size_t order_of(DType type) {
  const auto found = std::ranges::find(element_types, std::optional(type), &ElementType::ours);
  TRIREME_EXPECTS(found != element_types.end(), "no safetensors dtype for {}", name_of(type));
  return static_cast<std::size_t>(found - element_types.begin());
}

const ElementType& element_type(DType type) {
  return element_types[order_of(type)];
}

Header parse_header(std::string_view text, std::uint64_t data_bytes, const std::string& path) {
  // The format requires '{' first, where JSON would allow white space, and the JSON library ends
  // the text at a zero byte, which would hide what follows it.
  if (!text.starts_with('{') || text.find('\0') != std::string_view::npos) {
    fail(ExitCode::checkpoint, "{}: is not a safetensors file (its header is not JSON)", path);
  }
  Header header;
  HeaderReader reader(header);
  if (!read_json_events(text, reader)) {
    fail(ExitCode::checkpoint, "{}: is not a valid safetensors file: {}", path, reader.problem());
  }
  std::ranges::stable_sort(header.entries, {},
                           [](const Entry& entry) { return std::pair(entry.begin, entry.end); });
  check_regions(header, data_bytes, path);
  return header;
}

std::string make_header(std::span<const Entry> entries,
                        const std::map<std::string, std::string>& metadata,
                        const std::string& path) {
  std::string text = "{";
  const auto begin_item = [&text] { text += text.size() > 1 ? "," : ""; };
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    bool first = true;
    for (const auto& [key, value] : metadata) {
      text += fmt::format("{}{}:{}", std::exchange(first, false) ? "" : ",", quoted(key, path),
                          quoted(value, path));
    }
    text += "}";
  }
  for (const Entry& entry : entries) {
    begin_item();
    text += fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                        quoted(entry.name, path), entry.dtype, fmt::join(entry.extents, ","),
                        entry.begin, entry.end);
  }
  text += "}";
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > header_limit) {
    fail(ExitCode::checkpoint, "{}: a header of {} bytes exceeds the format's limit of {}", path,
         text.size(), header_limit);
  }
  std::string length(length_bytes, '\0');
  for (std::size_t i = 0; i < length_bytes; ++i) {
    length[i] = static_cast<char>((text.size() >> (8 * i)) & 0xffU);
  }
  return length + text;
}

}  // namespace trireme::safetensors
