// Compiles every Python file below a folder to bytecode of Python 3.13: node compile.mjs <folder>.
// Pyodide, which is CPython compiled to WebAssembly, compiles the files, so the result does not depend on this machine's
// Python. If a file cannot be compiled, the script prints the error and exits with status 1.

import { loadPyodide } from "pyodide";

// Folder of the code on Lambda. Bytecode contains this path, so that tracebacks show the paths on Lambda.
const HERE = "/var/task";

const PROGRAM = `
import compileall, py_compile, sys

if sys.version_info[:2] != (3, 13):
    raise SystemExit(f"Lambda runs Python 3.13, and this is {sys.version}")
compileall.compile_dir(
    "${HERE}",
    maxlevels=100,
    quiet=1,  # prints only errors
    force=True,
    # Validation by modification times would not work, because these differ in each run.
    invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
)
`;

// With a fixed seed, each run produces the same files: bytecode contains sets in the order of their hashes.
const python = await loadPyodide({ env: { PYTHONHASHSEED: "0" }, stdout: console.error, stderr: console.error });
python.mountNodeFS(HERE, process.argv[2]);
process.exitCode = python.runPython(PROGRAM) ? 0 : 1;
