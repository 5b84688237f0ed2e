// SPDX-License-Identifier: Apache-2.0
#include "launch/program.h"

int main(int argc, char** argv) {
  return trireme::run_program(argc, argv);
}
