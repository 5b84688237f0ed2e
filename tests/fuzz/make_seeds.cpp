// SPDX-License-Identifier: Apache-2.0
// make_seeds DIRECTORY: seeds that a library writes, so that the repository need not hold them, in
// DIRECTORY/shard, DIRECTORY/safetensors, DIRECTORY/fields, DIRECTORY/images, DIRECTORY/megatron
// and DIRECTORY/tokenizer.
#include <array>
#include <cstdio>
#include <filesystem>

#include "data/fields/storage/field_index.h"
#include "data/images/image_index.h"
#include "runtime/base/atomic_file.h"
#include "runtime/checkpoint/files/safetensors.h"
#include "tests/data/make_data.h"
#include "tests/data/make_megatron.h"
#include "tests/data/make_tar.h"
#include "tests/data/make_tokenizer.h"
#include "tests/support/temporary_directory.h"

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

// Indexes of a contiguous, a chunked and a virtual data set, and of texts.
void write_indexes(const std::string& directory) {
  const StoredField plain{.name = "plain",
                          .extents = {2, 3},
                          .chunk_extents = {2, 3},
                          .chunks = {{.offset = 8, .bytes = 24}},
                          .parts = {}};
  const StoredField chunked{.name = "chunked",
                            .type = {ElementKind::signed_integer, 2, true},
                            .extents = {3, 4},
                            .chunk_extents = {2, 4},
                            .chunks = {{.offset = 16, .bytes = 30}, {}},
                            .filters = {{2, "shuffle", {2}}, {1, "deflate", {4}}},
                            .fill = {std::byte{1}, std::byte{2}},
                            .parts = {}};
  StoredField texts{.name = "texts",
                    .type = text_numbers,
                    .extents = {2},
                    .content = std::vector<std::byte>(8),
                    .names = {"calm", "storm"},
                    .parts = {}};
  texts.content[4] = std::byte{1};
  StoredField joined{.name = "joined", .extents = {2, 3}, .parts = {}};
  joined.parts.push_back({.start = {1, 0}, .count = {1, 3}, .from = {0, 0}, .field = plain});
  const FileIndex index{.path = "a.h5",
                        .state = {.size = 200},
                        .units = {{.group = "", .fields = {plain, chunked, texts, joined}}}};
  std::string bytes;
  append_index(bytes, index);
  write_file(directory + "/index", bytes, ExitCode::internal);
}

// Images that decode are among the seeds of the repository.
void write_archives(const std::string& directory) {
  const std::string deep = std::string(90, 'd') + "/" + std::string(120, 'n');
  const std::string gnu("ustar  ", 8);
  test::write_text(directory + "/names",
                   test::tar_of({{"folder/", "", '5'},
                                 {"pax", test::pax_record("path", deep + "1.jpg"), 'x'},
                                 {"short", "12345"},
                                 {"pax", test::pax_record("path", deep + "1.cls"), 'x'},
                                 {"short", "1"},
                                 {"././@LongLink", deep + "2.png" + std::string(1, '\0'), 'L', gnu},
                                 {"short", "12345", '0', gnu},
                                 {"././@LongLink", deep + "2.json", 'L', gnu},
                                 {"short", R"({"label": 2})", '0', gnu}}));
  ImageIndex archive;
  archive.path = "a.tar";
  archive.state.size = 4096;
  archive.images = {{512, 100, 3}, {1536, 7, 0}};
  archive.problems = {"a.tar: b.jpg: is empty"};
  test::write_text(directory + "/archive_index", bytes_of(archive));
  ImageIndex folder;
  folder.path = "cats";
  folder.folder = true;
  folder.folders = {{"cats", 5}};
  folder.names = "1.jpg2.png";
  folder.images = {{5, 100, 3}, {10, 7, 3}};
  folder.modified = {1, 2};
  test::write_text(directory + "/folder_index", bytes_of(folder));
}

// The target needs only the size of the .bin file, as for tokens of two bytes.
void write_indices(const std::string& directory) {
  test::write_text(directory + "/narrow", test::megatron_index({3, 0, 5, 8}, {0, 2, 4}, 8));
  test::write_text(directory + "/wide", test::megatron_index({4, 4}, {0, 1, 1, 2}, 4));
}

void write_tokenizers(const std::string& directory) {
  test::TokenizerText text;
  text.merges = {"a b", "ab c"};
  text.added = {{.text = "<|end|>"}, {.text = "<mask>", .strip_left = true}};
  test::write_text(directory + "/gpt2", text.json());
  text.pairs = text.whole_words = true;
  text.normalizer = R"({"type":"NFC"})";
  text.pre_tokenizer =
      R"({"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":false},)"
      R"({"type":"Split","pattern":{"Regex":"(?i:'s)|[^\\s\\p{L}]+|\\s+(?!\\S)| ?\\p{L}+|\\s"},)"
      R"("behavior":"MergedWithNext","invert":false},)"
      R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]})";
  test::write_text(directory + "/sequence", text.json());
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "make_seeds DIRECTORY\n");
    return 2;
  }
  const std::string directory = arguments[1];
  for (const char* const target :
       {"shard", "safetensors", "fields", "images", "megatron", "tokenizer"}) {
    std::filesystem::remove_all(directory + "/" + target);
    std::filesystem::create_directories(directory + "/" + target);
  }
  write_shards(directory + "/shard");
  write_tensors(directory + "/safetensors");
  write_indexes(directory + "/fields");
  write_archives(directory + "/images");
  write_indices(directory + "/megatron");
  write_tokenizers(directory + "/tokenizer");
  return 0;
}
