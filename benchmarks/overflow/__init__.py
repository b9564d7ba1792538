"""How often the origin and the kind of an overflow are named rightly, on seeded cases and on clean runs."""
