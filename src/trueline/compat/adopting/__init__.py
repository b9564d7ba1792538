"""A predecessor's names, scripts and templates in a user's project, put there and taken away again.

doors     what each predecessor's document expects to find, and where
placing   writes files without losing one that is there, remembers what it wrote, and undoes it

trueline.compat.adopting.adopt("apex", "my_project")
"""

from trueline.compat.adopting.doors import DOORS, Door, Item, Kind, door_named
from trueline.compat.adopting.placing import MEMORY, Adopted, Removed, adopt, place, remove

__all__ = ["DOORS", "MEMORY", "Adopted", "Door", "Item", "Kind", "Removed", "adopt", "door_named", "place", "remove"]
