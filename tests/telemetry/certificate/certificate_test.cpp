// SPDX-License-Identifier: Apache-2.0
// One chain for one course of training, with any number of stops; every change is reported with its
// line.
#include "runtime/telemetry/certificate/certificate.h"

#include <gmock/gmock.h>

#include <fstream>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

using test::expect_error;
using test::read_text;
using test::TemporaryDirectory;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class CertificateTest : public testing::Test {
 protected:
  // Steps after `from` up to `to`; `drift` changes the loss of step 3.
  void run(std::int64_t from, std::int64_t to, bool goes_on, const std::string& layout = "data 1",
           double drift = 0) {
    Certificate certificate(path_, {.after = from, .layout = layout, .hosts = {"n1"}}, goes_on,
                            ItemKind::tokens,
                            [](std::int64_t step) { return static_cast<std::uint64_t>(step * 7); });
    for (std::int64_t step = from + 1; step <= to; ++step)
      certificate.step({.step = step,
                        .loss = 1.0 / static_cast<double>(step) + (step == 3 ? drift : 0),
                        .grad_norm = 0.1,
                        .weight_digest = 17});
    if (to == 6) certificate.weights(6, "00ff", {{"a", "01"}, {"b", "02"}}, {{"a", "03"}});
    chain_ = certificate.chain();
  }
  void start_anew() { std::filesystem::remove(path_); }

  TemporaryDirectory directory_;
  std::string path_ = directory_.file("certificate.jsonl");
  std::string chain_;
};

TEST_F(CertificateTest, ReadsBackAsWrittenByARun) {
  run(0, 6, false);

  const CertificateRecord record = read_certificate(path_);

  EXPECT_THAT(record.problems, IsEmpty());
  ASSERT_EQ(record.steps.size(), 6U);
  EXPECT_EQ(record.steps[1].loss, "0x1p-1");
  EXPECT_EQ(record.steps[1].samples, "0x000000000000000e");
  EXPECT_EQ(record.steps[1].weights, "0x0000000000000011");
  EXPECT_EQ(record.weights, "00ff");
  EXPECT_EQ(record.tensors.at("b"), "02");
  EXPECT_EQ(record.averages.at("a"), "03");
  EXPECT_EQ(record.chain, chain_);
  ASSERT_EQ(record.starts.size(), 1U);
  EXPECT_THAT(record.starts[0].hosts, ElementsAre("n1"));
}

TEST_F(CertificateTest, ARunThatWasStoppedAndWentBackEndsInTheSameChain) {
  run(0, 6, false);
  const std::string whole = chain_;
  start_anew();

  run(0, 4, false);
  run(2, 5, true, "data 2");  // from the checkpoint of step 2
  run(5, 6, true, "data 4");

  EXPECT_EQ(chain_, whole);
  const CertificateRecord record = read_certificate(path_);
  EXPECT_THAT(record.problems, IsEmpty());
  EXPECT_EQ(record.starts.size(), 3U);
  EXPECT_EQ(record.steps.size(), 6U);
}

TEST_F(CertificateTest, DigestsOfTensorsAreOutsideTheChain) {
  run(0, 3, false);
  const std::string plain = chain_;
  start_anew();
  {
    Certificate certificate(path_, {.layout = "data 1"}, false, ItemKind::tokens,
                            [](std::int64_t step) { return static_cast<std::uint64_t>(step * 7); });
    for (std::int64_t step = 1; step <= 3; ++step) {
      certificate.step({.step = step,
                        .loss = 1.0 / static_cast<double>(step),
                        .grad_norm = 0.1,
                        .weight_digest = 17});
      certificate.tensors(step, {{"a", digest_text(static_cast<std::uint64_t>(step))}});
    }
    EXPECT_EQ(certificate.chain(), plain);
  }
  run(2, 3, true);  // continues, and drops lines after step 2

  const CertificateRecord record = read_certificate(path_);
  EXPECT_THAT(record.problems, IsEmpty());
  EXPECT_EQ(record.chain, plain);
  ASSERT_EQ(record.tensors_after.size(), 2U);
  EXPECT_EQ(record.tensors_after.at(2).at("a"), "0x0000000000000002");
  std::string text = read_text(path_);
  text.replace(text.find("0x0000000000000002"), 18, "0x0000000000000003");
  std::ofstream(path_) << text;
  EXPECT_THAT(read_certificate(path_).problems, ElementsAre(HasSubstr("was changed")));
}

TEST_F(CertificateTest, ABitOfOneLossGivesAnotherChain) {
  run(0, 6, false);
  const std::string whole = chain_;
  start_anew();

  run(0, 6, false, "data 1", 1e-15);

  EXPECT_NE(chain_, whole);
}

TEST_F(CertificateTest, ALineThatWasChangedRemovedOrMovedIsNamed) {
  run(0, 6, false);
  const std::string text = read_text(path_);
  const auto rewritten = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    std::ofstream(path_) << changed;
    return read_certificate(path_).problems;
  };
  const auto line_of = [&](int number) {
    std::size_t begin = 0;
    for (int i = 1; i < number; ++i)
      begin = text.find('\n', begin) + 1;
    return text.substr(begin, text.find('\n', begin) + 1 - begin);
  };

  EXPECT_THAT(rewritten("0x1p-1", "0x1p-2"), ElementsAre(HasSubstr("certificate.jsonl:3: ")));
  EXPECT_THAT(rewritten("\"data 1\"", "\"data 2\""),
              ElementsAre(HasSubstr("certificate.jsonl:1: was changed")));
  EXPECT_THAT(rewritten(line_of(4), ""),
              ElementsAre(HasSubstr(":4: was changed, or a line before it"),
                          HasSubstr(":4: is of step 4, after step 2")));
  EXPECT_THAT(rewritten(line_of(4), "nonsense\n"), testing::Not(IsEmpty()));
  EXPECT_THAT(rewritten("\"loss\":\"0x1p-1\"", "\"loss\":5"), testing::Not(IsEmpty()));
}

TEST_F(CertificateTest, ATornLastLineIsNoProblem) {
  run(0, 6, false);
  std::ofstream(path_, std::ios::app) << "{\"step\":7,\"lo";

  const CertificateRecord record = read_certificate(path_);

  EXPECT_THAT(record.problems, IsEmpty());
  EXPECT_EQ(record.chain, chain_);
}

TEST_F(CertificateTest, WithoutAFileTheErrorNamesIt) {
  expect_error(
      ExitCode::config, [&] { (void)read_certificate(path_); }, path_);
}

}  // namespace
}  // namespace trireme
