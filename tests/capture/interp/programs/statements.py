"""Loops, unpacking, displays, slices, small algorithms."""

# Odd on purpose.
# ruff: noqa: B012, B018, B019, B023, B030, B904, E501, E731, F632, F821, F841, I001, UP008, UP031

from capture.interp.programs import program


@program
def loops():
    out = []
    for i in range(10):
        if i % 2:
            continue
        if i > 6:
            break
        for j in range(i):
            if j > 2:
                break
            out.append((i, j))
        else:
            out.append("inner else")
    else:
        out.append("never")
    n = 0
    while n < 5:
        n += 1
        if n == 3:
            continue
    else:
        out.append("while else")
    while True:
        n -= 1
        if not n:
            break
    return out, i, n


@program
def unpacking():
    a, (b, [c, *d]), *e = 1, (2, [3, 4, 5]), 6, 7
    x = y = [0] * 3
    x[0], y[1] = y[1] + 1, x[0] + 2
    *init, last = "abc"
    (only,) = [9]
    first, *_, end = {1: 2, 3: 4, 5: 6}
    return a, b, c, d, e, x, init, last, only, first, end


@program
def unpacking_errors():
    out = []

    def two(v):
        a, b = v
        return a, b

    def star(v):
        a, *b, c, d = v
        return a, b, c, d

    for act, values in ((two, (5, [1], [1, 2, 3], iter("abc"), "ab", None)), (star, ([1, 2], 7, [1, 2, 3]))):
        for v in values:
            try:
                out.append(act(v))
            except (TypeError, ValueError) as e:
                out.append(str(e))
    return out


@program
def displays():
    a, b = [1, 2], {"x": 1}
    return (
        [*a, 3, *(4, 5)],
        (*a, *a),
        {*a, 9},
        {**b, "y": 2, **{"x": 3}},
        {k: v for k, v in zip("abc", range(3), strict=True) if v},
        [(i, j) for i in range(3) for j in range(i) if i + j],
        {len(w): w for w in ["a", "bb", "cc"]},
    )


@program
def display_errors():
    out = []
    for act in (lambda: {**5}, lambda: [*None], lambda: {*1}, lambda: {[]: 1}, lambda: {[]}, lambda: {**{1: 2}}):
        try:
            out.append(act())
        except TypeError as e:
            out.append(str(e))
    return out


@program
def augmented():
    x = [1]
    same = x
    x += [2]
    x *= 2
    d = {"k": 1}
    d["k"] += 4
    d |= {"z": 0}
    n = 7
    n //= 2
    n **= 3
    n ^= 5
    n <<= 2
    n %= 50
    s = {1, 2, 3}
    s &= {2, 3, 4}
    s -= {3}
    t = (1,)
    t += (2,)
    return x, same is x, d, n, s, t, -n, ~n, +n


@program
def slices():
    data = list(range(10))
    data[2:4] = "abc"
    del data[::3]
    text = "hello"
    return data, text[1:3], text[::-1], text[-2:], data[slice(1, 3)], memoryview(b"abcd")[1:3].tobytes()


@program
def conditionals():
    def pick(a, b, c):
        return (
            a and b or c,
            a or (b and c),
            not a or b,
            a if b else c,
            (a is None, a is not None, b in [c], b not in [c]),
        )

    return [pick(a, b, c) for a in (None, 0, "a") for b in ([], 1) for c in ("c", 1)]


@program
def string_formatting():
    name, value, width = "n", 3.14159, 10
    return (
        f"{name!r:>{width}}|{value:{width}.2f}|{{}}|{value:e}|{name * 2=}|{'nested ' + f'{value:.1f}'}",
        f"{1_000_000:,}",
    )


@program
def printing():
    for i in range(3):
        print(i, end=" ")
    print("a", 1, sep="-")
    print(*[1, 2], sep="\n")


@program
def primes():
    def sieve(n):
        flags = [True] * (n + 1)
        for i in range(2, int(n**0.5) + 1):
            if flags[i]:
                flags[i * i :: i] = [False] * len(range(i * i, n + 1, i))
        return [i for i in range(2, n + 1) if flags[i]]

    return sieve(60)


@program
def sorting_and_searching():
    def quicksort(xs):
        if len(xs) <= 1:
            return xs
        pivot, *rest = xs
        return [*quicksort([x for x in rest if x < pivot]), pivot, *quicksort([x for x in rest if x >= pivot])]

    def bisect(xs, x):
        lo, hi = 0, len(xs)
        while lo < hi:
            mid = (lo + hi) // 2
            if xs[mid] < x:
                lo = mid + 1
            else:
                hi = mid
        return lo

    xs = quicksort([5, 3, 8, 1, 9, 2, 7])
    return xs, [bisect(xs, v) for v in (0, 4, 9, 10)]


@program
def words():
    text = "the quick brown fox jumps over the lazy dog the end"
    counts = {}
    for word in text.split():
        counts[word] = counts.get(word, 0) + 1
    by_count = sorted(counts.items(), key=lambda kv: (-kv[1], kv[0]))
    return by_count[:3], " ".join(w.title() for w in text.split()[:4]), {w[0]: w for w in counts}


@program
def dictionary_dispatch():
    ops = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b}

    def rpn(text):
        stack = []
        for token in text.split():
            if token in ops:
                b, a = stack.pop(), stack.pop()
                stack.append(ops[token](a, b))
            else:
                stack.append(float(token))
        (result,) = stack
        return result

    try:
        rpn("1 0 /")
    except ZeroDivisionError as e:
        return rpn("3 4 + 2 *"), str(e)


@program
def mutation_while_iterating():
    d = {"a": 1}
    try:
        for _ in d:
            d["b"] = 2
    except RuntimeError as e:
        return str(e)


@program
def constants():
    return ..., None, True, 1j, 2**100, b"\x00", "é", -0.0, 1e400, {1, 2} == {2, 1}, (1, (2, 3)), frozenset({1})
