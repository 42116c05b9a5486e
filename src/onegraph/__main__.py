"""`python -m onegraph` is the command `onegraph`."""

import sys

from onegraph.tools.cli import main

sys.exit(main())
