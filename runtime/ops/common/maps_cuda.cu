// SPDX-License-Identifier: Apache-2.0
// Ops that all back ends share whole.
#include "runtime/ops/common/maps_cuda.h"
#include "runtime/ops/experts/expert_values_maps.h"
#include "runtime/ops/loss/sample_scores_maps.h"
#include "runtime/ops/loss/value_loss_maps.h"
#include "runtime/ops/random/sinusoid_maps.h"
