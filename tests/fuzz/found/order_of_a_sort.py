# `reverse` was taken for a truth value where it must be a number; numbers in a list were hashed as symbols.
LOG = []


def f(x, nums):
    print("begin")
    LOG.append(sorted(set(nums)))
    nums.sort(reverse=1)
    LOG.append(list(nums))
    nums.sort(reverse=[])


def call_0():
    return 0, [3, 0, 1]


def call_1():
    return 0, [1, 2]


def call_2():
    return 0, [1, 5]
