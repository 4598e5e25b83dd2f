"""The order in which a job takes its samples, as docs/training.md has it."""

BITS = 2 ** 64 - 1
ORDER = int.from_bytes(b"order", "big")


def mixed(key, number):
    """splitmix64's output function."""
    z = (key + (number + 1) * 0x9E3779B97F4A7C15) & BITS
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & BITS
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & BITS
    return z ^ (z >> 31)


def permuted(position, size, key):
    half = 4
    while 4 ** half < size:
        half += 1
    while True:
        left, right = divmod(position, 2 ** half)
        for number in range(6):
            left, right = right, left ^ mixed((key + number) & BITS, right) % 2 ** half
        position = left * 2 ** half + right
        if position < size:
            return position


def shuffled(seed, epoch, size):
    """The samples of an epoch."""
    key = mixed(mixed(ORDER, seed), epoch)
    return [permuted(position, size, key) for position in range(size)]
