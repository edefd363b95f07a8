/**
 * Runs a benchmark whose processes run from a bundle, like the image: the sources, with their types stripped at the
 * start, need 30 MiB more. `node scripts/bench/bundled.ts scripts/bench/certs.ts --check`
 */
import { spawnSync } from 'node:child_process';

import { setup } from '../../test/support/bundle-setup.ts';

const remove = await setup();
const { status } = spawnSync(process.execPath, ['--expose-gc', ...process.argv.slice(2)], {
  stdio: 'inherit',
});
remove();
process.exitCode = status ?? 1;
