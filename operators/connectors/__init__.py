"""Spouts and sinks on message servers: NATS JetStream, Redis Streams, MQTT, Kafka.

What they have in common is written once. A spout (`stream_spout`) takes messages from a thread that reads ahead (`reader`),
makes entries of them as a journal has (`records`), and keeps in its state how far it has read; a server is sent
acknowledgements only of what a checkpoint covers. A sink (`stream_sink`) gives each alert an id that is the same whenever it is
found (`alerts`), and after a crash asks the server what was published behind the checkpoint, so that nothing is there twice.
What differs is a `Source` and a `Publisher` for each server (`messages`), in a module of its own, which imports its library
when a run needs it.
"""

__all__: list[str] = []
