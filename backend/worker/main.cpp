#include "backend/worker/worker.hpp"

int main() { penstock::run_worker(); }
