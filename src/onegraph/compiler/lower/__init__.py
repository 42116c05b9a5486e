"""From aten operators to loop programs. One operator is added in exactly one place: a `@lower` in one file here."""
