// SPDX-License-Identifier: Apache-2.0
// Serialises plain data: little-endian numbers, and lists and texts with a length prefix. Parsing
// never allocates beyond the given bytes; the caller checks the meaning. A structure lists its
// members in `transfer(archive, value)`, for both directions.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "runtime/base/error.h"

namespace trireme {

// List elements that are copied as raw memory: numbers, and structures without padding.
template <typename Element>
inline constexpr bool is_plain_element = std::is_arithmetic_v<Element> ||
                                         std::is_same_v<Element, std::byte> ||
                                         (std::is_trivially_copyable_v<Element> &&
                                          std::has_unique_object_representations_v<Element>);

class IndexWriter {
 public:
  explicit IndexWriter(std::string& to) : to_(to) {}

  template <typename Number>
  requires std::is_arithmetic_v<Number>
  void operator()(Number& value) {
    to_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void operator()(std::string& text) {
    count(text.size());
    to_.append(text);
  }
  template <typename Element>
  void operator()(std::vector<Element>& list) {
    count(list.size());
    if constexpr (is_plain_element<Element>) {
      to_.append(reinterpret_cast<const char*>(list.data()), list.size() * sizeof(Element));
    } else {
      for (Element& element : list)
        transfer(*this, element);
    }
  }

 private:
  void count(std::uint64_t value) { (*this)(value); }
  std::string& to_;
};

class IndexParser {
 public:
  // Errors name `subject`: "an index of HDF5 files". Raises ExitCode::data for bytes that end early
  // or are nested too deeply.
  IndexParser(std::string_view from, std::string_view subject) : from_(from), subject_(subject) {}
  [[nodiscard]] bool at_end() const { return from_.empty(); }

  template <typename Number>
  requires std::is_arithmetic_v<Number>
  void operator()(Number& value) { std::memcpy(&value, take(sizeof(value)).data(), sizeof(value)); }
  void operator()(std::string& text) { text = take(count(1)); }
  template <typename Element>
  void operator()(std::vector<Element>& list) {
    constexpr int deepest = 16;
    if constexpr (is_plain_element<Element>) {
      list.resize(count(sizeof(Element)));
      const std::string_view bytes = take(list.size() * sizeof(Element));
      if (!list.empty()) std::memcpy(list.data(), bytes.data(), bytes.size());
    } else {
      if (++depth_ > deepest) fail(ExitCode::data, "{} is too deep", subject_);
      // The smallest such element, a text, takes 8 bytes.
      constexpr std::uint64_t least = 8;
      const std::uint64_t elements = count(least);
      for (std::uint64_t i = 0; i < elements; ++i)
        transfer(*this, list.emplace_back());
      --depth_;
    }
  }

 private:
  std::string_view take(std::uint64_t bytes) {
    if (bytes > from_.size()) fail(ExitCode::data, "{} ends early", subject_);
    const std::string_view taken = from_.substr(0, bytes);
    from_.remove_prefix(bytes);
    return taken;
  }
  // Length of a list with elements of at least `least` bytes; the remaining bytes bound it.
  std::uint64_t count(std::uint64_t least) {
    std::uint64_t value = 0;
    (*this)(value);
    if (value > from_.size() / least) fail(ExitCode::data, "{} ends early", subject_);
    return value;
  }

  std::string_view from_, subject_;
  int depth_ = 0;  // lists in lists
};

template <typename Archive>
void transfer(Archive& archive, std::string& text) {
  archive(text);
}

template <typename Archive>
void transfer(Archive& archive, bool& value) {
  auto byte = static_cast<std::uint8_t>(value);
  archive(byte);
  value = byte != 0;
}

}  // namespace trireme
