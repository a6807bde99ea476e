"""Evidence packs: a signed archive of what was guaranteed, measured and tried for a release."""
