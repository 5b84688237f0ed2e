// SPDX-License-Identifier: Apache-2.0
// manifest.json without its checksum: refused, or every element of every tensor is in one slice and
// the manifest is rewritten equal.
#include "runtime/checkpoint/files/manifest.h"
#include "tests/fuzz/fuzz_target.h"

using namespace trireme;

namespace {

std::string written(const Manifest& manifest) {
  std::vector<std::string> files;
  for (const ManifestFile& file : manifest.files)
    files.push_back(file_entry_text(file, manifest.kinds, manifest.tensors));
  return manifest_text(manifest, files);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Manifest manifest;
  const bool parsed = fuzz::accepts(ExitCode::checkpoint, [&] {
    manifest = parse_manifest(fuzz::text_of(data, size), "manifest.json");
  });
  if (!parsed) return 0;
  std::int64_t elements = 0, stored = 0;
  for (const ManifestTensor& tensor : manifest.tensors)
    elements += tensor.shape.count();
  for (const ManifestFile& file : manifest.files) {
    for (const ManifestSlice& slice : file.slices)
      stored += slice.count;
  }
  fuzz::require(elements == stored, "an element is in no slice, or in two");
  static_cast<void>(manifest.value_bytes());
  const std::string text = written(manifest);
  fuzz::require(written(parse_manifest(text, "written.json")) == text,
                "a manifest reads back as another");
  return 0;
}
