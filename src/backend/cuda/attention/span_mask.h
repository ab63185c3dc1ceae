// SPDX-License-Identifier: Apache-2.0
// A mask as the spans of its rows on the device, for launches whose row blocks begin at an item's own first row.
#pragma once
#include <vector>

#include "kernels/shared/row_spans.h"
#include "src/backend/cuda/attention/instances.h"
#include "src/backend/cuda/attention/listed_mask.h"
#include "src/backend/cuda/attention/sections.h"
#include "src/backend/cuda/attention/span_split.h"

namespace stof::cuda {

struct SpanMask {
  SpanForm form;
  RowRule rule = {};
  DeviceMemory rows;  // [form.rows], where no rule says them
  Sections sections;
  WorkspaceSize workspace;  // that its launches need

  // What a launch's kernel reads, with its items' row blocks cut into parts. share: of the device's teams that it has.
  RowSpans of(const TiledLaunch& launch, double share) const;
};

// Of positions that any item's rows may have. The mask is set up but for workspaces.
SpanMask make_span_mask(const ListedMask& mask, const StreamInstance& instance, std::vector<RowSpan> rows,
                        const DeviceCaps& caps);

}  // namespace stof::cuda
