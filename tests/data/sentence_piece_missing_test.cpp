// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "data/tokenizer/tokenizer.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

TEST(SentencePieceMissing, SaysWhatToInstall) {
  const test::TemporaryDirectory directory;
  const std::string path = directory.file("tokenizer.model");
  test::write_text(path, "\n");
  test::expect_error(
      ExitCode::data, [&] { const Tokenizer tokenizer(path); }, path, "libsentencepiece-dev");
}

}  // namespace
}  // namespace trireme
