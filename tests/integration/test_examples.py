"""The examples run, and say what they should."""

import gzip
import io
import json
import sys
from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console

from streams.tokens import tokenise

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))

import alerts  # noqa: E402
import couriers  # noqa: E402
import feed  # noqa: E402
import fences  # noqa: E402
import hotspot  # noqa: E402
import make_couriers  # noqa: E402
import make_subscriptions  # noqa: E402
import nearest  # noqa: E402
import trends  # noqa: E402
import word_count  # noqa: E402


def test_word_count_counts_the_words_of_the_file():
    """The most common words are those that a plain count finds."""
    assert word_count.main().most_common(3) == [("of", 1700), ("earthquake", 1679), ("shallow", 1605)]


def test_alerts_finds_those_who_asked():
    """Each subscription hears of something, and the alert for Anchorage is about Alaska."""
    found = alerts.main()
    assert {query for query, _ in found} == {"anchorage", "geysers", "strong"}


def test_nearest_tells_everybody_of_what_is_near():
    """Each person's last list is full and in the order of distance, and what is told is what entered a list."""
    changes = nearest.main()
    last = {person: found for person, _, found in changes}
    assert {person: len(found) for person, found in last.items()} == {one["id"]: one["k"] for one in nearest.PEOPLE}
    assert all(found == sorted(found, key=lambda item: item[1]) for found in last.values())
    story = nearest.told(changes)
    assert len(story) > len(changes) > 20
    assert any("Mai in Tokyo" in line and "Japan" in line for line in story)


def test_feed_shows_the_best_of_the_window():
    """Feeds are full, best first, name departures of the window only, and are shown with what is new in them."""
    changes = feed.main()
    last = {person: found for person, _, found in changes}
    assert {person: len(found) for person, found in last.items()} == {one["id"]: one["k"] for one in feed.PEOPLE}
    assert all(found == sorted(found, key=lambda item: -item[1]) for found in last.values())
    flights = [row["id"] for row in make_subscriptions.records("flights_one_day.csv.gz")]
    assert {str(flight) for found in last.values() for flight, _ in found} <= set(flights[-feed.WINDOW :])
    console = Console(record=True, width=120, file=io.StringIO())
    feed.show(changes, console)
    shown = console.export_text()
    assert "Ada in Chicago, words first, 9:00" in shown
    assert "new" in shown


def test_trends_are_what_a_plain_count_finds():
    """Words are counted every three hours, questions about the last hour are answered once, and both are shown."""
    answers = trends.main()
    assert {name: len(found) for name, found in answers.items()} == {
        one["id"]: 8 if one["type"] == "terms" else 1 for one in trends.QUESTIONS
    }
    flights = make_subscriptions.records("flights_one_day.csv.gz")
    late = [row for row in flights if "departure late DFW" in row["text"] or "departure late DAL" in row["text"]]
    evening = [row for row in late if "18:00:00" < row["ts"][11:] <= "21:00:00"]
    words = Counter(word for row in evening for word in set(tokenise(row["text"])))
    first = sorted(words.items(), key=lambda item: (-item[1], item[0]))[: len(answers["Dallas"][6][1])]
    assert [(word, round(count)) for word, count in answers["Dallas"][6][1]] == first
    ((_, found),) = answers["What has left Dallas late?"]
    assert {str(flight) for flight, _ in found} == {row["id"] for row in evening if row["ts"][11:] > "20:00:00"}
    console = Console(record=True, width=120, file=io.StringIO())
    trends.show(answers, console)
    assert "16:17  moderate shallow earthquake M5.1 - 6km SE of Hualian, Taiwan" in console.export_text()


@pytest.mark.ray
def test_examples_give_the_same_on_ray():
    """One argument runs them on Ray, with the same outcome."""
    assert sorted(alerts.main("ray")) == sorted(alerts.main())
    assert word_count.main("ray") == word_count.main()
    assert nearest.main("ray") == nearest.main()
    assert feed.main("ray") == feed.main()
    assert trends.main("ray") == trends.main()
    assert hotspot.main("ray") == hotspot.main()


def test_hotspot_is_borne_better_by_a_plan_that_adapts(capsys):
    """The example's own test passes, and adaptive Tornado shares the work much better than a fixed plan."""
    hotspot.test_tornado_bears_a_hotspot()
    efficiency = hotspot.main()
    assert efficiency["tornado"] > 1.5 * efficiency["tornado-static"]
    assert "-> epochs" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "kind"), [("subscriptions", "regions"), ("nearest", "nearest"), ("feeds", "feeds")])
def test_shipped_subscriptions_are_what_the_script_makes(name, kind):
    """The shipped files can be made again."""
    with gzip.open(EXAMPLES / "data" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        assert [json.loads(line) for line in file] == make_subscriptions.subscriptions(kind)


def test_couriers_are_the_best_by_then():
    """Lists are full, best first, of couriers who are there with a word of the kitchen; maps show them by rank."""
    changes = couriers.main()
    last = {kitchen: (ts, found) for kitchen, ts, found in changes}
    ts, nearest = last.pop(couriers.CUSTOMER["id"])
    states = couriers.states_at(ts)
    assert nearest == sorted(nearest, key=lambda item: item[1])
    assert [name for name, _ in nearest if "van" not in states[name]["keywords"]] == [name for name, _ in nearest]
    assert {kitchen: len(found) for kitchen, (_, found) in last.items()} == {one["id"]: 5 for one in couriers.KITCHENS}
    for one in couriers.KITCHENS:
        ts, found = last[one["id"]]
        states = couriers.states_at(ts)
        assert found == sorted(found, key=lambda item: -item[1])
        assert all(set(states[name]["keywords"]) & set(one["keywords"]) for name, _ in found)
    console = Console(record=True, width=120, file=io.StringIO())
    couriers.show(changes, console)
    shown = console.export_text()
    assert "Ida's sushi, near first wants sushi or cold, minute 5" in shown
    assert "Kim, in a hurry wants the nearest, but no van\nminute 2: courier-" in shown
    assert "K" in shown


def test_fences_tell_who_is_inside():
    """Enters and exits take turns; the market finds couriers there when it opens, and has nobody inside when it has closed."""
    events = fences.main()
    turns = {}
    for _, zone, event, courier in events:
        turns.setdefault((zone, courier), []).append(event)
    assert all(told == (["enter", "exit"] * len(told))[: len(told)] for told in turns.values())
    market = [(ts, event) for ts, zone, event, _ in events if zone == "Night market"]
    assert market[0] == (4 * fences.MINUTE, "enter")
    assert market[-1] == (7 * fences.MINUTE, "exit")
    assert fences.there(events, "Night market", 7 * fences.MINUTE) == []
    console = Console(record=True, width=120, file=io.StringIO())
    fences.show(events, console)
    assert "open from minute 4 to 7" in console.export_text()


def test_shipped_couriers_are_what_the_script_makes(tmp_path):
    """The shipped files can be made again."""
    outputs = [
        str(tmp_path / "couriers.jsonl.gz"),
        str(tmp_path / "kitchens.jsonl.gz"),
        str(tmp_path / "zones.jsonl.gz"),
        str(tmp_path / "customers.jsonl.gz"),
    ]
    make_couriers.main(outputs)
    for made in map(Path, outputs):
        assert gzip.decompress(made.read_bytes()) == gzip.decompress((EXAMPLES / "data" / made.name).read_bytes())
