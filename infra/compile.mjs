// Compiles every Python file below a folder to bytecode of Python 3.13, whatever Python this machine has: by Pyodide,
// which is CPython as WebAssembly. Call: node compile.mjs <folder>. What cannot be compiled is told, with exit status 1.

import { loadPyodide } from "pyodide";

// Where Lambda has the code, so that tracebacks name the files as they are called there.
const HERE = "/var/task";

const PROGRAM = `
import compileall, py_compile, sys

if sys.version_info[:2] != (3, 13):
    raise SystemExit(f"Lambda runs Python 3.13, and this is {sys.version}")
compileall.compile_dir(
    "${HERE}",
    maxlevels=100,
    quiet=1,  # tells errors only
    force=True,
    # The dates of the files do not matter: they differ each time.
    invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
)
`;

// Sets are written in the order of their hashes: with a seed of its own, each run would make other files.
const python = await loadPyodide({ env: { PYTHONHASHSEED: "0" }, stdout: console.error, stderr: console.error });
python.mountNodeFS(HERE, process.argv[2]);
process.exitCode = python.runPython(PROGRAM) ? 0 : 1;
