// A device whose times tests script; it holds nothing.
#pragma once

#include "backend/device/device.hpp"

namespace penstock::test {

class ScriptedDevice : public ComputeDevice {
 public:
  at::Device where() const override { return at::kCPU; }
  bool runs_behind() const override { return true; }
  KernelTrace* trace() override { return nullptr; }
  std::string no_trace() const override { return ""; }
  std::unique_ptr<GraphCapture> make_graph_capture() override { return nullptr; }
  int64_t held_bytes() const override { return 0; }
  int64_t peak_bytes() const override { return 0; }
  int64_t peak_reserved_bytes() const override { return 0; }
  int64_t workspace_bytes() const override { return 0; }
  void reset_peak() override {}
  int64_t available_bytes() const override { return 0; }
  int64_t other_bytes() const override { return 0; }
  int64_t allocations() const override { return 0; }
  void give_back_memory() override {}
  void fail_without_memory(bool /*on*/) override {}
};

}  // namespace penstock::test
