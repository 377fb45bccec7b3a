"""Print what linking the whole core adds to a firmware image, at -Os; or what one plan needs of it.

    python firmware_sim/size.py [--cpu cortex-m4] [--json]
    python firmware_sim/size.py --store | --link [--without streams] [--without console]
    python firmware_sim/size.py --plan ecg.esp [--plan ...] [--cpu cortex-m4] [--check-on-device]

Builds firmware_sim/footprint.c with every public function as a root and --gc-sections, so the
figure is the core's code and tables and the compiler helpers they call: no plan, no startup.
--store and --link are what the plan store (store.h), or link and plan store with SHA-256 (link.h,
store.h), add to that image, everything counted once; RAM is then es_link and es_store, buffers of
1,024 bytes and a ring of 512. --functions lists the largest functions and tables added.
--plan builds the core that `edgesparse export` writes for that plan, with the functions its main.c
calls as roots, and says which part weighs what.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from size_of_image import added, image_of, measure, symbols
from size_of_plan import measure_plan

CPUS = ("cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55")


def measured(args: argparse.Namespace, cpu: str) -> tuple[dict[str, int], dict[str, int]]:
    """Sizes, and those of functions and tables."""
    if args.store or args.link:
        image = "footprint_store" if args.store else "footprint_device"
        return added(cpu, sorted(args.without), image)
    whole = image_of(cpu, (), "footprint")
    return measure(whole), symbols(whole)


def show(name: str, size: dict[str, int], largest: list[tuple[str, int]]) -> None:
    print(f"{name:<10}", *(f"{what} {count:>6}" for what, count in size.items()))
    print("".join(f"{count:>8} {function}\n" for function, count in largest), end="")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cpu", choices=CPUS, action="append",
                        help="default: all four, with --plan cortex-m4")
    parser.add_argument("--json", action="store_true")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--store", action="store_true", help="what the plan store adds")
    part.add_argument("--link", action="store_true", help="what link and plan store add")
    part.add_argument("--plan", type=Path, action="append", help="what this plan needs")
    parser.add_argument("--check-on-device", action="store_true", help="with --plan: see export")
    parser.add_argument("--without", choices=("console", "streams"), action="append", default=[])
    parser.add_argument("--functions", type=int, default=0, metavar="N")
    args = parser.parse_args()
    sizes: dict[str, dict[str, int]] = {}
    largest: dict[str, list[tuple[str, int]]] = {}
    if args.plan:
        for path in args.plan:
            for cpu in args.cpu or CPUS[:1]:
                sizes[f"{path.stem} {cpu}"] = measure_plan(
                    cpu, path, trusted=not args.check_on_device)
    else:
        for cpu in args.cpu or CPUS:
            sizes[cpu], names = measured(args, cpu)
            largest[cpu] = sorted(names.items(), key=lambda item: -item[1])[: args.functions]
    if args.json:
        print(json.dumps(sizes))
        return
    for name, size in sizes.items():
        show(name, size, largest.get(name, []))


if __name__ == "__main__":
    main()
