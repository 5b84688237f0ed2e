// SPDX-License-Identifier: Apache-2.0
// Strict parsing of JSON that may be damaged or hostile; private to this module. Every error is
// ExitCode::checkpoint and names the file and the field.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>  // NOLINT: included by sources of this module only
#include <string>
#include <string_view>

namespace trireme::json_fields {

using json = nlohmann::json;

// Parses `text`; refuses duplicate keys in an object.
[[nodiscard]] json parse(std::string_view text, const std::string& path);

// An object with exactly the given keys. `where` is its name in messages.
class Object {
 public:
  Object(const json& value, const std::string& path, std::string where,
         std::initializer_list<std::string_view> keys,
         std::initializer_list<std::string_view> optional = {});

  [[nodiscard]] const json& at(std::string_view key) const;
  [[nodiscard]] std::int64_t number(std::string_view key, std::int64_t min, std::int64_t max) const;
  [[nodiscard]] std::string text(std::string_view key) const;
  [[nodiscard]] const json& array(std::string_view key) const;
  [[nodiscard]] std::uint64_t hash(std::string_view key) const;  // 16 hexadecimal digits
  [[noreturn]] void refuse(std::string_view key, std::string_view what) const;

 private:
  const json& value_;
  const std::string& path_;
  std::string where_;
};

[[nodiscard]] std::int64_t number_of(const json& value, std::int64_t min, std::int64_t max,
                                     const std::string& path, const std::string& where);
[[nodiscard]] std::uint64_t hash_of(const json& value, const std::string& path,
                                    const std::string& where);
[[noreturn]] void refuse(const std::string& path, const std::string& where, std::string_view what);

}  // namespace trireme::json_fields
