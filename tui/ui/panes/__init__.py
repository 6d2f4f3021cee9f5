"""One pure function a pane: a view, a width and a height in, lines out."""
