"""`python -m sevenfold` is the `sevenfold` command."""

from sevenfold.cli.main import main

raise SystemExit(main())
