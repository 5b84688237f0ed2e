// SPDX-License-Identifier: Apache-2.0
#include "data/fields/storage/inflate.h"

#include <libdeflate.h>

#include "runtime/base/error.h"

namespace trireme {
namespace {

std::size_t require_success(libdeflate_result result, std::size_t written) {
  if (result == LIBDEFLATE_SUCCESS) return written;
  fail(ExitCode::data, "deflate: {}",
       result == LIBDEFLATE_INSUFFICIENT_SPACE ? "the result is larger than the chunk"
                                               : "it is not a valid stream");
}

}  // namespace

struct Inflater::Library {
  libdeflate_decompressor* decoder = libdeflate_alloc_decompressor();
};

Inflater::Inflater() : library_(std::make_unique<Library>()) {
  if (library_->decoder == nullptr)
    fail(ExitCode::internal, "libdeflate_alloc_decompressor: out of memory");
}

Inflater::~Inflater() {
  libdeflate_free_decompressor(library_->decoder);
}

std::uint32_t crc32_of(std::uint32_t before, std::span<const std::byte> bytes) {
  return libdeflate_crc32(before, bytes.data(), bytes.size());
}

std::size_t Inflater::zlib(std::span<const std::byte> from, std::span<std::byte> to) {
  std::size_t written = 0;
  const auto result = libdeflate_zlib_decompress(library_->decoder, from.data(), from.size(),
                                                 to.data(), to.size(), &written);
  return require_success(result, written);
}

std::size_t Inflater::raw(std::span<const std::byte> from, std::span<std::byte> to) {
  std::size_t written = 0;
  const auto result = libdeflate_deflate_decompress(library_->decoder, from.data(), from.size(),
                                                    to.data(), to.size(), &written);
  return require_success(result, written);
}

}  // namespace trireme
