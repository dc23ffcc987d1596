"""Batches from plain records, written as users write them in JSONL files."""

import numpy as np
import pyarrow as pa
from polygon_model import ring_columns, rings_of

from streams.batches import (
    DETECTS,
    FOREVER,
    NO_WINDOW,
    OP_DELETE,
    OP_REGISTER,
    OP_UNREGISTER,
    OP_UPSERT,
    QUERY_TYPES,
    ObjectBatch,
    QueryBatch,
)
from streams.columns import Ids
from streams.geometry import REGION_CIRCLE, REGION_NONE, REGION_POLYGON, REGION_RECT
from streams.vocabulary import Encoder


def keyword_rows(records, encoder, name="keywords"):
    """Return the ragged keyword column of records."""
    return encoder.lists(pa.array([list(r.get(name, [])) for r in records], pa.list_(pa.string())))


def object_batch(records, encoder=None):
    """Return a batch of objects: id, ts, x, y, keywords, op."""
    kw_off, kw = keyword_rows(records, encoder or Encoder())
    return ObjectBatch(
        seq=np.arange(len(records)),
        ts=np.array([r["ts"] for r in records], np.int64),
        x=np.array([r.get("x", 0.0) for r in records], np.float64),
        y=np.array([r.get("y", 0.0) for r in records], np.float64),
        op=np.array([OP_DELETE if r.get("op") == "delete" else OP_UPSERT for r in records], np.uint8),
        kw_off=kw_off,
        kw=kw,
        ids=Ids.of([r["id"] for r in records]),
    )


def query_batch(operations, encoder=None):
    """Return a batch of query operations; an unregistration ends the last registration of its id."""
    encoder = encoder or Encoder()
    kw_off, kw = keyword_rows(operations, encoder)
    latest, target, end = {}, [], []
    for number, op in enumerate(operations):
        if op.get("op", "register") == "register":
            latest[op["id"]] = number
            end.append(op["ts"] + op["ttl"] if "ttl" in op else FOREVER)
        else:
            end.append(op["ts"])
        target.append(latest[op["id"]])
    regions = [_region(op) for op in operations]
    none_off, none = keyword_rows(operations, encoder, "none")

    def column(name, default, dtype):
        return np.array([op.get(name, default) for op in operations], dtype)

    return QueryBatch(
        number=np.arange(len(operations)),
        target=np.array(target, np.int64),
        op=np.array([OP_UNREGISTER if o.get("op") == "unregister" else OP_REGISTER for o in operations], np.uint8),
        ts=column("ts", 0, np.int64),
        end=np.array(end, np.int64),
        type=np.array([QUERY_TYPES.index(op.get("type", "range")) for op in operations], np.uint8),
        continuous=column("continuous", True, np.bool_),
        match_any=np.array([op.get("match", "all") == "any" for op in operations], np.bool_),
        region=np.array([kind for kind, _ in regions], np.uint8),
        shape=np.array([shape for _, shape in regions], np.float64).reshape(len(operations), 4),
        k=column("k", 0, np.int32),
        alpha=column("alpha", 0.0, np.float64),
        window=column("window", NO_WINDOW, np.int64),
        slide=column("slide", 0, np.int64),
        detect=np.array(
            [sum(1 << DETECTS.index(word) for word in op.get("detect", ())) for op in operations], np.uint8
        ),
        kw_off=kw_off,
        kw=kw,
        ids=Ids.of([op["id"] for op in operations]),
        none_off=none_off,
        none=none,
        **ring_columns([_polygons(op) for op in operations]),
    )


def _polygons(op):
    region = op.get("region", {})
    given = region.get("coordinates", [])
    return given if region.get("type") == "MultiPolygon" else [given] if given else []


def _region(op):
    if "at" in op:
        return REGION_NONE, (*op["at"], 0.0, 0.0)
    region = op.get("region", {})
    if "rect" in region:
        return REGION_RECT, tuple(region["rect"])
    if "circle" in region:
        return REGION_CIRCLE, (*region["circle"], 0.0)
    if "coordinates" in region:
        return REGION_POLYGON, rings_of(_polygons(op)).box()
    return REGION_NONE, (0.0, 0.0, 0.0, 0.0)
