/* SPDX-License-Identifier: Apache-2.0 */
/* Filter 32700: every byte xor the filter's first value. */
#include <H5PLextern.h>
#include <hdf5.h>

static size_t change(unsigned flags, size_t count, const unsigned values[], size_t bytes,
                     size_t* room, void** memory) {
  (void)flags;
  (void)room;
  for (size_t i = 0; i < bytes; ++i)
    ((unsigned char*)*memory)[i] ^= (unsigned char)(count > 0 ? values[0] : 0);
  return bytes;
}

static const H5Z_class2_t filter = {H5Z_CLASS_T_VERS, 32700, 1, 1, "xor", NULL, NULL, change};

H5PL_type_t H5PLget_plugin_type(void) {
  return H5PL_TYPE_FILTER;
}
const void* H5PLget_plugin_info(void) {
  return &filter;
}
