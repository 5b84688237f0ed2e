// SPDX-License-Identifier: Apache-2.0
#include "runtime/checkpoint/files/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <utility>

#include "runtime/base/atomic_file.h"
#include "runtime/base/file.h"
#include "runtime/base/file_kind.h"
#include "runtime/checkpoint/files/safetensors_header.h"

namespace trireme {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are stored as they lie");

using safetensors::Entry;

struct Item {
  std::string_view name;
  DType dtype;
  Shape shape;
  std::size_t place;  // index in the caller's list

  [[nodiscard]] std::uint64_t bytes() const {
    return static_cast<std::uint64_t>(shape.count()) * size_of(dtype);
  }
};

// The reference writer's order; depends only on the tensors.
void put_in_order(const std::string& path, std::vector<Item>& items) {
  std::ranges::sort(items, {}, &Item::name);
  const auto twice = std::ranges::adjacent_find(items, {}, &Item::name);
  if (twice != items.end())
    fail(ExitCode::checkpoint, "{}: tensor '{}' is given twice", path, twice->name);
  if (std::ranges::find(items, "__metadata__", &Item::name) != items.end())
    fail(ExitCode::checkpoint, "{}: '__metadata__' cannot name a tensor", path);
  std::ranges::stable_sort(items, std::ranges::greater(),
                           [](const Item& item) { return safetensors::order_of(item.dtype); });
}

std::vector<Entry> entries_of(const std::vector<Item>& items) {
  std::vector<Entry> entries;
  std::uint64_t offset = 0;
  for (const Item& item : items) {
    const auto extents = item.shape.extents();
    const std::uint64_t end = offset + item.bytes();
    entries.push_back({.name = std::string(item.name),
                       .dtype = std::string(safetensors::element_type(item.dtype).name),
                       .extents = {extents.begin(), extents.end()},
                       .begin = offset,
                       .end = end});
    offset = end;
  }
  return entries;
}

template <typename T>
std::vector<T> rounded_to(const std::vector<float>& values) {
  std::vector<T> rounded;
  rounded.reserve(values.size());
  for (const float value : values)
    rounded.push_back(static_cast<T>(value));
  return rounded;
}

// write(file, place) writes the tensor with that index.
template <typename Write>
void write_items(const std::string& path, std::vector<Item> items,
                 const std::map<std::string, std::string>& metadata, ExitCode code, Write&& write) {
  put_in_order(path, items);
  const std::string header = safetensors::make_header(entries_of(items), metadata, path);
  AtomicFile file(path, code);
  file.write(header);
  for (const Item& item : items)
    write(file, item.place);
  file.commit();
}

}  // namespace

void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata, ExitCode code) {
  std::vector<Item> items;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.empty() && tensor.bytes() != 0) {
      fail(ExitCode::checkpoint, "{}: tensor '{}' of shape {} has no data", path, name,
           tensor.shape.to_string());
    }
    items.push_back({name, tensor.dtype, tensor.shape, items.size()});
  }
  write_items(path, std::move(items), metadata, code, [&](AtomicFile& file, std::size_t place) {
    const Tensor& tensor = tensors[place].tensor;
    file.write(std::span<const std::byte>(tensor.data, tensor.bytes()));
  });
}

void write_safetensors(const std::string& path, std::span<const PlannedTensor> tensors,
                       const std::map<std::string, std::string>& metadata,
                       const std::function<std::vector<float>(std::size_t)>& values) {
  std::vector<Item> items;
  for (const PlannedTensor& tensor : tensors)
    items.push_back({tensor.name, tensor.dtype(), tensor.shape, items.size()});
  constexpr auto code = ExitCode::internal;
  write_items(path, std::move(items), metadata, code, [&](AtomicFile& file, std::size_t place) {
    const PlannedTensor& tensor = tensors[place];
    if (tensor.scalar) {
      TRIREME_EXPECTS(tensor.shape == Shape{}, "scalar '{}' of shape {}", tensor.name,
                      tensor.shape.to_string());
      return file.write(std::as_bytes(std::span(&*tensor.scalar, 1)));
    }
    const std::vector<float> elements = values(place);
    TRIREME_EXPECTS(std::ssize(elements) == tensor.shape.count(), "{} elements for tensor '{}' {}",
                    elements.size(), tensor.name, tensor.shape.to_string());
    if (tensor.stored == DType::bf16) {
      const std::vector<bf16> rounded = rounded_to<bf16>(elements);
      file.write(std::as_bytes(std::span(rounded)));
    } else if (tensor.stored == DType::f16) {
      const std::vector<f16> rounded = rounded_to<f16>(elements);
      file.write(std::as_bytes(std::span(rounded)));
    } else {
      file.write(std::as_bytes(std::span(elements)));
    }
  });
}

struct SafetensorsFile::Impl {
  std::string path;
  FileDescriptor file;
  std::uint64_t data_start = 0;
  safetensors::Header header;
  std::vector<std::string> names;
  std::map<std::string, const Entry*, std::less<>> index;

  [[nodiscard]] const Entry& find(std::string_view name) const {
    const auto found = index.find(name);
    if (found == index.end()) {
      fail(ExitCode::checkpoint, "{}: has no tensor '{}'", path, name);
    }
    return *found->second;
  }

  [[nodiscard]] DType dtype(const Entry& entry) const {
    const auto* const type = safetensors::find_element_type(entry.dtype);
    if (type == nullptr || !type->ours) {
      fail(
          ExitCode::checkpoint,
          "{}: tensor '{}': dtype {} is not supported; convert it to F32, F64, BF16, F16, U8, U16, "
          "U32, U64, I32 or I64",
          path, entry.name, entry.dtype);
    }
    return *type->ours;
  }
};

SafetensorsFile::SafetensorsFile(const std::string& path) : impl_(std::make_unique<Impl>()) {
  constexpr auto code = ExitCode::checkpoint;
  Impl& self = *impl_;
  self.path = path;
  self.file = open_regular_file(path, code);
  const std::uint64_t size = regular_file_size(self.file, path, code);
  if (size < safetensors::length_bytes) {
    fail(code, "{}: is not a safetensors file ({} bytes)", path, size);
  }
  std::array<std::byte, safetensors::length_bytes> prefix{};
  read_exactly(self.file, path, 0, prefix, code);
  const auto length = std::bit_cast<std::uint64_t>(prefix);
  // Checks the claimed length against the file before anything is allocated.
  if (length > safetensors::header_limit || length > size - prefix.size()) {
    fail(code,
         "{}: is not a safetensors file or is truncated (header of {} bytes, file of {}): it is {}",
         path, length, size, describe_file_kind(path, code));
  }
  std::string text(length, '\0');
  read_exactly(self.file, path, prefix.size(), std::as_writable_bytes(std::span(text)), code);
  self.data_start = prefix.size() + length;
  self.header = safetensors::parse_header(text, size - self.data_start, path);
  for (const Entry& entry : self.header.entries) {
    self.names.push_back(entry.name);
    self.index.emplace(entry.name, &entry);
  }
}

SafetensorsFile::~SafetensorsFile() = default;

const std::string& SafetensorsFile::path() const {
  return impl_->path;
}

const std::vector<std::string>& SafetensorsFile::names() const {
  return impl_->names;
}

const std::map<std::string, std::string>& SafetensorsFile::metadata() const {
  return impl_->header.metadata;
}

bool SafetensorsFile::contains(std::string_view name) const {
  return impl_->index.contains(name);
}

DType SafetensorsFile::dtype(std::string_view name) const {
  return impl_->dtype(impl_->find(name));
}

Shape SafetensorsFile::shape(std::string_view name) const {
  const Entry& entry = impl_->find(name);
  if (entry.extents.size() > Shape::max_rank) {
    fail(ExitCode::checkpoint, "{}: tensor '{}': rank {} is not supported; at most {}", impl_->path,
         name, entry.extents.size(), Shape::max_rank);
  }
  // With a zero extent the other extents may be anything; refuses those that Shape cannot hold.
  std::vector<std::int64_t> extents;
  std::int64_t count = 1;
  for (const std::uint64_t extent : entry.extents) {
    if (!std::in_range<std::int64_t>(extent) || __builtin_mul_overflow(count, extent, &count)) {
      fail(ExitCode::checkpoint, "{}: tensor '{}': shape ({}) is not supported", impl_->path, name,
           fmt::join(entry.extents, ", "));
    }
    extents.push_back(static_cast<std::int64_t>(extent));
  }
  return Shape(extents);
}

std::size_t SafetensorsFile::bytes(std::string_view name) const {
  const Entry& entry = impl_->find(name);
  return entry.end - entry.begin;
}

std::uint64_t SafetensorsFile::offset(std::string_view name) const {
  return impl_->data_start + impl_->find(name).begin;
}

void SafetensorsFile::read(std::string_view name, void* to, std::size_t bytes) const {
  const Entry& entry = impl_->find(name);
  static_cast<void>(impl_->dtype(entry));
  if (bytes != entry.end - entry.begin) {
    fail(ExitCode::checkpoint, "{}: tensor '{}': {} of shape ({}) has {} bytes, expected {}",
         impl_->path, name, entry.dtype, fmt::join(entry.extents, ", "), entry.end - entry.begin,
         bytes);
  }
  read_exactly(impl_->file, impl_->path, impl_->data_start + entry.begin,
               {static_cast<std::byte*>(to), bytes}, ExitCode::checkpoint);
}

}  // namespace trireme
