"""`python -m sevenfold` is the `sevenfold` command."""

from sevenfold.surfaces.cli import main

raise SystemExit(main())
