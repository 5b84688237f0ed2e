/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded: an HDF5 library that does with a file what its name says. */
#include <hdf5.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

hid_t H5Fopen(const char* path, unsigned flags, hid_t access) {
  char mark[4096];
  int at_end = 0;
  (void)flags;
  (void)access;
  snprintf(mark, sizeof(mark), "%s.mark", path);
  if (strstr(path, "crash") != NULL) raise(SIGSEGV);
  if (strstr(path, "killed") != NULL) raise(SIGKILL);
  if (strstr(path, "once") != NULL && unlink(mark) == 0) raise(SIGKILL);
  if (strstr(path, "stopped") != NULL) raise(SIGSTOP);
  if (strstr(path, "orphan") != NULL && (prctl(PR_GET_PDEATHSIG, &at_end), at_end != SIGKILL))
    raise(SIGSEGV);
  return -1;
}
