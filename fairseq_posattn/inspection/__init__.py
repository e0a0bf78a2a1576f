"""Inspect a trained model or a mechanism.

`model.load` loads a trained model; `sentence.Subset` reads sentences as the model reads them. The
modules `attention`, `heads` and `examples` return its attention weights, statistics of its heads,
and translations with trees and attention. `picture` and `trained` compute pictures of a mechanism
and of a trained layer, which `figure` and `page` write to files.
"""
