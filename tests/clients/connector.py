"""Runs the tests of MySQL Connector/Python, from the folder of its source package, and writes the
outcome of each (outcomes.py). The arguments are those of its own unittests.py.
"""

import os
import sys

sys.path[:0] = [os.getcwd(), os.path.join(os.getcwd(), 'lib')]
import outcomes  # noqa: E402
import unittests  # noqa: E402

unittests.BasicTestRunner.resultclass = outcomes.Result
unittests.main()
