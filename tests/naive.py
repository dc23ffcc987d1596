"""The contract's results once more, in plain Python over plain records: the reference of the oracle itself.

Every result is worked out anew for every millisecond of the input by looking at every record. Objects and query
operations are dictionaries as in the JSONL files. Two numbers are taken as given rather than computed here, because they
are part of the definition: the distance of `streams.geometry` and the idf of `streams.vocabulary`.
"""

from math import sqrt

from polygon_model import inside_polygons

FAR_FUTURE = float("inf")


def lives(operations):
    """Return the registrations with their ends; an operation without "op" registers."""
    found = []
    for op in operations:
        if op.get("op", "register") == "register":
            found.append({**op, "end": op["ts"] + op.get("ttl", FAR_FUTURE)})
        else:
            last = [q for q in found if q["id"] == op["id"]][-1]
            last["end"] = min(last["end"], op["ts"])
    return [q for q in found if q["ts"] < q["end"]]


class Naive:
    """All results of one input; `distance(o, at)`, `idf(word)` and `keyword_id(word)` are the given numbers."""

    def __init__(self, objects, operations, *, distance, idf, keyword_id, max_distance, window=None, dynamic=False):
        self.objects = [{**o, "seq": seq} for seq, o in enumerate(objects)]
        self.queries = lives(operations)
        self.distance, self.idf, self.keyword_id = distance, idf, keyword_id
        self.max_distance, self.window, self.dynamic = max_distance, window, dynamic
        self.last = max([r["ts"] for r in [*objects, *operations]], default=None)

    def lines(self):
        """Return the lines of a right results file, with one line for each timestamp that changes a knn or topk."""
        return [line for q in self.queries for line in self.lines_of(q)]

    def lines_of(self, q):
        """Return the lines of one query."""
        kind, now = q["type"], q["ts"]
        if "detect" in q:
            return [line for line in self.crossings(q) if line["detect"] in q["detect"]]
        if kind == "range" and q.get("continuous", True):
            found = [o for o in self.upserts() if q["ts"] <= o["ts"] < q["end"] and self.fits(q, o)]
            return [{"query": q["id"], "ts": o["ts"], "object": o["id"]} for o in found]
        if kind == "range":
            found = [o["id"] for o in self.snapshot(q, now) if self.fits(q, o)]
            return [{"query": q["id"], "ts": now, "objects": found}]
        if kind == "terms":
            return [{"query": q["id"], "ts": at, "terms": self.terms(q, at)} for at in self.instants(q)]
        if kind == "knn" and not q.get("continuous", True):
            return [{"query": q["id"], "ts": now, "objects": self.nearest(q, self.snapshot(q, now))}]
        lines, before = [], []
        for t in range(q["ts"], int(min(q["end"] - 1, self.last)) + 1):
            result = self.state(q, t, [o for o in self.objects if o["ts"] <= t])
            if result != before:
                lines.append({"query": q["id"], "ts": t, "objects": result})
                before = result
        return lines

    def instants(self, q):
        """Return when a terms query answers."""
        if not q.get("continuous", True):
            return [q["ts"]]
        return [
            t for t in range(q["ts"] + 1, self.last + 1) if (t - q["ts"]) % q["slide"] == 0 and q["ts"] <= t < q["end"]
        ]

    def state(self, q, now, seen):
        """Return the result of a continuous knn or topk query when these objects have come."""
        if q["type"] == "knn" and self.dynamic:
            return self.nearest(q, self.current(seen))
        if q["type"] == "knn":
            return self.nearest(q, [o for o in seen if o.get("op") != "delete" and q["ts"] <= o["ts"] <= now])
        if self.dynamic:
            present = self.current(seen)
        elif self.window is None:
            present = seen
        elif "objects" in self.window:
            present = seen[-self.window["objects"] :]
        else:
            present = [o for o in seen if o["ts"] > now - self.window["ms"]]
        scored = [(self.score(q, o), o) for o in present if set(q["keywords"]) & set(o["keywords"])]
        tie = 1 if self.dynamic else -1
        scored.sort(key=lambda item: (-item[0], tie * item[1]["seq"]))
        return [[o["id"], value] for value, o in scored[: q["k"]]]

    def current(self, seen):
        """Return the current states of live objects, each with the place at which the object appeared."""
        alive = {}
        for o in seen:
            if o.get("op") == "delete":
                alive.pop(o["id"], None)
            else:
                alive[o["id"]] = {**o, "seq": alive.get(o["id"], o)["seq"]}
        return list(alive.values())

    def crossings(self, q):
        """Return all events of a fence, by looking at who is inside before and after everything that happens."""
        lines, before = [], set()
        steps = [(o["ts"], 1, o["seq"], o) for o in self.objects if o["ts"] < q["end"]]
        steps += [(q["ts"], 0, 0, None)] + ([(q["end"], 0, 0, None)] if q["end"] <= self.last else [])
        for ts, _, seq, o in sorted(steps, key=lambda step: step[:3]):
            seen = [r for r in self.objects if (r["ts"] < ts if o is None else r["seq"] <= seq)]
            alive = q["ts"] <= ts < q["end"]
            now = {r["id"] for r in self.current(seen) if alive and self.fits(q, r)}
            events = {"enter": now - before, "exit": before - now}
            events["inside"] = {o["id"]} & now & before if o is not None else set()
            lines += [{"query": q["id"], "ts": ts, "object": name, "detect": e} for e in events for name in events[e]]
            before = now
        return lines

    def upserts(self):
        """Return what is not a deletion."""
        return [o for o in self.objects if o.get("op") != "delete"]

    def snapshot(self, q, now):
        """Return the objects with now - window < ts <= now."""
        return [o for o in self.upserts() if now - q.get("window", FAR_FUTURE) < o["ts"] <= now]

    def nearest(self, q, objects):
        """Return the k nearest of these objects that fit the keywords, ties by input order."""
        near = [(self.distance(o, q["at"]), o["seq"], o["id"]) for o in objects if self.fits_keywords(q, o)]
        return [[name, far] for far, _, name in sorted(near, key=lambda item: item[:2])[: q["k"]]]

    def terms(self, q, now):
        """Return the k most frequent terms of the region."""
        counts = {}
        for o in self.snapshot(q, now):
            if self.fits(q, o):
                for word in set(o["keywords"]):
                    counts[word] = counts.get(word, 0) + 1
        return [[word, n] for word, n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: q["k"]]]

    def fits(self, q, o):
        """Tell whether an object is inside the region and fits the keywords."""
        return self.inside(q.get("region", {}), o) and self.fits_keywords(q, o)

    def inside(self, region, o):
        """Tell whether an object is inside a closed region."""
        if "rect" in region:
            low_x, low_y, high_x, high_y = region["rect"]
            return low_x <= o["x"] <= high_x and low_y <= o["y"] <= high_y
        if "circle" in region:
            x, y, r = region["circle"]
            return self.within(o, (x, y), r)
        if "coordinates" in region:
            several = region["type"] == "MultiPolygon"
            return inside_polygons(region["coordinates"] if several else [region["coordinates"]], (o["x"], o["y"]))
        return True

    def within(self, o, at, r):
        """Compare squares, as the definition of a Euclidean circle does."""
        dx, dy = o["x"] - at[0], o["y"] - at[1]
        return dx * dx + dy * dy <= r * r

    def fits_keywords(self, q, o):
        """Tell whether an object has all of the keywords, or any, and none of those that are excluded."""
        wanted, given = set(q.get("keywords", [])), set(o["keywords"])
        if given & set(q.get("none", [])):
            return False
        if not wanted:
            return True
        return bool(wanted & given) if q.get("match", "all") == "any" else wanted <= given

    def score(self, q, o):
        """Return alpha * (1 - distance / maxdist) + (1 - alpha) * cosine, sums from left to right by keyword id."""
        mine, theirs = self.unit(o["keywords"]), self.unit(q["keywords"])
        cosine = 0.0
        for word, weight in mine.items():
            if word in theirs:
                cosine += weight * theirs[word]
        near = 1.0 - self.distance(o, q["at"]) / self.max_distance
        return q["alpha"] * near + (1.0 - q["alpha"]) * cosine

    def unit(self, words):
        """Return the unit-length tf-idf vector of a set of words, in the order of their ids."""
        ordered = sorted(set(words), key=self.keyword_id)
        squares = 0.0
        for word in ordered:
            squares += self.idf(word) * self.idf(word)
        return {word: self.idf(word) / sqrt(squares) for word in ordered}


class NaiveOnEarth(Naive):
    """The same where a circle is measured along the earth, not in the plane."""

    def within(self, o, at, r):
        """Compare distances, as the definition of a haversine circle does."""
        return self.distance(o, at) <= r
