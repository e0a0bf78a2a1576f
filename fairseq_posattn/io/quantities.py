"""Write times and sizes as people read them."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Return a time as text: 45 s, 12 min, 3 h 20 min, 2 d 4 h."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} d {hours % 24} h"


def size_of(size: float) -> str:
    """Return a number of bytes in megabytes or gigabytes."""
    return f"{size / 1e6:,.1f} MB" if size < 1e9 else f"{size / 1e9:,.1f} GB"
