"""What the vendor's library would do: which algorithm it takes at a size, and how long that takes; the baseline of every verb."""
