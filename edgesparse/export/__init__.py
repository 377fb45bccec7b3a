"""A plan becomes a C project of a firmware engineer's own: sources, core, and nothing else."""

from edgesparse.export.project import CPUS as CPUS
from edgesparse.export.project import Exported as Exported
from edgesparse.export.project import export_plan as export_plan
