// SPDX-License-Identifier: Apache-2.0
// Against the bytes of the encoding's specification.
#include "runtime/base/protobuf_writer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace trireme {
namespace {

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) {
    constexpr const char* digits = "0123456789abcdef";
    text += digits[static_cast<unsigned char>(byte) >> 4];
    text += digits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

template <typename Fill>
std::string written(Fill fill) {
  ProtobufWriter writer;
  fill(writer);
  return hex(writer.bytes());
}

TEST(ProtobufWriter, WritesTheSpecificationsExamples) {
  EXPECT_EQ(written([](auto& w) { w.integer(1, 150); }), "089601");
  EXPECT_EQ(written([](auto& w) { w.text(2, "testing"); }), "120774657374696e67");
  EXPECT_EQ(written([](auto& w) { w.message(3, [&] { w.integer(1, 150); }); }), "1a03089601");
  EXPECT_EQ(written([](auto& w) { w.integer(1, -2); }), "08feffffffffffffffff01");
}

TEST(ProtobufWriter, WritesNumbersInLittleEndian) {
  EXPECT_EQ(written([](auto& w) { w.float64(1, 1.0); }), "09000000000000f03f");
  EXPECT_EQ(written([](auto& w) { w.float32(2, -2.0F); }), "15000000c0");
  EXPECT_EQ(written([](auto& w) { w.fixed(3, 0x0102); }), "190201000000000000");
  const std::vector<double> values{1.0, 0.0};
  EXPECT_EQ(written([&](auto& w) { w.packed(4, values); }), "2210000000000000f03f0000000000000000");
}

TEST(ProtobufWriter, TakesFieldsAbove15AndMessagesAbove127Bytes) {
  EXPECT_EQ(written([](auto& w) { w.integer(16, 0); }), "800100");
  const std::string long_text(200, 'a');
  const std::string inner = written([&](auto& w) { w.text(1, long_text); });
  const std::string outer =
      written([&](auto& w) { w.message(2, [&] { w.message(1, [&] { w.text(1, long_text); }); }); });
  EXPECT_EQ(inner.substr(0, 6), "0ac801");
  EXPECT_EQ(outer,
            "12ce01"
            "0acb01" +
                inner);
}

TEST(ProtobufWriter, IsEmptyAgainAfterClear) {
  ProtobufWriter writer;
  writer.integer(1, 1);

  writer.clear();

  EXPECT_TRUE(writer.bytes().empty());
}

}  // namespace
}  // namespace trireme
