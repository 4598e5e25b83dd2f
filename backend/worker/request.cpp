#include "backend/worker/request.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <iostream>
#include <utility>

#include "backend/communication/gather.hpp"
#include "launch/worker_protocol.hpp"

namespace penstock {

using Json = nlohmann::json;

std::optional<Request> next_request() {
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  const Json json = Json::parse(line);
  Request request{json.at("id"), json.at("do"), json.at("given"), json.at("extra")};
  if (json.contains("samples")) {
    request.samples = json.at("samples");
    request.checksums = json.at("checksums");
  }
  return request;
}

namespace {

constexpr const char* kClose = "close";

/// Numbers whose sums tell whether several hashes are equal: their count n, and of both 16-bit
/// halves h the sum and the sum of squares. They are equal if and only if n sum(h^2) = sum(h)^2;
/// exact up to n = 1448.
constexpr size_t kNumbers = 5;

void add_hash(std::vector<double>& numbers, std::optional<uint32_t> hash) {
  const auto high = static_cast<double>(hash.value_or(0) >> 16);
  const auto low = static_cast<double>(hash.value_or(0) & 0xffff);
  numbers.insert(numbers.end(), {hash ? 1.0 : 0.0, high, high * high, low, low * low});
}

/// The hash of all that have one, from sums that show that they are equal.
std::optional<uint32_t> common_hash(const double* sums) {
  if (sums[0] == 0) return std::nullopt;
  return static_cast<uint32_t>(sums[1] / sums[0]) << 16 | static_cast<uint32_t>(sums[3] / sums[0]);
}

bool are_equal(const double* sums) {
  return sums[0] * sums[2] == sums[1] * sums[1] && sums[0] * sums[4] == sums[3] * sums[3];
}

/// The first two ranks for which `value` differs.
template <class Value>
std::optional<std::pair<int, int>> first_unlike(const std::vector<Json>& all, const Value& value) {
  for (size_t a = 0; a < all.size(); ++a) {
    for (size_t b = a + 1; b < all.size(); ++b) {
      const Json one = value(all[a]), other = value(all[b]);
      if (!one.is_null() && !other.is_null() && one != other)
        return std::pair(static_cast<int>(a), static_cast<int>(b));
    }
  }
  return std::nullopt;
}

void check_calls(const std::vector<Json>& all, int64_t step) {
  const auto unlike = first_unlike(all, [](const Json& one) { return one.at("call"); });
  if (!unlike) return;
  auto [a, b] = *unlike;
  if (all[static_cast<size_t>(a)].at("call") == kClose) std::swap(a, b);
  const auto call = [&](int rank) {
    return all[static_cast<size_t>(rank)].at("call").get<std::string>();
  };
  if (call(b) == kClose) {
    throw ScriptEnded(fmt::format(
        "rank {}'s script ended after step {}, rank {} is in {}: give "
        "every rank as many batches",
        b, step, a,
        call(a) == "step" ? fmt::format("step {}", step_number(step)) : call(a) + "()"));
  }
  throw Refused(fmt::format("step {}", step_number(step)),
                fmt::format("rank {} called {}(), rank {} called {}()", a, call(a), b, call(b)),
                "All scripts of a run call the same, in the same order.");
}

void check_given(const std::vector<Json>& all, int64_t step) {
  for (const auto& [name, value] : all.front().at("given").items()) {
    const std::string key = name;
    const auto unlike =
        first_unlike(all, [&](const Json& one) { return one.at("given").at(key).dump(); });
    if (!unlike) continue;
    const auto given = [&](int rank) {
      return all[static_cast<size_t>(rank)].at("given").at(key).dump();
    };
    throw Refused(fmt::format("step {}", step_number(step)),
                  fmt::format("{} is {} on rank {} and {} on rank {}", key, given(unlike->first),
                              unlike->first, given(unlike->second), unlike->second),
                  "Compute it alike on all of them.");
  }
}

void check_samples(const std::vector<Json>& all, int64_t step) {
  const auto unlike = first_unlike(all, [](const Json& one) { return one.at("samples"); });
  if (!unlike) return;
  const auto samples = [&](int rank) {
    return all[static_cast<size_t>(rank)].at("samples").get<int64_t>();
  };
  throw Refused(fmt::format("step {}", step_number(step)),
                fmt::format("rank {} was given {} samples, rank {} {}", unlike->first,
                            samples(unlike->first), unlike->second, samples(unlike->second)),
                "All ranks pass equally many: pad or drop the last ones, as DistributedSampler "
                "does.");
}

void check_tensors(const std::vector<Json>& all, const std::vector<std::string>& tensors,
                   int64_t step) {
  for (const std::string& tensor : tensors) {
    for (const Json& first : all) {
      const auto unlike = first_unlike(all, [&](const Json& one) {
        return one.at("replica") == first.at("replica") ? one.at("checksums").value(tensor, Json())
                                                        : Json();
      });
      if (!unlike) continue;
      throw Refused(fmt::format("step {}", step_number(step)),
                    fmt::format("ranks {} and {} were given different {}", unlike->first,
                                unlike->second, tensor),
                    "Seed their samplers alike: ranks of one replica pass the same samples.");
    }
  }
}

}  // namespace

/// On all ranks; each has read them when it returns.
std::vector<Json> Agreement::requests_of_all(const Request& request) const {
  const std::string key = fmt::format("disagreement/{}/", checked_);
  const Json own{{"call", request.call},
                 {"given", request.given},
                 {"replica", replica_},
                 {"samples", request.samples ? Json(*request.samples) : Json()},
                 {"checksums", request.checksums}};
  seat_.store.set(key + std::to_string(seat_.rank), own.dump());
  std::vector<Json> all;
  for (int rank = 0; rank < seat_.size; ++rank)
    all.push_back(Json::parse(seat_.store.get(key + std::to_string(rank))));
  communicator_.barrier();
  return all;
}

/// The numbers of the request itself, and of each tensor that it passes to its replica.
std::vector<double> Agreement::numbers_of(const Request& request) const {
  std::vector<double> numbers;
  const std::string asked = Json{request.call, request.given}.dump();
  add_hash(numbers, XXH32(asked.data(), asked.size(), 0));
  add_hash(numbers, request.samples);
  for (int replica = 0; replica < replicas_; ++replica) {
    for (const std::string& name : tensors_) {
      const auto found = request.checksums.find(name);
      const bool passed = replica == replica_ && found != request.checksums.end();
      add_hash(numbers, passed ? std::optional(found->second) : std::nullopt);
    }
  }
  return numbers;
}

void Agreement::check(Request& request, int64_t step) {
  ++checked_;
  std::vector<double> numbers = numbers_of(request);
  sum_over_all(communicator_, numbers);
  bool equal = true;
  for (size_t i = 0; i < numbers.size(); i += kNumbers)
    equal = equal && are_equal(numbers.data() + i);
  if (equal) {
    request.samples = common_hash(numbers.data() + kNumbers);
    return;
  }
  const std::vector<Json> all = requests_of_all(request);
  check_calls(all, step);
  check_given(all, step);
  check_samples(all, step);
  check_tensors(all, tensors_, step);
  throw std::logic_error("requests with equal hashes differ");
}

}  // namespace penstock
