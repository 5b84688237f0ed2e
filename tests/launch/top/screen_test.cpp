// SPDX-License-Identifier: Apache-2.0
// The program on a pseudo-terminal, with a screen drawn from its output.
#include <gmock/gmock.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>

#include "tests/launch/top/run_files.h"

namespace trireme::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// The part of the terminal protocol that the program uses; ASCII only.
class Picture {
 public:
  void resize(std::size_t columns) { columns_ = columns; }
  void take(char byte) {
    if (!sequence_.empty()) return take_escape(byte);
    if (byte == '\x1b') {
      sequence_ = byte;
    } else if (byte == '\r') {
      column_ = 0;
    } else if (byte == '\n') {
      ++row_;
    } else {
      if (column_ >= columns_) overflowed_ = true;
      auto& line = rows_.at(row_);
      if (line.size() <= column_) line.resize(column_ + 1, ' ');
      line[column_++] = byte;
    }
  }
  [[nodiscard]] std::string text() const {
    std::string all;
    for (const std::string& row : rows_)
      all += row + "\n";
    return all;
  }
  bool alternate = false, cursor = true;
  [[nodiscard]] bool overflowed() const { return overflowed_; }

 private:
  void take_escape(char byte) {
    sequence_ += byte;
    if (sequence_.size() < 3 || byte < 0x40) return;
    const std::string all = std::exchange(sequence_, "");
    if (all == "\x1b[?1049h" || all == "\x1b[?1049l") alternate = byte == 'h';
    if (all == "\x1b[?25h" || all == "\x1b[?25l") cursor = byte == 'h';
    if (byte == 'H') {
      row_ = all.size() > 3 ? std::stoul(all.substr(2)) - 1 : 0;
      column_ = 0;
    }
    if (byte == 'K') rows_.at(row_).resize(std::min(rows_.at(row_).size(), column_));
    if (byte == 'J') {
      for (std::size_t i = all == "\x1b[2J" ? 0 : row_; i < rows_.size(); ++i)
        rows_[i].clear();
    }
  }
  std::array<std::string, 200> rows_;
  std::string sequence_;
  std::size_t row_ = 0, column_ = 0, columns_ = 80;
  bool overflowed_ = false;
};

// `trireme top ARGUMENTS` on a new terminal.
class Session {
 public:
  explicit Session(std::vector<std::string> arguments, unsigned short columns = 80) {
    const winsize size{.ws_row = 40, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    picture_.resize(columns);
    arguments.insert(arguments.begin(), {TRIREME_BINARY, "top"});
    child_ = ::forkpty(&controller_, nullptr, nullptr, &size);
    if (child_ == 0) {
      ::setenv("TERM", "xterm", 1);
      ::setenv("LC_ALL", "C", 1);
      ::unsetenv("OMPI_COMM_WORLD_RANK");
      ::signal(SIGHUP, SIG_DFL);  // nohup ignores it
      std::vector<char*> words;
      for (std::string& word : arguments)
        words.push_back(word.data());
      words.push_back(nullptr);
      ::execv(words[0], words.data());
      ::_exit(127);
    }
  }
  ~Session() {
    if (child_ > 0) ::kill(child_, SIGKILL);
    if (child_ > 0) ::waitpid(child_, nullptr, 0);
    ::close(controller_);
  }
  // Whether the screen shows `text` in time.
  [[nodiscard]] bool shows(const std::string& text) {
    while (picture_.text().find(text) == std::string::npos)
      if (!read_more()) return false;
    return true;
  }
  void type(std::string_view keys) const {
    EXPECT_EQ(::write(controller_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  void resize(unsigned short columns) {
    picture_.resize(columns);
    const winsize size{.ws_row = 40, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    ASSERT_EQ(::ioctl(controller_, TIOCSWINSZ, &size), 0);
  }
  void signal(int number) const { ::kill(child_, number); }
  // Reads all until the program ends; its status as of waitpid.
  int end() {
    while (read_more()) {
    }
    int status = -1;
    ::waitpid(std::exchange(child_, -1), &status, 0);
    return status;
  }
  [[nodiscard]] bool keys_are_lines() const {
    termios now{};
    return ::tcgetattr(controller_, &now) == 0 && (now.c_lflag & ICANON) != 0 &&
           (now.c_lflag & ECHO) != 0;
  }
  [[nodiscard]] bool restored() const { return !picture_.alternate && picture_.cursor; }
  [[nodiscard]] const Picture& picture() const { return picture_; }

 private:
  bool read_more() {
    constexpr int patience_ms = 20000;
    pollfd watched{controller_, POLLIN, 0};
    std::array<char, 4096> bytes{};
    if (::poll(&watched, 1, patience_ms) <= 0) return false;
    const ssize_t count = ::read(controller_, bytes.data(), bytes.size());
    for (ssize_t i = 0; i < count; ++i)
      picture_.take(bytes[static_cast<std::size_t>(i)]);
    return count > 0;
  }
  int controller_ = -1;
  pid_t child_ = -1;
  Picture picture_;
};

class TopScreenTest : public testing::Test {
 protected:
  TemporaryDirectory directory_;
  RunFiles run_{directory_.file("run")};
};

TEST_F(TopScreenTest, FollowsARunAsItGoesOn) {
  run_.config(100);
  run_.steps(1, 10);
  const FileDescriptor lock = run_.lock();
  Session top({run_.path(), "--interval", "0.1"});
  ASSERT_TRUE(top.shows("10/100")) << top.picture().text();
  EXPECT_THAT(top.picture().text(), AllOf(HasSubstr("running"), HasSubstr("q quit")));
  EXPECT_TRUE(top.picture().alternate);
  EXPECT_FALSE(top.keys_are_lines());

  run_.steps(11, 25);
  EXPECT_TRUE(top.shows("25/100"));

  top.type("q");
  EXPECT_EQ(top.end(), 0);
  EXPECT_TRUE(top.restored());
  EXPECT_FALSE(top.picture().overflowed());
}

TEST_F(TopScreenTest, WaitsForARunThatIsNotThereYet) {
  const std::string later = directory_.file("later");
  Session top({later, "--interval", "0.1"});
  ASSERT_TRUE(top.shows("no such directory yet"));

  const RunFiles run(later);
  run.steps(1, 3);

  EXPECT_TRUE(top.shows("mean of 3"));
}

TEST_F(TopScreenTest, FitsAScreenOfFortyColumnsAndFollowsItsSize) {
  run_.config(100);
  run_.steps(1, 10);
  Session top({run_.path()}, 40);
  ASSERT_TRUE(top.shows("q quit"));
  EXPECT_THAT(top.picture().text(), Not(HasSubstr("50.0 ms")));
  EXPECT_FALSE(top.picture().overflowed()) << top.picture().text();

  top.resize(100);

  EXPECT_TRUE(top.shows("50.0 ms"));
}

TEST_F(TopScreenTest, ArrowsChooseARunOfSeveral) {
  for (const char* const name : {"sweep/4_1", "sweep/4_2", "sweep/4_10"})
    RunFiles(directory_.file(name)).steps(1, 3);
  Session top({directory_.file("sweep")});
  ASSERT_TRUE(top.shows("> 4_1 ")) << top.picture().text();

  top.type("\x1b[B\x1b");
  ASSERT_TRUE(top.shows("> 4_2 "));
  top.type("[B");
  EXPECT_TRUE(top.shows("> 4_10"));
  EXPECT_TRUE(top.shows("sweep/4_10  "));
}

TEST_F(TopScreenTest, SignalsEndItWithTheTerminalAsItWas) {
  run_.steps(1, 3);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    Session top({run_.path()});
    ASSERT_TRUE(top.shows("q quit"));

    if (number == SIGINT)
      top.type("\x03");
    else
      top.signal(number);

    const int status = top.end();
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == number) << number << " " << status;
    EXPECT_TRUE(top.restored());
  }
}

TEST_F(TopScreenTest, SettingsOfTheTerminalComeBack) {
  run_.steps(1, 3);
  int controller = -1, terminal = -1;
  const winsize size{.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(::openpty(&controller, &terminal, nullptr, nullptr, &size), 0);
  termios before{}, during{}, after{};
  ASSERT_EQ(::tcgetattr(terminal, &before), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(terminal, 0);
    ::dup2(terminal, 1);
    ::setenv("TERM", "xterm", 1);
    ::execl(TRIREME_BINARY, TRIREME_BINARY, "top", run_.path().c_str(), nullptr);
    ::_exit(127);
  }
  char byte = 0;  // the first screen is drawn after the settings change
  ASSERT_EQ(::read(controller, &byte, 1), 1);
  ASSERT_EQ(::tcgetattr(terminal, &during), 0);
  EXPECT_EQ(during.c_lflag & ICANON, 0U);

  ::kill(child, SIGTERM);
  std::array<char, 4096> rest{};
  pollfd watched{controller, POLLIN, 0};
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (::poll(&watched, 1, 20) > 0)
      static_cast<void>(::read(controller, rest.data(), rest.size()) > 0);
  }

  ASSERT_EQ(::tcgetattr(terminal, &after), 0);
  EXPECT_EQ(after.c_lflag, before.c_lflag);
  ::close(terminal);
  ::close(controller);
}

// In a shell, without a terminal.
std::pair<int, std::string> page(const std::string& arguments, const std::string& before = "") {
  const std::string command = before + " " + TRIREME_BINARY + " top " + arguments + " 2>&1";
  FILE* const pipe = ::popen(command.c_str(), "r");
  std::string text;
  std::array<char, 4096> bytes{};
  while (const std::size_t count = std::fread(bytes.data(), 1, bytes.size(), pipe))
    text.append(bytes.data(), count);
  const int status = ::pclose(pipe);
  return {WEXITSTATUS(status), text};
}

TEST_F(TopScreenTest, APipeGetsOnePageWithoutEscapes) {
  run_.config(100);
  run_.steps(1, 10);

  const auto [code, text] = page(run_.path(), "COLUMNS=50 LC_ALL=C");

  EXPECT_EQ(code, 0);
  EXPECT_THAT(text, AllOf(HasSubstr("10/100"), Not(HasSubstr("\x1b")), Not(HasSubstr("q quit"))));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    EXPECT_LE(line.size(), 50U) << line;
}

TEST_F(TopScreenTest, ATerminalThatCannotRedrawGetsOnePage) {
  run_.steps(1, 10);
  const auto [code, text] =
      page("", "TERM=dumb script -qec '" TRIREME_BINARY " top " + run_.path() + "' /dev/null #");
  EXPECT_THAT(text, AllOf(HasSubstr("mean of 10"), Not(HasSubstr("\x1b"))));
}

TEST_F(TopScreenTest, InvalidRunsAreReported) {
  const auto [code, text] = page(directory_.file("nowhere"));
  EXPECT_EQ(code, 2);
  EXPECT_THAT(text, AllOf(HasSubstr("nowhere"), HasSubstr("there is no run")));
  EXPECT_EQ(page("").first, 2);
  EXPECT_EQ(page("--interval 0 x").first, 2);
}

}  // namespace
}  // namespace trireme::test
