// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <pthread.h>

#include <thread>

#include "runtime/base/process.h"

namespace trireme {
namespace {

// As under `ulimit -s 256`.
TEST(ThreadStacks, AreLargeWhateverTheLimit) {
  pthread_attr_t usual;
  ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&usual, std::size_t{256} << 10U), 0);
  ASSERT_EQ(pthread_setattr_default_np(&usual), 0);

  enlarge_thread_stacks();

  std::size_t bytes = 0;
  std::thread([&] {
    pthread_attr_t own;
    ASSERT_EQ(pthread_getattr_np(pthread_self(), &own), 0);
    EXPECT_EQ(pthread_attr_getstacksize(&own, &bytes), 0);
    pthread_attr_destroy(&own);
  }).join();
  EXPECT_GE(bytes, std::size_t{8} << 20U);
}

}  // namespace
}  // namespace trireme
