# Prints the blocks of shell commands of a page of the documentation.

import re
import sys

text = open(sys.argv[1]).read()
print("\n".join(re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)))
