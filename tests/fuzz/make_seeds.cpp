// SPDX-License-Identifier: Apache-2.0
// make_seeds DIRECTORY: seeds that a library writes, so that the repository need not hold them, in
// DIRECTORY/shard and DIRECTORY/safetensors.
#include <array>
#include <cstdio>
#include <filesystem>

#include "runtime/checkpoint/files/safetensors.h"
#include "tests/data/make_data.h"

using namespace trireme;

namespace {

void write_shards(const std::string& directory) {
  const auto tokens = test::counting_tokens(40, 250);
  test::write_token_shard(directory + "/narrow", test::token_header(40, 250), tokens,
                          {0, 10, 25, 40});
  test::write_token_shard(directory + "/wide", test::token_header(40, 100'000, DType::u32), tokens);
  test::write_image_dataset(directory + "/images", 6, 6, 4, 3);
  const std::string image = directory + "/images/" + shard_file_name(0);
  std::filesystem::rename(image, directory + "/image");
  std::filesystem::remove(directory + "/images");
}

void write_tensors(const std::string& directory) {
  std::array<double, 4> values{1, -0.5, 1e300, 0};
  const auto tensor = [&](const char* name, DType dtype, Shape shape) {
    return NamedTensor{name, {reinterpret_cast<std::byte*>(values.data()), dtype, shape}};
  };
  write_safetensors(directory + "/empty", {});
  write_safetensors(directory + "/f32", std::array{tensor("a.weight", DType::f32, Shape{2, 4}),
                                                   tensor("a.bias", DType::f32, Shape{1})});
  write_safetensors(
      directory + "/all",
      std::array{tensor("d", DType::f64, Shape{4}), tensor("h", DType::f16, Shape{3, 1}),
                 tensor("b", DType::bf16, Shape{2}), tensor("i", DType::i64, Shape{2}),
                 tensor("u", DType::u8, Shape{5}), tensor("none", DType::f32, Shape{0, 7})},
      {{"format", "pt"}, {"note", "\xC3\xA9"}});
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "make_seeds DIRECTORY\n");
    return 2;
  }
  const std::string directory = arguments[1];
  for (const char* const target : {"shard", "safetensors"}) {
    std::filesystem::remove_all(directory + "/" + target);
    std::filesystem::create_directories(directory + "/" + target);
  }
  write_shards(directory + "/shard");
  write_tensors(directory + "/safetensors");
  return 0;
}
