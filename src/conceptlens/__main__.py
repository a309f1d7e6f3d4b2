from conceptlens.cli import main

raise SystemExit(main())
