#include "backend/device/cuda/graph_capture.hpp"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include "backend/device/cuda/call.hpp"

namespace penstock::cuda {

namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

at::HostAllocator& pinned() { return *at::getHostAllocator(at::kCUDA); }

/// The memory that all graphs of one capture share; it goes back to the allocator with the last of
/// them and of the tensors in it.
struct Pool {
  c10::DeviceIndex device;
  c10::MempoolId_t id;
};

/// While it lives, memory that is asked for on the stream comes from the pool: the GPU's, and the
/// host's pinned memory.
class FromPool {
 public:
  FromPool(const Pool& pool, c10::cuda::CUDAStream stream) : pool_(pool) {
    allocator::beginAllocateToPool(
        pool.device, pool.id,
        [own = stream.stream()](cudaStream_t asking) { return asking == own; });
    pinned().begin_allocate_to_pool(
        pool.id, [own = stream.unwrap()](c10::Stream asking) { return asking == own; });
  }
  FromPool(const FromPool&) = delete;
  FromPool& operator=(const FromPool&) = delete;
  // The allocators throw where their own state is wrong: then the process is to end.
  // NOLINTNEXTLINE(bugprone-exception-escape)
  ~FromPool() {
    allocator::endAllocateToPool(pool_.device, pool_.id);
    pinned().end_allocate_to_pool(pool_.id);
  }

 private:
  Pool pool_;
};

class CudaGraph : public CapturedGraph {
 public:
  /// Takes over one use of the pool.
  explicit CudaGraph(const Pool& pool) : pool_(pool) {}
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  // NOLINTNEXTLINE(bugprone-exception-escape)
  ~CudaGraph() override {
    if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
    allocator::releasePool(pool_.device, pool_.id);
    pinned().release_pool(pool_.id);
  }

  void instantiate(cudaGraph_t graph) {
    const cudaError_t error = cudaGraphInstantiate(&graph_, graph, 0);
    cudaGraphDestroy(graph);
    check(error, "making a CUDA graph");
  }

  void replay() override {
    check(cudaGraphLaunch(graph_, c10::cuda::getCurrentCUDAStream().stream()), "a CUDA graph");
  }

 private:
  Pool pool_;
  cudaGraphExec_t graph_ = nullptr;
};

class CudaGraphCapture : public GraphCapture {
 public:
  CudaGraphCapture() : pool_{c10::cuda::current_device(), at::cuda::graph_pool_handle()} {}

  std::unique_ptr<CapturedGraph> capture(const std::function<void()>& work) override {
    const c10::cuda::CUDAStream current = c10::cuda::getCurrentCUDAStream();
    const cudaStream_t stream = current.stream();
    std::unique_ptr<CudaGraph> captured;  // destroyed after `from_pool`
    const FromPool from_pool(pool_, current);
    captured = std::make_unique<CudaGraph>(pool_);
    // Autograd issues backwards from a thread of its own, NCCL works in others: what they do
    // elsewhere must not end the capture.
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "a CUDA graph's begin");
    cudaGraph_t graph = nullptr;
    try {
      work();
    } catch (...) {
      cudaStreamEndCapture(stream, &graph);
      if (graph != nullptr) cudaGraphDestroy(graph);
      cudaGetLastError();
      throw;
    }
    check(cudaStreamEndCapture(stream, &graph), "a CUDA graph");
    captured->instantiate(graph);
    return captured;
  }

  int64_t unheld_bytes() const override {
    int64_t bytes = 0;
    for (const auto& segment : allocator::snapshot(pool_.id, /*include_traces=*/false).segments)
      bytes += static_cast<int64_t>(segment.total_size - segment.allocated_size);
    return bytes;
  }

 private:
  Pool pool_;
};

}  // namespace

std::unique_ptr<GraphCapture> make_graph_capture() { return std::make_unique<CudaGraphCapture>(); }

}  // namespace penstock::cuda
