// Compares the console's icons with those of Lucide, and prints their hash for `design.test.js`. The package has 67 MB, so it is
// not installed. In an empty folder, for the version that `console/design/icons.js` names:
//
//   npm pack lucide-static@1.62.0
//   tar -xzf lucide-static-1.62.0.tgz package/icon-nodes.json
//   node <checkout>/tests/console/icons.js package/icon-nodes.json

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { ICONS } from "../../console/design/icons.js";

/** Return the hash of the elements of icons. */
export function hashOf(icons) {
  return createHash("sha256").update(JSON.stringify(icons)).digest("hex");
}

if (import.meta.filename === process.argv[1]) {
  const nodes = JSON.parse(readFileSync(process.argv[2], "utf8"));
  const differing = Object.entries(ICONS).filter(([name, icon]) => JSON.stringify(icon) !== JSON.stringify(nodes[name]));
  if (differing.length) throw new Error(`These icons differ from Lucide's: ${differing.map(([name]) => name).join(", ")}.`);
  console.log(hashOf(ICONS));
}
