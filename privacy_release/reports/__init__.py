"""Reports for people: one self-contained HTML file each, and no record of anybody."""
