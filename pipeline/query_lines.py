"""Drawn queries as lines of a query file."""

import json
from collections.abc import Sequence

from pipeline.workloads import DrawnQueries
from streams.batches import QUERY_TYPES, TYPE_KNN, TYPE_RANGE, TYPE_TERMS, TYPE_TOPK

__all__ = ["query_lines"]


def query_lines(queries: DrawnQueries, words: Sequence[str]) -> bytes:
    """Return one JSON object a line; `words` are those of the vocabulary, by id."""
    used = {rank: json.dumps(words[rank], ensure_ascii=False) for rank in set(queries.kw.tolist())}
    kw = [used[rank] for rank in queries.kw.tolist()]
    off = queries.kw_off.tolist()
    columns = zip(
        queries.number.tolist(),
        queries.ts.tolist(),
        queries.type.tolist(),
        queries.continuous.tolist(),
        queries.match_any.tolist(),
        queries.at.tolist(),
        queries.rect.tolist(),
        queries.k.tolist(),
        queries.alpha.tolist(),
        queries.window.tolist(),
        queries.slide.tolist(),
        queries.ttl.tolist(),
        off[:-1],
        off[1:],
        strict=True,
    )
    lines = []
    for number, ts, kind, continuous, match_any, at, rect, k, alpha, window, slide, ttl, first, last in columns:
        line = f'{{"op":"register","id":"q{number}","ts":{ts},"type":"{QUERY_TYPES[kind]}"'
        if not continuous:
            line += ',"continuous":false'
        if kind in (TYPE_RANGE, TYPE_TERMS):
            line += f',"region":{{"rect":[{rect[0]!r},{rect[1]!r},{rect[2]!r},{rect[3]!r}]}}'
        else:
            line += f',"at":[{at[0]!r},{at[1]!r}]'
        if kind != TYPE_RANGE:
            line += f',"k":{k}'
        if kind == TYPE_TOPK:
            line += f',"alpha":{alpha!r}'
        if kind != TYPE_TERMS and last > first:
            line += f',"keywords":[{",".join(kw[first:last])}]'
        if kind in (TYPE_RANGE, TYPE_KNN) and match_any:
            line += ',"match":"any"'
        elif kind in (TYPE_RANGE, TYPE_KNN):
            line += ',"match":"all"'
        if window >= 0:
            line += f',"window":{window}'
        if slide > 0:
            line += f',"slide":{slide}'
        if ttl >= 0:
            line += f',"ttl":{ttl}'
        lines.append(line + "}\n")
    return "".join(lines).encode("utf-8")
