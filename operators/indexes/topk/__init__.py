"""The k best messages of a sliding window by distance and text, for each of many subscriptions (Skype).

Three parts, each with a seam in `topk_index`: a *dissemination* index finds the subscriptions that a new message may enter,
*buffers* keep what is worth knowing of each subscription's window, and a *message index* searches the window again when a
buffer has run dry.
"""
