// SPDX-License-Identifier: Apache-2.0
// Replaces NVTX's header of this name: counts ranges and checks that they nest.
#pragma once

int nvtxRangePushA(const char* name);
int nvtxRangePop();
