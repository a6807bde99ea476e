"""Evidence packs: one signed archive that says what was promised, measured and tried of a release."""
