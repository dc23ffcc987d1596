"""The demo of the live view: a day of flights and a week of earthquakes, over and over, past thousands of standing questions.

`replay` says what is sent when, and what hotspots make of it; `demo` sends it to a service of its own.
"""
