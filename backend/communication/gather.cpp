#include "backend/communication/gather.hpp"

namespace penstock {

std::vector<at::Tensor> gather_tensors(Communicator& communicator, const std::vector<Piece>& pieces,
                                       int first_tag,
                                       const std::function<at::Tensor(size_t)>& own) {
  const int rank = communicator.rank();
  std::vector<at::Tensor> gathered;
  std::vector<std::unique_ptr<Transfer>> sends;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const int tag = first_tag + static_cast<int>(i);
    if (pieces[i].owner == rank) {
      at::Tensor tensor = own(i).to(at::kCPU).contiguous();
      TORCH_CHECK(tensor.sizes() == at::IntArrayRef(pieces[i].shape), "piece ", i, " has shape ",
                  tensor.sizes(), ", expected ", at::IntArrayRef(pieces[i].shape));
      if (rank == 0) {
        gathered.push_back(tensor.clone());
      } else {
        sends.push_back(communicator.send({0, false}, tensor, tag));
      }
    } else if (rank == 0) {
      at::Tensor tensor = at::empty(pieces[i].shape, pieces[i].type);
      communicator.receive({pieces[i].owner, false}, tensor, tag)->wait();
      gathered.push_back(std::move(tensor));
    }
  }
  for (const auto& send : sends) send->wait();
  return gathered;
}

void sum_over_all(Communicator& communicator, std::vector<double>& numbers) {
  communicator.all_reduce(
      at::from_blob(numbers.data(), static_cast<int64_t>(numbers.size()), at::kDouble),
      communicator.all_ranks());
}

}  // namespace penstock
