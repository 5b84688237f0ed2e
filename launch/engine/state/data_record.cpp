// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/state/data_record.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "data/tokenizer/tokenizer.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"

namespace trireme {
namespace {

using json = nlohmann::ordered_json;

std::string record_path(const std::string& run_directory) {
  return run_directory + "/data.json";
}

// Folder names need not be UTF-8; both sides of a comparison are converted alike.
std::string record_text(const json& values) {
  return values.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string record_of(const Dataset& data) {
  const IdNames names = data.id_names();
  return record_text({{"path", names.source},
                      {"samples", data.size()},
                      {"fingerprint", fmt::format("{:016x}", data.fingerprint())},
                      {"tokenizer", names.tokenizer},
                      {"classes", names.classes}});
}

IdNames names_in(const json& record, const std::string& source) {
  return {source, record.at("tokenizer").get<std::string>(),
          record.at("classes").get<std::vector<std::string>>()};
}

}  // namespace

void keep_data_record(const std::string& run_directory, const Dataset& training) {
  if (training.id_names().source.empty()) return;
  write_file(record_path(run_directory), record_of(training), ExitCode::internal);
}

void require_ids_of_run(const std::string& run_directory, const Dataset& data) {
  const IdNames names = data.id_names();
  if (names.source.empty()) return;
  // Compares through the record's text, which may not contain a name unchanged.
  require_ids_of_run(run_directory, names_in(parse_json<json>(record_of(data)), names.source));
}

void require_ids_of_run(const std::string& run_directory, const IdNames& given) {
  if (const auto trained = ids_of_run(run_directory)) require_same_ids(*trained, given);
}

std::string tokenizer_of_run(const std::string& run_directory) {
  for (const char* const name : {"tokenizer.json", "tokenizer.model"}) {
    std::string path = run_directory + "/" + name;
    std::error_code ignored;  // a path that cannot be examined counts as absent
    if (std::filesystem::is_regular_file(path, ignored)) return path;
  }
  return {};
}

std::optional<IdNames> ids_of_run(const std::string& run_directory) {
  const std::string path = record_path(run_directory);
  constexpr std::uint64_t limit = std::uint64_t{1} << 26;
  const auto text = read_file_if_exists(path, limit, ExitCode::data);
  if (!text) {
    const std::string file = tokenizer_of_run(run_directory);
    return file.empty() ? std::nullopt : std::optional(IdNames{file, tokenizer_name(file), {}});
  }
  try {
    const json record = parse_json<json>(*text);
    const std::string trained =
        fmt::format("the run's training data {} ({})", record.at("path").get<std::string>(), path);
    return names_in(record, trained);
  } catch (const json::exception& error) {
    fail(ExitCode::data,
         "{}: has no record of the run's training data ({}); restore it, or remove it to skip the "
         "comparison",
         path, error.what());
  }
}

}  // namespace trireme
