// Shared parameters that their owner updates for all (pipeline/plan/sharing.hpp): gradients on
// their way to it, new values on their way back. Both once a step.
#pragma once

#include <vector>

#include "backend/communication/communicator.hpp"
#include "backend/stage/recipe/store.hpp"
#include "graph/cuts/slice.hpp"

namespace penstock {

/// Of one parameter, by ranks of the run, all of one replica.
struct Transmission {
  int tensor = 0;  // index in Graph::tensors
  int owner = 0;
  std::vector<int> others;  // ascending
  int tag = 0;              // of the gradient; of the value the next one
};

/// Those that `rank` of the run takes part in, in an order that all ranks go by: so that ranks
/// which wait for one another do not wait for good. `first_tag` as in transfers.hpp:
/// transmission_tag.
std::vector<Transmission> transmissions(const Slicing& slicing,
                                        const std::vector<int>& rank_of_stage, int rank,
                                        int first_tag);

/// The owner adds to its gradient those of the others, in ascending order of rank. One without a
/// gradient sends zeros.
void gather_gradients(const std::vector<Transmission>& transmissions, TensorStore& store,
                      Communicator& communicator);

/// The others' parameters become the owner's, bit for bit.
void publish_values(const std::vector<Transmission>& transmissions, TensorStore& store,
                    Communicator& communicator);

}  // namespace penstock
