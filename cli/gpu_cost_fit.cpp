// SPDX-License-Identifier: Apache-2.0
#include "cli/gpu_cost_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "cli/gpu_grid.h"
#include "src/attention/describe.h"
#include "src/attention/planned.h"
#include "src/backend/cuda/attention/price_plan.h"
#include "src/base/error.h"

namespace stof::cli {
namespace {

using cuda::BandTerm, cuda::ListTerm, cuda::NamedCosts, cuda::NamedPlan;

struct Sample {
  std::shared_ptr<const AttentionProblem> problem;
  cuda::Prediction predicted;
  double us, weight;  // a plan far behind the best need not be predicted well
  double behind;      // the logarithm of its time over that of the fastest other plan: below 0 it is the fastest
};
using Samples = std::map<std::string, std::vector<Sample>>;  // by name of costs

GpuCase case_of(const Json& row) {
  const auto s = row.at("shape").get<std::array<std::int64_t, 6>>();
  const float softcap = row.value("softcap", 0.f);  // files of before there were such problems say nothing
  const auto bias_reach = row.value("bias_reach", std::int64_t{-1});
  return {row.at("mask"),
          {.batch = s[0],
           .heads = s[1],
           .kv_heads = s[2],
           .queries = s[3],
           .keys = s[4],
           .head_dim = s[5],
           .dtype = row.at("dtype") == "bf16" ? DType::bf16 : DType::f16,
           .capped = softcap > 0,
           .biased = bias_reach >= 0},
          softcap,
          bias_reach};
}

// Of the plans, or of those beside one of them.
double best_us(const Json& row, const Json* beside = nullptr) {
  double best = 1e30;
  for (const Json& plan : row.at("plans"))
    if (plan.contains("us") && &plan != beside) best = std::min(best, plan.at("us").get<double>());
  return best;
}

// Files of before there were others say nothing.
std::string row_origin_of(const Json& plan) { return plan.value("row_origin", std::string(name_of(RowOrigin::zero))); }

void add_samples(const Json& row, const View& view, RowOrigin origin, const Device& device, Samples& samples) {
  const DType dtype = view.shape.dtype;
  constexpr double kNearBestPower = 3;  // of a plan's weight: one that is far behind only has to stay there
  const double best = best_us(row);
  const auto problem = std::make_shared<const AttentionProblem>(problem_of(view, device, origin));
  const double more_launches = device.backend->launch_us * static_cast<double>(view.runs - 1);
  for (const Json& plan : row.at("plans")) {
    const NamedPlan named{plan.at("kernel"), plan.at("instance"), plan.at("splits")};
    if (!plan.contains("us") || plan.at("residues") != view.residues || row_origin_of(plan) != name_of(origin) ||
        !cuda::is_priced(named, dtype))
      continue;
    const double us = plan.at("us").get<double>() - more_launches;
    samples[cuda::costs_name(named, dtype)].push_back({problem, cuda::prediction_of(*problem, named), std::max(us, 0.1),
                                                       std::pow(best / plan.at("us").get<double>(), kNearBestPower),
                                                       std::log(plan.at("us").get<double>() / best_us(row, &plan))});
  }
}

void add_samples(const Json& row, const Device& device, Samples& samples) {
  const GpuCase one = case_of(row);
  const Mask mask = parse(one.mask);
  std::vector<View> views;
  views.push_back(plain_view(mask, one.shape));
  if (std::optional<View> view = view_by_residue(mask, one.shape)) views.push_back(std::move(*view));
  for (const View& view : views) {
    add_samples(row, view, RowOrigin::zero, device, samples);
    if (first_row_saves_blocks(view.mask.extent())) add_samples(row, view, RowOrigin::first_row, device, samples);
  }
}

struct Bounds {
  double least, most;
};

Bounds bounds_of(const std::string& name, std::size_t term) {
  constexpr double kMost = 1e3;
  if (name == "decode") return {1e-3, kMost};
  if (name.starts_with("band_")) {
    if (term == BandTerm::alone) return {0.2, 1};
    if (term == BandTerm::traffic) return {0.9, 1.7};
    return {0, term == BandTerm::overlap || term == BandTerm::tail ? 1 : kMost};
  }
  if (term == ListTerm::alone || term == ListTerm::tail) return {0.2, 1};
  if (term == ListTerm::traffic) return {0.9, 1.6};
  return {0, term == ListTerm::overlap || term == ListTerm::unused ? 1 : kMost};
}

// The square of an error, of one above kBend its tangent: short kernels sometimes take half as long again as they do in
// the next run, whatever their plan, and the square of that would be all that counts.
double bent_square(double error) {
  constexpr double kBend = 0.1;
  return std::abs(error) < kBend ? error * error : kBend * (2 * std::abs(error) - kBend);
}

// What the choice would lose, times how far an error goes beyond half the distance from the fastest other plan: one
// that is behind taken for faster than it, or the fastest for slower. The other half is for the other's error.
double lost(double error, double behind) {
  const double distance = std::abs(behind), beyond = (behind > 0 ? -error : error) - distance / 2;
  return beyond > 0 ? distance * beyond : 0;
}

// The sum of squares of the relative errors' logarithms, and of what they lose, is least: one term at a time goes up or
// down by a share of itself, which is halved when no such step helps. A schedule goes in jumps, so that this ends where
// it began to go downhill: it begins in several places, the built-in costs among them.
class Search {
 public:
  Search(const std::string& name, const std::vector<Sample>& samples, const Device& device)
      : name_(name), samples_(samples), device_(device), named_(cuda::built_in_named_costs()) {}

  GpuFit run() {
    GpuFit best = from(start());
    for (const std::vector<double>& other : other_starts())
      if (GpuFit fit = from(other); fit.error < best.error) best = std::move(fit);
    return best;
  }

 private:
  GpuFit from(const std::vector<double>& start) {
    GpuFit fit{.name = name_, .costs = start, .samples = static_cast<int>(samples_.size())};
    double least = loss(fit.costs);
    for (double step = 0.5; step > 0.004;) {
      bool better = false;
      for (std::size_t term = 0; term < fit.costs.size(); ++term)
        for (const double sign : {1.0, -1.0}) {
          std::vector<double> tried = fit.costs;
          const auto [lower, upper] = bounds_of(name_, term);
          const double nudge = tried[term] < 0.02 ? 0.02 * sign : 0;  // a share of nothing would go nowhere
          tried[term] = std::clamp(tried[term] * (1 + sign * step) + nudge, lower, upper);
          const double now = loss(tried);
          if (now < least * (1 - 1e-7)) least = now, fit.costs = std::move(tried), better = true;
        }
      if (!better) step /= 2;
    }
    fit.error = std::sqrt(least);
    return fit;
  }

  std::vector<double> start() const {
    if (name_ == "decode") return {4, 0.2, 0.25};
    if (name_.starts_with("band_")) return {1, 2, 1, 1.1, 0.1, 0.5};
    return {1.5, 0.8, 1.0, 0.8, 2.5, 2, 1.1, 0.7, 0.1, 0.6, 0, 0};
  }

  std::vector<std::vector<double>> other_starts() const {
    std::vector<std::vector<double>> starts;
    const cuda::NamedCosts& used = cuda::built_in_named_costs();
    if (const auto found = used.find(name_); found != used.end()) starts.push_back(found->second);
    if (start().size() != ListTerm::count) return starts;
    for (const double merge : {0.5, 2.0}) {
      starts.push_back(start());
      starts.back()[ListTerm::merge] = merge, starts.back()[ListTerm::item] = 2 * merge;
    }
    return starts;
  }

  double loss(const std::vector<double>& costs) {
    named_[name_] = costs;
    const cuda::CostTable table = cuda::table_of(named_, {});
    const cuda::Pricing pricing{device_.caps, table};
    double sum = 0, weights = 0;
    for (const Sample& sample : samples_) {
      const double error = std::log(sample.predicted(pricing) / sample.us);
      sum += sample.weight * bent_square(error) + lost(error, sample.behind);
      weights += sample.weight;
    }
    return sum / weights;
  }

  const std::string& name_;
  const std::vector<Sample>& samples_;
  const Device& device_;
  NamedCosts named_;
};

bool same_plan(const AttentionPlan& plan, const Json& row) {
  return row.at("kernel") == plan.kernel && row.at("instance") == plan.instance && row.at("splits") == plan.splits &&
         row.at("residues") == plan.residues && row_origin_of(row) == name_of(plan.format.row_origin);
}

std::string name_of_plan(std::string_view instance, int splits) { return fmt::format("{} / {}", instance, splits); }

}  // namespace

std::vector<GpuFit> fit_gpu_costs(const Json& rows, const Device& device,
                                  const std::function<void(std::int64_t done, std::int64_t total)>& progress) {
  Samples samples;
  for (const Json& row : rows) add_samples(row, device, samples);
  std::vector<const Samples::value_type*> instances;
  for (const auto& one : samples) instances.push_back(&one);
  std::vector<GpuFit> fits(instances.size());
  std::int64_t done = 0;
  progress(done, std::ssize(instances));
#pragma omp parallel for schedule(dynamic)
  for (std::size_t i = 0; i < instances.size(); ++i) {
    fits[i] = Search(instances[i]->first, instances[i]->second, device).run();
#pragma omp critical
    progress(++done, std::ssize(instances));
  }
  return fits;
}

GpuRegrets regret_of(const Json& rows, const Device& device) {
  GpuRegrets found;
  for (const Json& row : rows) {
    const GpuCase one = case_of(row);
    const Choice choice = choose_single(parse(one.mask), one.shape, device, "auto");
    GpuRegret regret{.id = row.at("id"), .chosen = {}, .best = {}, .best_us = best_us(row)};
    for (const Json& plan : row.at("plans")) {
      if (!plan.contains("us")) continue;
      const double us = plan.at("us");
      const std::string name = name_of_plan(plan.at("instance").get<std::string>(), plan.at("splits").get<int>());
      if (us == regret.best_us) regret.best = name;
      if (same_plan(choice.plan, plan)) regret.chosen = name, regret.chosen_us = us;
    }
    if (regret.chosen_us > 0) found.judged.push_back(std::move(regret));
    else found.not_judged.push_back({regret.id, name_of_plan(choice.plan.instance, choice.plan.splits)});
  }
  return found;
}

}  // namespace stof::cli
