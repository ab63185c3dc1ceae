// SPDX-License-Identifier: Apache-2.0
// What a lane has recorded of its calls, as much of it as it may hold: what was not wanted for longest goes first.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "src/backend/device_stream.h"
#include "src/runtime/bucket.h"
#include "stof/session.h"

namespace stof {

struct ResultForm {
  Pooling pooling = Pooling::none;  // none: the vector of every row
  bool normalize = false;
  friend auto operator<=>(const ResultForm&, const ResultForm&) = default;
};

// Calls that one recording serves.
struct CallKind {
  Bucket bucket;
  ResultForm form = {};
  // Where attention is planned by length: the texts as they lie. Else empty, and the device reads them.
  std::vector<std::int32_t> lengths = {};
  bool padded = false;
  friend auto operator<=>(const CallKind&, const CallKind&) = default;
};

struct Recording {
  std::unique_ptr<RecordedWork> work;
  const void* result = nullptr;
  std::vector<std::shared_ptr<const void>> plans = {};  // that it reads, and others may drop; and what these write
};

class Recordings {
 public:
  // Null where there is none.
  const Recording* find(const CallKind& kind);
  // Whether a call that find() did not find is to be recorded: the first of a bucket; of calls with lengths of their
  // own the second one, since most of these never come again. Not of a kind that was refused.
  bool is_worth_it(const CallKind& kind);
  // Refuses where its plans alone are more than may be held: they would be as many another time.
  void keep(const CallKind& kind, Recording recording);
  // Of a kind that cannot be recorded.
  void refuse(const CallKind& kind) { note(refused_, kind); }
  void clear() { kept_.clear(); }
  std::size_t size() const { return kept_.size(); }

  static constexpr std::size_t kMost = 64;        // recordings
  static constexpr std::size_t kMostPlans = 512;  // of all recordings together, workspaces included
  static constexpr std::size_t kMostSeen = 256;   // kinds of calls that came once, and those that were refused

 private:
  struct Kept {
    Recording recording;
    std::int64_t used = 0;
  };
  std::size_t plans() const;
  void drop_oldest();

  std::map<CallKind, Kept> kept_;
  using Times = std::map<CallKind, std::int64_t>;
  void note(Times& times, const CallKind& kind);
  Times seen_, refused_;  // and when
  std::int64_t now_ = 0;
};

}  // namespace stof
