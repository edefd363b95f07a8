#!/usr/bin/env node
// Imports nothing before the check, and uses no syntax that an old version of Node cannot parse.
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
if (major < 22 || (major === 22 && minor < 19)) {
  console.error(
    `error: Gatehouse needs Node 22.19 or newer, and this is ${process.version}: install Node 24, or run "npx node" in a checkout`,
  );
  process.exit(1);
}
const { run } = await import('./cli/program.ts');
await run(process.argv);
