"""The live screen: the only place that imports textual, rich or plotext."""
