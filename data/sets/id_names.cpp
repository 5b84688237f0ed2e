// SPDX-License-Identifier: Apache-2.0
#include "data/sets/id_names.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "data/megatron/index.h"
#include "data/sets/dataset.h"
#include "data/shard/shard_set.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

// "huggingface:<file name>:xxh3=<digits>:tokens=<digits>": the file name may be anything. Shards of
// earlier versions and of SentencePiece lack the last part.
std::string_view part_of(std::string_view tokenizer, std::string_view mark) {
  constexpr std::size_t digits = 16;
  const std::size_t at = tokenizer.rfind(mark);
  return at == std::string_view::npos ? "" : tokenizer.substr(at + mark.size(), digits);
}

bool same_tokens(std::string_view a, std::string_view b) {
  for (const std::string_view mark : {":tokens=", ":xxh3="}) {
    const std::string_view in_a = part_of(a, mark), in_b = part_of(b, mark);
    if (!in_a.empty() && !in_b.empty()) return in_a == in_b;
  }
  return a == b;
}

bool numbered(const std::vector<std::string>& classes) {
  for (std::size_t i = 0; i < classes.size(); ++i) {
    if (classes[i] != std::to_string(i)) return false;
  }
  return true;
}

std::string listed(const std::vector<std::string>& classes) {
  constexpr std::size_t limit = 8;
  const auto shown = std::span(classes).first(std::min(limit, classes.size()));
  return fmt::format("{}: {}{}", classes.size(), fmt::join(shown, ", "),
                     classes.size() > limit ? ", ..." : "");
}

void require_same_classes(const IdNames& wanted, const IdNames& given) {
  const std::vector<std::string>&a = wanted.classes, &b = given.classes;
  if (a.empty() || b.empty() || a == b) return;
  if (numbered(a) && (numbered(b) || a.size() <= b.size())) return;
  if (numbered(b) && b.size() <= a.size()) return;
  const auto at = static_cast<std::size_t>(
      std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  const auto name = [&](const std::vector<std::string>& list) {
    return at < list.size() ? fmt::format("'{}'", list[at]) : std::string("absent");
  };
  fail(ExitCode::data,
       "{}: its class {} is {}, but {} in {}: the same label would mean another class ({} against "
       "{}); pack both with one list of classes, e.g. `trireme data pack-images --classes-of`, or "
       "for files read in place set data.class_names",
       given.source, at, name(b), name(a), wanted.source, listed(b), listed(a));
}

}  // namespace

IdNames id_names_of(const Shard& shard) {
  IdNames names{shard.path, shard.header.tokenizer, shard.header.classes};
  // The format stores an empty list as one empty name.
  if (std::ranges::all_of(names.classes, &std::string::empty)) names.classes.clear();
  return names;
}

IdNames id_names_at(const std::string& path, const std::string& split) {
  if (const auto index = find_megatron_index(path)) return {*index, "", {}};  // it is unknown
  return id_names_of(open_shard(list_shards(path, split).paths.front()));
}

std::vector<IdNames> id_names_below(const std::string& path) {
  std::vector<IdNames> all;
  for (const std::string& directory : find_datasets(path)) {
    all.push_back(id_names_at(directory, ""));
    require_same_ids(all.front(), all.back());
  }
  return all;
}

void require_same_ids(const IdNames& wanted, const IdNames& given) {
  const std::string &a = wanted.tokenizer, &b = given.tokenizer;
  if (!a.empty() && !b.empty() && !same_tokens(a, b)) {
    fail(ExitCode::data,
         "{}: was packed with the tokenizer {}, but {} with {}: the same ids would mean other "
         "text; pack both with one tokenizer",
         given.source, b, wanted.source, a);
  }
  require_same_classes(wanted, given);
}

}  // namespace trireme
