// SPDX-License-Identifier: Apache-2.0
#include "data/fields/stored_fields.h"

#include <fmt/format.h>

#include <cmath>

#include "data/fields/storage/filters.h"
#include "runtime/base/error.h"

namespace trireme {

ScanRequest scan_request(const FieldOptions& options) {
  ScanRequest request{.fields = options.inputs,
                      .groups = options.samples == SampleUnit::group ? options.groups : "",
                      .group_list = options.samples == SampleUnit::group ? options.group_list : "",
                      .outside_links = options.outside_links,
                      .bfloat16 = options.bfloat16,
                      .unpack = options.mask_and_scale};
  if (options.target_files.empty())
    request.fields.insert(request.fields.end(), options.target.begin(), options.target.end());
  const std::string& key = options.split_key;
  for (const std::string& more :
       {options.mask, options.weight, key == split_by_name ? std::string() : key}) {
    if (!more.empty()) request.fields.push_back(more);
  }
  return request;
}

void require_readable(const FileIndex& file, const StoredField& field) {
  const std::string subject = fmt::format("{}: {}", file.path, field.name);
  require_known_filters(subject, field.filters);
  for (const StoredPart& part : field.parts)
    require_readable(file, part.field);
}

void require_cached(const FileIndex& file, const StoredField& field, double megabytes) {
  if (field.filters.empty() || field.filters.back().id != raw_deflate_filter) return;
  const double needed = static_cast<double>(field.chunk_bytes()) / 1e6;
  if (needed <= megabytes) return;
  fail(ExitCode::data,
       "{}: {}: is compressed as a whole ({:.0f} MB), more than data.cache_megabytes: {}; use "
       "{:.0f} "
       "or more for all such arrays, or write it with numpy.savez",
       file.path, field.name, needed, megabytes, std::ceil(needed));
}

void add_files(const StoredField& field, std::vector<std::string>& paths) {
  if (!field.file.empty()) paths.push_back(field.file);
  for (const StoredPart& part : field.parts)
    add_files(part.field, paths);
}

void leave_out_places(StoredField& field) {
  field.file.clear();
  for (StoredPart& part : field.parts)
    leave_out_places(part.field);
}

}  // namespace trireme
