/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded: an HDF5 library that does not survive a file whose name says so. */
#include <hdf5.h>
#include <signal.h>
#include <string.h>

hid_t H5Fopen(const char* path, unsigned flags, hid_t access) {
  (void)flags;
  (void)access;
  if (strstr(path, "crash") != NULL) raise(SIGSEGV);
  return -1;
}
