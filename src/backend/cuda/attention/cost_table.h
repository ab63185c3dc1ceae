// SPDX-License-Identifier: Apache-2.0
// What work costs the CUDA attention kernels, in microseconds, by instance: fitted by `stof calibrate --device cuda` to
// measurements of one GPU, with where they come from. Built in is the table of an H200; one that was measured on this
// machine's GPU takes its place.
#pragma once
#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "stof/tensor.h"

namespace stof::cuda {

// Of the kernels that walk lists: stream, mma, gather (whose first piece of work is `full`, each further one
// `partial`).
struct ListTerm {
  enum : std::size_t {
    launch,   // of the whole
    full,     // a step without a mask, while all teams work
    partial,  // a step with one
    alone,    // the share of these that they take where few teams work
    item,     // a row block besides its steps
    part,     // a part of a split one, more than that
    traffic,  // the tensors' bytes, in relation to copying them
    tail,     // the share of the last section's schedule that nothing hides
    overlap,  // the share of the smaller of work and traffic that is not hidden by the larger
    last,     // steps of the last section, in relation to the others
    merge,    // a further part of the row block that is cut into most: one CTA adds all of them up
    unused,   // what a step with a mask takes less for 64-row parts that do not use it, a share of the parts' cost
    count
  };
};
struct BandTerm {
  enum : std::size_t {
    launch,   // of the whole
    round,    // a row block of each CTA
    alone,    // the share of it that it takes where few CTAs work
    traffic,  // as above
    overlap,  // as above
    tail,     // the share of a full round's time that what a last, incomplete one lacks takes as well
    count
  };
};
struct DecodeTerm {
  enum : std::size_t {
    launch,  // of 16 rows at d 128 whose tasks are whole; what others take more, decode_times says
    cached,  // a megabyte of keys and values that the cache keeps from call to call
    memory,  // and one that it does not
    count
  };
};
using ListCosts = std::array<double, ListTerm::count>;
using BandCosts = std::array<double, BandTerm::count>;
using DecodeCosts = std::array<double, DecodeTerm::count>;

// "stream_d64_t4_p1_k1_s2_c1_g1": the costs of f16 and bf16 are the same.
using NamedCosts = std::map<std::string, std::vector<double>, std::less<>>;

struct CostSource {
  std::string device, driver, clock, commit, day;
  friend bool operator==(const CostSource&, const CostSource&) = default;
};

// By instance, in the order of instances.h. One that `named` lacks has the costs of its nearest kin there.
struct CostTable {
  std::vector<ListCosts> stream, gather, mma;
  std::vector<BandCosts> band;
  DecodeCosts decode;
  CostSource source;
  friend bool operator==(const CostTable&, const CostTable&) = default;
};
CostTable table_of(const NamedCosts& named, CostSource source);
// Without names of instances that there are no more.
NamedCosts of_instances(NamedCosts named);

const NamedCosts& built_in_named_costs();
const CostSource& built_in_source();

// `cuda-attention.json` in the cache folder.
std::filesystem::path calibration_file();
void write_calibration(const NamedCosts& costs, const CostSource& source, const std::filesystem::path& file);

struct CostsInUse {
  CostTable table;
  std::string source;    // "built in, of an NVIDIA H200", "measured here on 2026-11-21 (FILE)", or why FILE is not used
  bool ignored = false;  // there is a file, which is not used
};
// Those of a GPU are for a description of it, too.
CostsInUse read_costs(const std::filesystem::path& file, std::string_view device);
// For a device of this name, from calibration_file(), which is read when first asked for.
const CostsInUse& costs_for(std::string_view device);

}  // namespace stof::cuda
