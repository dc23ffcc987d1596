"""What columns are likely called, in files of all kinds and in several languages."""

import re

__all__ = ["is_likely"]

#: Words in the name of a column that make it likely for a field.
_LIKELY = {
    "id": ("id", "no", "nr", "number", "key", "uuid", "guid"),
    "ts": (
        "ts", "time", "timestamp", "date", "datetime", "when", "epoch", "created", "occurred", "reported", "start", "at",
        "zeit", "datum", "horodatage", "heure", "fecha", "hora",
    ),
    "lon": ("lon", "lng", "long", "longitude", "longitud", "east", "laenge", "länge"),
    "lat": ("lat", "latitude", "latitud", "north", "breite"),
    "text": (
        "text", "title", "headline", "subject", "body", "description", "desc", "message", "msg", "content", "narrative",
        "comment", "comments", "remarks", "summary", "caption", "details", "note", "notes", "titel", "beschreibung", "titre",
        "texte", "détails", "título", "texto", "descripción",
    ),
    "name": ("name", "label"),
    "x": ("x", "easting", "east", "rechtswert"),
    "y": ("y", "northing", "north", "hochwert"),
}  # fmt: skip

_WORDS = re.compile(r"[A-Z]?[a-zà-ÿ]+|[A-Z]+(?![a-z])|[0-9]+")


def is_likely(name: str, field: str) -> bool:
    """Tell whether the name of a column has a word in it that makes the column likely for a field."""
    return any(word.casefold() in _LIKELY[field] for word in _WORDS.findall(name))
