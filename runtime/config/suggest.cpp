// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/suggest.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "runtime/config/key_table.h"

namespace trireme::config {
namespace {

constexpr std::size_t longest_typo = 64;  // longer words are not typos; keeps the table small

bool same_letter(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

std::string join_key(std::string_view section, std::string_view name) {
  return section.empty() ? std::string(name) : fmt::format("{}.{}", section, name);
}

}  // namespace

std::size_t edit_distance(std::string_view from, std::string_view to) {
  const std::size_t columns = to.size() + 1;
  std::vector<std::size_t> before(columns), last(columns), row(columns);
  for (std::size_t j = 0; j < columns; ++j)
    last[j] = j;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j < columns; ++j) {
      const bool same = same_letter(from[i - 1], to[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0U : 1U)});
      const bool swapped = i > 1 && j > 1 && same_letter(from[i - 1], to[j - 2]) &&
                           same_letter(from[i - 2], to[j - 1]);
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last.back();
}

std::string_view closest(std::string_view text, std::span<const std::string_view> words) {
  if (text.size() > longest_typo) return {};
  std::string_view best;
  std::size_t best_distance = 0;
  for (const std::string_view word : words) {
    const std::size_t distance = edit_distance(text, word);
    const std::size_t tolerated = std::max<std::size_t>(1, word.size() / 3);
    if (distance <= tolerated && (best.empty() || distance < best_distance)) {
      best = word;
      best_distance = distance;
    }
  }
  return best;
}

std::string advice_for_unknown_key(const KeyTable& table, std::string_view key) {
  const auto dot = key.find('.');
  const bool sectioned = dot != std::string_view::npos && table.is_section(key.substr(0, dot));
  const std::string_view section = sectioned ? key.substr(0, dot) : std::string_view{};
  const std::string_view name = sectioned ? key.substr(dot + 1) : key;
  const auto names = table.names_in(section);
  const std::string_view last =
      key.substr(key.rfind('.') == std::string_view::npos ? 0 : key.rfind('.') + 1);
  if (const auto keys = keys_called(last); !keys.empty())
    return fmt::format("did you mean {}?", fmt::join(keys, " and "));
  if (const auto near = closest(name, names); !near.empty())
    return fmt::format("did you mean {}?", join_key(section, near));

  std::vector<std::string_view> elsewhere;
  for (const Field& field : table.fields()) {
    if (field.name() == last) elsewhere.push_back(field.key);
  }
  if (!elsewhere.empty()) return fmt::format("did you mean {}?", fmt::join(elsewhere, " or "));

  std::vector<std::string_view> keys;
  for (const Field& field : table.fields())
    keys.push_back(field.key);
  if (const auto near = closest(key, keys); !near.empty())
    return fmt::format("did you mean {}?", near);
  return fmt::format("{} has: {}", sectioned ? fmt::format("section {}", section) : "the top level",
                     fmt::join(names, ", "));
}

}  // namespace trireme::config
