// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/mixed_heads.h"

#include <algorithm>
#include <numeric>

namespace stof::cuda {
namespace {

constexpr std::int64_t kMostItems = std::int64_t{1} << 22;  // of all lists: 100 MB

std::int64_t steps_of(const ArrangedStream& arranged, const StreamGroup& group) {
  const auto first = arranged.items.begin() + group.first_item;
  return std::accumulate(first, first + group.item_count, std::int64_t{0},
                         [](std::int64_t sum, const StreamItem& item) { return sum + item.steps; });
}

class HeadMixer {
 public:
  HeadMixer(const ArrangedStream& arranged, const HeadMix& mix) : arranged_(arranged), mix_(mix) {
    for (const StreamGroup& group : arranged.groups) steps_.push_back(steps_of(arranged, group));
  }

  std::optional<MixedHeads> run() {
    if (!fits()) return std::nullopt;
    for (std::size_t item = 0; item < mix_.group_of.size(); item += static_cast<std::size_t>(mix_.heads))
      add(mix_.group_of.subspan(item, static_cast<std::size_t>(mix_.heads)));
    return std::move(out_);
  }

 private:
  const StreamGroup& group(int index) const { return arranged_.groups[static_cast<std::size_t>(index)]; }

  bool fits() const {
    std::int64_t items = 0;
    for (std::size_t first = 0; first < mix_.group_of.size(); first += static_cast<std::size_t>(mix_.heads)) {
      int slots = 0;
      for (const int index : mix_.group_of.subspan(first, static_cast<std::size_t>(mix_.heads)))
        items += group(index).item_count, slots += group(index).slots;
      if (slots >= kMostSlots || items > kMostItems) return false;
    }
    return true;
  }

  // One item's list.
  void add(std::span<const int> groups) {
    std::vector<int> heads(groups.size());
    std::iota(heads.begin(), heads.end(), 0);
    const auto weight = [&](int head) {
      return steps_[static_cast<std::size_t>(groups[static_cast<std::size_t>(head)])];
    };
    std::stable_sort(heads.begin(), heads.end(), [&](int a, int b) { return weight(a) > weight(b); });
    StreamGroup& list = out_.groups.emplace_back();
    list.first_item = static_cast<int>(out_.items.size());
    for (int turn = 0, begin = 0; turn <= mix_.turns; ++turn) {
      const int end = turn < mix_.turns ? begin + mix_.width : mix_.heads;
      const auto first = std::ssize(out_.items);
      for (; begin < end; ++begin) {
        const int head = heads[static_cast<std::size_t>(begin)];
        add_head(head, group(groups[static_cast<std::size_t>(head)]), list);
      }
      std::stable_sort(out_.items.begin() + first, out_.items.end(),
                       [](const StreamItem& a, const StreamItem& b) { return a.steps > b.steps; });
    }
    list.item_count = static_cast<int>(out_.items.size()) - list.first_item;
  }

  // Parts of split row blocks get slots behind those of the heads before.
  void add_head(int head, const StreamGroup& of, StreamGroup& list) {
    for (int i = 0; i < of.item_count; ++i) {
      StreamItem& item = out_.items.emplace_back(arranged_.items[static_cast<std::size_t>(of.first_item + i)]);
      item.head = head;
      if (item.split != 0) item.split += list.slots;
    }
    list.slots += of.slots;
  }

  const ArrangedStream& arranged_;
  const HeadMix& mix_;
  std::vector<std::int64_t> steps_;  // of each mask
  MixedHeads out_;
};

}  // namespace

bool heads_differ(std::span<const int> group_of, std::int64_t heads) {
  for (std::size_t head = 1; head < group_of.size(); ++head)
    if (head % static_cast<std::size_t>(heads) != 0 && group_of[head] != group_of[head - 1]) return true;
  return false;
}

std::optional<MixedHeads> mix_heads(const ArrangedStream& arranged, const HeadMix& mix) {
  return HeadMixer(arranged, mix).run();
}

}  // namespace stof::cuda
