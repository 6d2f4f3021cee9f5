"""One module for each thing we read. A source returns a frozen reading or raises ``SourceError``."""
