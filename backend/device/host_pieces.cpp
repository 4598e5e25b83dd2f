#include "backend/device/host_pieces.hpp"

#include <ATen/ops/empty.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace penstock {

namespace {

/// The bytes of a range, cut into pieces. Where a tensor is not contiguous its copy is the host's:
/// a GPU may have no memory left for one.
class Pieces {
 public:
  Pieces(const std::vector<at::Tensor>& tensors, ByteRange range, size_t bytes)
      : tensors_(tensors), skipped_(range.begin), left_(range.end - range.begin), bytes_(bytes) {}

  /// Undefined behind the last one.
  at::Tensor next() {
    while (left_ > 0 && (!tensor_.defined() || skipped_ == tensor_.nbytes())) take();
    if (left_ == 0) return {};
    const size_t length = std::min({bytes_, left_, tensor_.nbytes() - skipped_});
    left_ -= length;
    return tensor_.narrow(0, static_cast<int64_t>(std::exchange(skipped_, skipped_ + length)),
                          static_cast<int64_t>(length));
  }

 private:
  /// The next tensor of which the range has a byte.
  void take() {
    if (tensor_.defined()) skipped_ = 0;
    while (skipped_ >= tensors_[taken_].nbytes()) skipped_ -= tensors_[taken_++].nbytes();
    const at::Tensor& tensor = tensors_[taken_++];
    const at::Tensor values = tensor.is_contiguous() ? tensor : tensor.cpu().contiguous();
    tensor_ = values.view(-1).view(at::kByte);
  }

  const std::vector<at::Tensor>& tensors_;
  size_t taken_ = 0;
  at::Tensor tensor_;  // the one that was taken last
  size_t skipped_;     // bytes before the next piece, of it or of those that were not taken yet
  size_t left_;        // bytes of the range
  size_t bytes_;
};

/// A piece that comes to the host, or is there.
class Arrival {
 public:
  explicit Arrival(size_t most_bytes) : most_bytes_(static_cast<int64_t>(most_bytes)) {}

  void begin(at::Tensor piece) {
    piece_ = std::move(piece);
    if (is_there()) return;
    if (!memory_.defined()) {
      memory_ = at::empty({most_bytes_}, piece_.options().device(at::kCPU).pinned_memory(true));
    }
    memory_.narrow(0, 0, piece_.numel()).copy_(piece_, /*non_blocking=*/true);
    done_.emplace(piece_.device().type());
    done_->record(c10::impl::VirtualGuardImpl(piece_.device().type()).getStream(piece_.device()));
  }
  bool has_piece() const { return piece_.defined(); }
  std::span<const std::byte> wait() const {
    if (!is_there()) done_->synchronize();
    const at::Tensor& there = is_there() ? piece_ : memory_;
    return {static_cast<const std::byte*>(there.const_data_ptr()),
            static_cast<size_t>(piece_.numel())};
  }

 private:
  bool is_there() const { return !piece_.defined() || piece_.is_cpu(); }

  int64_t most_bytes_;
  at::Tensor piece_, memory_;
  std::optional<c10::Event> done_;
};

}  // namespace

void read_in_pieces(const std::vector<at::Tensor>& tensors, ByteRange range, size_t piece_bytes,
                    const std::function<void(std::span<const std::byte>)>& read) {
  Pieces pieces(tensors, range, piece_bytes);
  std::array<Arrival, 2> arrivals{Arrival(piece_bytes), Arrival(piece_bytes)};
  arrivals[0].begin(pieces.next());
  for (size_t now = 0; arrivals[now].has_piece(); now = 1 - now) {
    arrivals[1 - now].begin(pieces.next());
    read(arrivals[now].wait());
  }
}

}  // namespace penstock
