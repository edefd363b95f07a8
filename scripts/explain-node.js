// Runs at the end of `npm ci`, perhaps on an old Node. npm scripts already find the Node of node_modules, so ask npm for the user's.
import process from 'node:process';

const [, major = '0', minor = '0'] =
  /node\/v(\d+)\.(\d+)/.exec(process.env.npm_config_user_agent ?? '') ?? [];
if (Number(major) < 22 || (major === '22' && Number(minor) < 19))
  process.stderr.write(
    `Your Node is ${major}.${minor}, and Gatehouse needs 22.19 or newer: "npm run" and "npx" use the Node in node_modules, so run "npx node src/main.ts".\n`,
  );
