"""What is read of requests before anything is judged."""

import pytest
from starlette.requests import Request

from service.bodies import BodyLimits, operation_records, query_object
from service.problems import ProblemError


def _request(kind):
    return Request({"type": "http", "headers": [(b"content-type", kind.encode())]})


@pytest.mark.parametrize(
    ("body", "twice"),
    [
        (b'{"k":1,"k":2}', "k"),
        (b'{"k" : 1, "region": {"rect": [], "rect": []}}', "rect"),
        (b'{"k":1,"\\u006b":2}', "k"),
        (b'{"k":":", "l": {"a:b": ":"}}', None),
        (b'{"k":[{"a":1},{"a":1}]}', None),
    ],
)
def test_fields_that_are_given_twice_are_found(body, twice):
    """As in the lines of a query file: nobody can know which of them was meant."""
    if twice is None:
        assert query_object(body)
        return
    with pytest.raises(ProblemError, match=f"field '{twice}' is given more than once"):
        query_object(body)


def test_operations_have_the_numbers_of_their_lines():
    """Lines that are empty count, as they do among objects."""
    lines = b'\xef\xbb\xbf\r\n{"id":"a"}\r\n\r\nnothing\r\n{"id":"b","id":"c"}\n'
    found = operation_records(_request("application/x-ndjson"), lines, BodyLimits())
    assert [number for number, _ in found] == [2, 4, 5]
    assert found[0][1] == {"id": "a"}
    assert found[2][1] == "field 'id' is given more than once"
    found = operation_records(_request("application/json"), b'[{"id":"a"},{"id":"b"}]', BodyLimits())
    assert [number for number, _ in found] == [1, 2]
