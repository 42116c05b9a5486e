# Frames of `__init__` that run on their own: what they gave to `BaseException.__init__` was lost.
class Oops(Exception):
    def __init__(self, code):
        super().__init__(code, "oops")


class Worse(Oops, ValueError):
    def __init__(self, text, code=0):
        super().__init__(code)
        self.text = text


def change(error):
    error.args = ("changed",)
    error.__cause__ = KeyError(2)


def f(x):
    try:
        raise Worse("text", 3)
    except ValueError as error:
        change(error)
        raise


def call_0():
    return (0,)
