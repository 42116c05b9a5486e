"""Expressions of an integer that changes from call to call, and is a symbol: values and errors are eager's."""

from __future__ import annotations

import copy
import functools
import itertools
import math
import operator
import string
import warnings
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

import onegraph

EXPRESSIONS = """
len(n)
n()
n[0]
n+"a"
"a"+n
torch.sin(n)
torch.cat(n)
x.view("a",n)
n.foo
iter(n)
[*n]
n<"a"
1 in n
sum(n)
{**n}
math.sqrt("a",n)
max(n)
max(n,"s")
torch.ops.aten.sin.default(n)
torch.ops.aten.select.int(x,0,"a")
[1,2][n:"a"]
"".join([n])
x[n,"a"]
int(n,n)
getattr(x,n)
x.sum(dim="a",keepdim=n)
ord(n)
range(n,"a")
x.expand(n,n,"s")
torch.zeros(n, dtype=n)
n@n
-(n,)
round(n,"a")
"%d%s" % (n,)
x+{n}
(n//0)
n%0
n/0
0**-n
n<<-1
isinstance(1,n)
issubclass(n,int)
(n*0.5)//(n-5)
5 // (n-5)
5 % (n-5)
5 / (n-5)
(n-5)**-1
0**(3-n)
float(n)**1000
divmod(n,n-5)
pow(n-5,-1)
n**0.5
math.sqrt(3-n)
math.log(n-5)
(x/(n-5)).tolist()
(3-n)**0.5
x[n]
x[n-5].item()
[1,2,3,4][n]
"abc"[n]
torch.zeros(3-n).shape
x.reshape(n,-1)
x.expand(n)
math.factorial(3-n)
range(5,0,n-5)
[1,2,3][::n-5]
x.view(n)
torch.arange(0,5,n-5)
x.roll(n).tolist()
torch.eye(n).sum(dim=n)
bytes(3-n)
b"a"*n
"a"*n
[0]*n
(1,)*(3-n)
chr(n)
hex(n)
n.bit_length()
f"{n:>5}"
f"{n:s}"
n.real
{n:1}[5]
min(n,5)
sorted([n,4])
n and 3
not n-5
int.__add__(n,"a")
int.__add__(n,2)
operator.index(n)
x.sum(n)
torch.ones(n-4).mean().item()
isinstance(n,int)
type(n)(2.5)
n.__class__.__name__
n is n
(n).__hash__()
hash(n)
n==5.0
(n,2)==(5,2)
n in (5,7)
round(n/4,1)
int(n/2)
n//2*2==n
abs(5-n)
math.floor(n/2)
math.ceil(-n/2)
-n//2
-n%3
n%-3
n//-2
(-n)%4
math.gcd(n,10)
math.prod([n,n])
sum([n,n])
sum([n/7,0.1,1e16,1.0,-1e16])
complex(n)
n*1j
5//(n-5)
5%(n-5)
5/(n-5)
hasattr(x,n)
setattr(x,n,1)
operator.floordiv(5,n)
operator.mod(n,0)
float(n)/0
n/2%0
(n/2)//0.0
bool(n)
n or 5
math.isnan(n)
math.pow(n,-1)
math.fmod(n,0)
math.exp(n*1000)
n*1e308*10
round(n)
round(n/2)
n.is_integer()
(n/2).is_integer()
(n/2).hex()
n.numerator
n.to_bytes(2,'big')
n.__add__(2)
n.__add__('s')
n.__radd__(2)
n.__bool__()
n.__index__()
n.__float__()
n.conjugate()
n.__str__()
n.__format__('3')
str(n)
repr(n)
'%d'%n
'%5.2f'%n
'{:b}'.format(n)
'{}'.format(n)
len(range(n))
list(range(n))
list(range(n,9,2))
range(n)[2]
slice(n).indices(10)
[0,1,2,3,4,5,6,7][slice(n)]
x[:n]
x[n-3:]
x[None].repeat(n,1).shape
torch.full((2,),n)
torch.full((2,),n/2)
torch.tensor(n)
torch.tensor([n,n])
torch.arange(n)
torch.zeros(n).numel()
x.new_full((1,),n)
x+n
x*n/2
n-x
n/x
n**x
x**n
x//n
x%n
n//x
torch.add(x,x,alpha=n)
x.add_(0*n)
x.clamp(n)
x.clamp(max=n)
torch.where(x>n,x,n)
x==n
x<n
x.masked_fill(x>0,n)
x.to(torch.int64)+n
x.to(torch.int64)/n
x.bool()+n
x.half()*n
torch.ones(2,dtype=torch.uint8)*n
torch.ones(2,dtype=torch.uint8)-n
F.pad(x,(n,0))
F.one_hot(torch.tensor(0),n)
F.softmax(x,n)
x.unsqueeze(n)
torch.linspace(0,1,n)
x.topk(n)
torch.triu(torch.ones(3,3),n)
torch.diag(x,n)
x.split(n)
x.chunk(n)
torch.pow(n,x)
torch.result_type(x,n)
torch.scalar_tensor(n)
enumerate([1],n).__next__()
list(enumerate('ab',n))
list(zip(range(n),'abcdefgh'))
itertools.islice([1,2,3],n).__next__()
list(itertools.repeat(1,n))
next(itertools.count(n))
list(itertools.combinations([1,2,3],n))
functools.reduce(operator.add,[n,n])
'abc'.center(n)
'a,b'.split(',',n)
'abc'.find('c',n)
[5,7].index(n)
[5,7].count(n)
[1].insert(n,2)
[1,2,3].pop(n)
{5:1}.get(n)
{5:1}.setdefault(n,2)
{5,7}.remove(n)
{n:n}
{n}
frozenset([n])
[n]*2
(n,n)+(1,)
max(n,4,key=abs)
max([n,4])
min([n])
sum([n,0.5])
any([n])
all([n])
sorted([n,4],reverse=True)
list(map(str,[n]))
list(filter(None,[n]))
copy.copy(n)
copy.deepcopy([n])
id(n)==id(n)
callable(n)
isinstance(n,(int,float))
issubclass(type(n),int)
type(n) is int
vars(n)
dir(n)[:1]
oct(n)
bin(n)
ascii(n)
format(n,'d')
format(n,'q')
string.Template('$a').substitute(a=n)
f'{n!r}'
f'{n/2:.1f}'
n if n>4 else -n
[i for i in range(n)]
{i:i for i in range(n)}
sum(i for i in range(n))
n<4<n
3<n<6
n!=5
n is None
not n
~n
n^1
n
n<<1
n>>1
+n
-n
n@x
x@n
n+1.5
n+True
n+None
None+n
[1]+n
n+[1]
'a'*n
n*'a'
[1]*n
n*[1]
n*n*n
n**2
n**n
2**n
2.0**n
n%2
n%2.5
n//2.5
divmod(n,3)
divmod(n,2.5)
n/4
n/0.5
1/n
1//n
1%n
n//n
n%n
n/n
(n/2)%3
(n*0.1)//0.1
1.0//(n*0.1+0.05)
(n*0.1)%0.1
1.0%(n*0.1+1)
math.trunc(n/3)
math.floor(n/3)
math.ceil(n/3)
int(n/3)
round(n/3,2)
round(n/3)
(n*0.1)**2
2.0**(n*0.1)
(n*0.1)**0.5
divmod(n*0.1,0.1)
abs(-n*0.1)
-(n*0.0)
max(n*0.1,0.5)
min(n*0.1,1)
n*0.1==0.5
n*0.1<0.6
float(n/2)
str(n/10)
f'{n/10:.3f}'
bool(n/10)
math.sqrt(n+2)
math.exp(n/10)
math.log(n+3)
math.sin(n)
math.cos(n/3)
math.tanh(n)
math.atan2(n,3)
math.hypot(n,4)
math.copysign(1,n)
math.fabs(n)
math.isclose(n/10,.5)
math.floor(-n/2)
n//1.0
1.0//n if n else 0
(n/10)//(n+0.1)
x*(n/10)
x+(n/10)
x//(n/10+1)
x%(n/10+1)
x**(n/10)
(n/10)**x
(n/10)-x
(n+1)/10/x
torch.full((2,),n/10)
torch.tensor(n/10)
x.clamp(n/10)
torch.add(x,x,alpha=n/10)
F.leaky_relu(-x,n/10)
x.pow(n/10)
torch.pow(n/10,x)
torch.lerp(x,x*2,n/10)
x.to(torch.float64)*(n/10)
x.half()*(n/10)
x.to(torch.int64)*(n/10)
torch.where(x>0,n/10,x)
n*1.0//n if n else 0
((n-5)*0.5)**2
((n-5)*0.5)**0.5
((n-5)*0.5)**-1
((n-5)*0.5)**n
0.0**(n*0.1)
(n-7)*0.1//0.3
n//0.7
(n*0.1)//n if n else 0
0.9//(n*0.3+.1)
x//(n*0.1+0.1)
(n*0.1)//x
bool((n-5)*0.1)
(n-5)*0.1 or 7
not (n-3)*0.5
1 if n*0.5 else 2
((n-5)//0.5)
""".strip().splitlines()
NAMES = {"copy": copy, "functools": functools, "itertools": itertools, "math": math, "operator": operator,
         "string": string, "torch": torch, "F": F}  # fmt: skip
FUNCTION = """
def f(x, n):
    try:
        return {}
    except Exception as error:
        return f"{{type(error).__name__}}: {{error}}"
"""


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expression_of_a_number_that_changes(expression: str) -> None:
    names: dict[str, Any] = dict(NAMES)
    exec(FUNCTION.format(expression), names)
    f = names["f"]
    compiled = onegraph.compile(f, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in (3, 5, 7, 0, -2):
            assert repr(compiled(torch.ones(3), n)) == repr(f(torch.ones(3), n)), n
