"""Subscribe to a service, publish, receive, and come back where one was after the connection is lost.

Start a service first, in another terminal:  waterspout serve conf/quickstart.toml
"""

import sys

from waterspout import Client


def main(url: str = "http://127.0.0.1:8765") -> None:
    """Watch a harbour: what arrives there is printed, also across a lost connection."""
    with Client(url) as client:
        client.register("harbour", type="range", region={"rect": [9.8, 53.4, 10.1, 53.6]}, keywords=["container"])
        results = client.results("harbour", cursor=client.position())

        ships = [{"id": f"ship-{n}", "lon": 9.9 + n / 100, "lat": 53.5, "text": "container ship"} for n in range(5)]
        published = client.publish(ships)
        print(f"published {published.accepted}, rejected {len(published.rejected)}")

        seen = [next(results) for _ in range(3)]
        print(f"received {len(seen)}, the last one at cursor {seen[-1].cursor}", file=sys.stderr)

        results.close()  # the connection is gone; the cursor of the last result is all that is needed to go on
        again = client.results("harbour", cursor=seen[-1].cursor)
        seen += [next(again) for _ in range(2)]
        again.close()
        print("received", ", ".join(sorted(str(result.line["object"]) for result in seen)))


if __name__ == "__main__":
    main(*sys.argv[1:])
