// SPDX-License-Identifier: Apache-2.0
#include "runtime/checkpoint/files/safetensors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

using test::expect_error;
using test::read_text;
using test::TemporaryDirectory;
using test::write_text;

template <typename T>
Tensor tensor_of(std::vector<T>& values, const Shape& shape) {
  return {reinterpret_cast<std::byte*>(values.data()), dtype_of<T>, shape};
}

// Length, header and data of a hand-made file.
std::string file_of(const std::string& header, const std::string& data) {
  std::string text(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(text.data(), &length, 8);
  return text + header + data;
}

// A file that exercises every part of the format: two dtypes, a scalar, a zero-size tensor, text.
std::string write_sample(const std::string& path) {
  std::vector<float> matrix = {1.5F, -2.0F, std::numeric_limits<float>::quiet_NaN(),
                               0.0F, 4.0F,  5.0F};
  std::vector<std::int64_t> scalar = {-7};
  std::vector<std::uint8_t> bytes = {1, 2, 3};
  std::vector<NamedTensor> tensors = {
      {"bytes", tensor_of(bytes, {3})},
      {"matrix", tensor_of(matrix, {2, 3})},
      {"empty", {nullptr, DType::f32, {0, 4}}},
      {"scalar", tensor_of(scalar, Shape{})},
  };
  write_safetensors(path, tensors, {{"format", "pt"}, {"quote", "a\"b\n"}});
  return read_text(path);
}

TEST(Safetensors, EmptyFileHasTheBytesOfTheSpecification) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("empty.safetensors");

  write_safetensors(path, {});

  EXPECT_EQ(read_text(path), file_of("{}      ", ""));
  EXPECT_TRUE(SafetensorsFile(path).names().empty());
}

TEST(Safetensors, HoldsDataInTheReferenceWritersOrder) {
  const TemporaryDirectory directory;

  const std::string text = write_sample(directory.file("a.safetensors"));

  std::string expected = R"({"__metadata__":{"format":"pt","quote":"a\"b\n"},)"
                         R"("scalar":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
                         R"("empty":{"dtype":"F32","shape":[0,4],"data_offsets":[8,8]},)"
                         R"("matrix":{"dtype":"F32","shape":[2,3],"data_offsets":[8,32]},)"
                         R"("bytes":{"dtype":"U8","shape":[3],"data_offsets":[32,35]}})";
  expected.append((8 - expected.size() % 8) % 8, ' ');
  EXPECT_EQ(text.substr(8, text.size() - 8 - 35), expected);
}

TEST(Safetensors, ReadsBackEveryByte) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.safetensors");
  const std::string text = write_sample(path);

  const SafetensorsFile file(path);

  EXPECT_EQ(file.names(), (std::vector<std::string>{"scalar", "empty", "matrix", "bytes"}));
  EXPECT_EQ(file.metadata().at("quote"), "a\"b\n");
  EXPECT_EQ(file.shape("matrix"), (Shape{2, 3}));
  EXPECT_EQ(file.shape("empty"), (Shape{0, 4}));
  EXPECT_EQ(file.shape("scalar").rank(), 0U);
  EXPECT_EQ(file.dtype("matrix"), DType::f32);
  std::string matrix(file.bytes("matrix"), '\0');
  file.read("matrix", matrix.data(), matrix.size());
  EXPECT_EQ(matrix, text.substr(text.size() - 27, 24));
  std::string bytes(3, '\0');
  file.read("bytes", bytes.data(), bytes.size());
  EXPECT_EQ(bytes, "\x01\x02\x03");
  file.read("empty", nullptr, 0);
}

TEST(Safetensors, RoundTripsEveryDType) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.safetensors");
  const std::vector<DType> types = {DType::f32, DType::f64, DType::bf16, DType::f16, DType::u8,
                                    DType::u16, DType::u32, DType::u64,  DType::i32, DType::i64};
  std::string storage;
  for (int i = 0; i < 24; ++i)
    storage.push_back(static_cast<char>(37 * i));
  std::vector<NamedTensor> tensors;
  for (const DType type : types) {
    tensors.push_back({std::string(name_of(type)),
                       {reinterpret_cast<std::byte*>(storage.data()), type, Shape{3, 1}}});
  }

  write_safetensors(path, tensors);

  const SafetensorsFile file(path);
  for (const DType type : types) {
    const std::string name(name_of(type));
    EXPECT_EQ(file.dtype(name), type);
    std::string bytes(3 * size_of(type), '\0');
    file.read(name, bytes.data(), bytes.size());
    EXPECT_EQ(bytes, storage.substr(0, bytes.size())) << name;
  }
}

TEST(Safetensors, TheOrderGivenDoesNotChangeTheFile) {
  const TemporaryDirectory directory;
  std::vector<float> values = {1, 2};
  std::vector<NamedTensor> tensors = {{"a", tensor_of(values, {2})}, {"b", tensor_of(values, {1})}};
  write_safetensors(directory.file("1"), tensors);
  std::swap(tensors[0], tensors[1]);

  write_safetensors(directory.file("2"), tensors);

  EXPECT_EQ(read_text(directory.file("1")), read_text(directory.file("2")));
}

TEST(Safetensors, RefusesWhatTheFormatCannotHold) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.safetensors");
  std::vector<float> values = {1};
  const Tensor one = tensor_of(values, {1});
  const auto write = [&path](std::vector<NamedTensor> tensors,
                             std::map<std::string, std::string> metadata = {}) {
    return [=] { write_safetensors(path, tensors, metadata); };
  };

  expect_error(ExitCode::checkpoint, write({{"w", one}, {"w", one}}), path, "'w'", "twice");
  expect_error(ExitCode::checkpoint, write({{"__metadata__", one}}), path, "__metadata__");
  expect_error(ExitCode::checkpoint, write({{"w", {nullptr, DType::f32, {4}}}}), path, "no data");
  expect_error(ExitCode::checkpoint, write({{"\xff", one}}), path, "UTF-8");
  expect_error(ExitCode::checkpoint, write({}, {{"k", "\xc3"}}), path, "UTF-8");
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(Safetensors, AFailedWriteLeavesTheOldFileAndNoTemporary) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.safetensors");
  write_text(path, "old");
  std::vector<float> values(4096);
  const std::vector<NamedTensor> tensors = {{"w", tensor_of(values, {4096})}};
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{1024, before.rlim_max};
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);

  expect_error(
      ExitCode::checkpoint, [&] { write_safetensors(path, tensors); }, path, "EFBIG");

  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(read_text(path), "old");
  const std::filesystem::directory_iterator files(directory.path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST(Safetensors, WritingIntoAMissingDirectoryNamesThePath) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("none/a.safetensors");
  expect_error(
      ExitCode::checkpoint, [&] { write_safetensors(path, {}); }, path, "create it first");
}

TEST(Safetensors, RefusesEveryBrokenHeader) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("bad.safetensors");
  const std::string entry = R"("dtype":"F32","shape":[1],"data_offsets":[0,4])";
  struct Case {
    std::string header, data, message;
  };
  const std::vector<Case> cases = {
      {R"([])", "", "not JSON"},
      {" {}", "", "not JSON"},
      {std::string("{}\0x", 4), "", "not JSON"},
      {"{} x", "", "not a valid"},
      {"{", "", "not a valid"},
      {R"({"a":1})", "", "'a': a number is not allowed here"},
      {R"({"a":{}})", "", "needs dtype, shape and data_offsets"},
      {R"({"a":{"dtype":"F32","shape":[1]}})", "1234", "needs dtype"},
      {R"({"a":{)" + entry + R"(,"extra":1}})", "1234", "unknown field 'extra'"},
      {R"({"a":{)" + entry + R"(,"shape":[1]}})", "1234", "'shape' appears twice"},
      {R"({"a":{)" + entry + R"(},"a":{)" + entry + "}}", "1234", "'a' appears twice"},
      {R"({"__metadata__":{"k":1}})", "", "a number"},
      {R"({"__metadata__":{"k":"1","k":"2"}})", "", "'__metadata__.k' appears twice"},
      {R"({"__metadata__":{"k":{}}})", "", "an object"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "1234", "negative"},
      {R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", "1234", "fraction"},
      {R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", "1234", "an array"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", "1234", "two numbers"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", "1234", "a number"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "12345678", "do not continue"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", "12345678", "does not fit"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "", "do not continue"},
      {R"({"a":{)" + entry + R"(},"b":{)" + entry + "}}", "1234", "do not continue"},
      {R"({"a":{)" + entry + "}}", "123", "truncated"},
      {R"({"a":{)" + entry + "}}", "12345", "damaged"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,0]}})", "",
       "does not fit"},
      {"{\"a\":" + std::string(200000, '['), "", "nested more than 128 levels"},
      {"{\"\xff\":1}", "", "not a valid"},
  };

  for (const Case& broken : cases) {
    write_text(path, file_of(broken.header, broken.data));

    expect_error(
        ExitCode::checkpoint, [&] { SafetensorsFile file(path); }, path, broken.message);
  }
}

TEST(Safetensors, RefusesAHeaderLengthThatTheFileCannotHold) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("bad.safetensors");
  for (const std::string& prefix :
       {std::string(8, '\xff'), std::string("\x09\0\0\0\0\0\0\0", 8), std::string("{}")}) {
    write_text(path, prefix + (prefix.size() == 8 ? "{}      " : ""));

    expect_error(
        ExitCode::checkpoint, [&] { SafetensorsFile file(path); }, path, "not a safetensors");
  }
  expect_error(
      ExitCode::checkpoint, [&] { SafetensorsFile file(directory.path()); }, "regular file");
}

TEST(Safetensors, AForeignDTypeIsRefusedOnlyWhenAskedFor) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.safetensors");
  write_text(path, file_of(R"({"f":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]},)"
                           R"("n":{"dtype":"NEW","shape":[5],"data_offsets":[2,5]},)"
                           R"("u":{"dtype":"U8","shape":[1],"data_offsets":[5,6]}})",
                           "abcdef"));

  const SafetensorsFile file(path);

  char byte = 0;
  file.read("u", &byte, 1);
  EXPECT_EQ(byte, 'f');
  expect_error(
      ExitCode::checkpoint, [&] { (void)file.dtype("f"); }, path, "'f'", "F8_E4M3");
  char many[3];
  expect_error(
      ExitCode::checkpoint, [&] { file.read("n", many, 3); }, path, "'n'", "NEW");
}

TEST(Safetensors, AskingForTheWrongThingNamesFileAndTensor) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.safetensors");
  write_sample(path);
  const SafetensorsFile file(path);
  float values[6];

  expect_error(
      ExitCode::checkpoint, [&] { (void)file.shape("nope"); }, path, "'nope'");
  expect_error(
      ExitCode::checkpoint, [&] { file.read("matrix", values, 20); }, path, "'matrix'",
      "24 bytes, expected 20");
}

TEST(Safetensors, ARankBeyondOursIsRefusedByName) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.safetensors");
  write_text(path,
             file_of(R"({"r":{"dtype":"U8","shape":[1,1,1,1,1,1,1],"data_offsets":[0,1]},)"
                     R"("z":{"dtype":"U8","shape":[4294967296,4294967295,0],"data_offsets":[1,1]},)"
                     R"("y":{"dtype":"U8","shape":[0,18446744073709551615],"data_offsets":[1,1]}})",
                     "a"));
  const SafetensorsFile file(path);

  expect_error(
      ExitCode::checkpoint, [&] { (void)file.shape("r"); }, path, "'r'", "rank 7");
  expect_error(
      ExitCode::checkpoint, [&] { (void)file.shape("z"); }, path, "'z'", "not supported");
  expect_error(
      ExitCode::checkpoint, [&] { (void)file.shape("y"); }, path, "'y'", "not supported");
}

TEST(Safetensors, AFileTruncatedAnywhereIsRefused) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.safetensors");
  const std::string whole = write_sample(path);

  for (std::size_t length = 0; length < whole.size(); ++length) {
    write_text(path, whole.substr(0, length));

    EXPECT_TRUE(test::error_of([&] { SafetensorsFile file(path); }).has_value()) << length;
  }
}

// Without a checksum a flipped bit may give another valid file (a name, a shape of equal size); it
// must not cause a crash or a read outside the data.
TEST(Safetensors, AFlippedHeaderBitIsRefusedOrReadsWithinTheFile) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.safetensors");
  const std::string whole = write_sample(path);
  int refused = 0;

  for (std::size_t at = 0; at < whole.size() - 35; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      write_text(path, damaged);
      const auto error = test::error_of([&] {
        const SafetensorsFile file(path);
        for (const std::string& name : file.names()) {
          std::vector<char> bytes(file.bytes(name));
          EXPECT_LE(bytes.size(), 35U);
          file.read(name, bytes.data(), bytes.size());
        }
      });
      if (!error) continue;
      ++refused;
      EXPECT_EQ(error->code(), ExitCode::checkpoint) << error->what();
    }
  }

  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace trireme
