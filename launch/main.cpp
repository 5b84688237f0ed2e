// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5/child.h"
#include "launch/guard.h"

int main(int argc, char** argv) {
  trireme::serve_hdf5_child(argc, argv);
  return trireme::run_program(argc, argv);
}
